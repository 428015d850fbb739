"""Runs of the command line in a process of their own: fresh imports, own memory, and a death that is real."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from spectrabeam.pipeline import folder

from .pipelines import RAW

LIMIT_S = 120  # a run that takes longer hangs

# What the process tells about itself at its end. VmHWM begins at exec, unlike rusage, which a parent's size spoils.
_CODE = """
import json, sys
opened = set()
sys.addaudithook(lambda event, args: opened.add(str(args[0])) if event == "open" else None)
{first}
from spectrabeam.pipeline.__main__ import main
try:
    code = main(sys.argv[2:])
except SystemExit as end:
    code = end.code
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
with open(sys.argv[1], "w") as file:
    json.dump({{
        "peak_bytes": int(status["VmHWM"].split()[0]) * 1024,
        "tensorflow": "tensorflow" in sys.modules,
        "opened": sorted(ascii(name) for name in opened),
    }}, file)
sys.exit(code)
"""


@dataclasses.dataclass(frozen=True)
class FreshResult:
    """What a process returned, printed and was like; the last three are empty where it did not reach its end."""

    code: int
    out: str
    err: str
    peak_bytes: int = 0
    tensorflow: bool = False
    opened: tuple[str, ...] = ()


def extract_arguments(source: Path, output: Path, *arguments: object) -> list[str]:
    """The command line of `helpers.pipelines.extract`."""
    words = ("extract", "--input", source, "--output", output, *RAW, "--device", "cpu", *arguments)
    return [str(word) for word in words]


def run_fresh(folder: Path, *arguments: object, first: str = "", **environment: str) -> FreshResult:
    """Runs a verb in a fresh interpreter.

    Args:
      folder: where to keep a file for the process's report.
      *arguments: the verb and its arguments.
      first: code to run before anything is imported.
      **environment: variables to set.
    """
    report = folder / "about-the-process.json"
    report.unlink(missing_ok=True)
    done = subprocess.run(
        [sys.executable, "-c", _CODE.format(first=first), str(report), *(str(each) for each in arguments)],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=LIMIT_S,
        check=False,
    )
    about = json.loads(report.read_text()) if report.exists() else {}
    report.unlink(missing_ok=True)
    return FreshResult(done.returncode, done.stdout, done.stderr, **about)


def run_and_kill(arguments: list[str], when: Callable[[], bool], delay_s: float = 0.0) -> bool:
    """Starts a run and kills it `delay_s` after `when` became true; returns whether it was still running."""
    process = subprocess.Popen(
        [sys.executable, "-m", "spectrabeam.pipeline", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + LIMIT_S
        while process.poll() is None and not when():
            assert time.monotonic() < deadline
            time.sleep(0.002)
        time.sleep(delay_s)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        code = process.wait()
    return code == -signal.SIGKILL


def after_planning(monkeypatch, action: Callable[[], object]) -> None:
    """Lets `action` happen after the input was planned and before any of it is read."""
    prepare = folder.prepare

    def prepare_and_act(*arguments, **keywords):
        work = prepare(*arguments, **keywords)
        action()
        return work

    monkeypatch.setattr(folder, "prepare", prepare_and_act)


@contextmanager
def must_end(pipe: Path, patience_s: float = 3.0) -> Iterator[None]:
    """Fails, instead of hanging for ever, where something in this process waits for a writer of the FIFO.

    However slow the run is, it fails only if a reader is there: without one, opening for writing is refused.
    One that opens and closes at once is not held against it, hence the patience.
    """
    waited = threading.Event()
    ended = threading.Event()

    def release() -> None:
        ended.wait(patience_s)
        while not ended.wait(0.05):
            with contextlib.suppress(OSError):
                os.close(os.open(pipe, os.O_WRONLY | os.O_NONBLOCK))
                waited.set()

    thread = threading.Thread(target=release, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
    assert not waited.is_set(), f"{pipe} was opened, and the run waited for somebody to write into it"


def identities(dataset: Path) -> dict[str, tuple[int, int]]:
    """Shard file to inode and modification time: the same only if nobody wrote the file again."""
    return {
        path.name: (path.lstat().st_ino, path.lstat().st_mtime_ns)
        for path in dataset.glob("spectrabeam-*.tfrecord")
    }

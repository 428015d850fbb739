"""How fast is `spectrabeam extract`, and what does one gain over writing it oneself?

    python benchmarks/extract.py                                8,000 and 40,000 files, five rounds
    python benchmarks/extract.py --files 500 --rounds 1         a trial
    python benchmarks/extract.py --memory-files 8000 80000      does memory grow with the number of files?

Every candidate runs as its own process on the same files: this product and the programs in
`benchmarks/baselines` (or another script with the same command line, `--peers FILE`). They take turns, A B C D,
then B C D A, and so on, so that whatever else the machine does meets all of them; ratios are taken within a
round. Programs and input are read once beforehand and not counted, so that all find the same page cache.

What is measured of a run:
- wall: from the start of the process to its end, with imports, planning and compilation;
- CPU: user and system time of the process and of its children that have ended;
- peak memory: the largest sum of resident memory over the process and all its descendants, sampled every 50 ms,
  or the kernel's own maximum for one process, if that is larger; memory that processes share counts for each;
- steady: examples a second without the start. Of this product from `runs.jsonl`: examples over the time of the
  shards. Of a baseline from the line it prints: everything but its imports.

This product makes its shards durable (fsync) before it ends; the baselines leave that to the system.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import importlib.metadata
import json
import os
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median
from typing import Any

import psutil

SAMPLES, SAMPLE_RATE = 16_384, 12_000
FILE_BYTES = 4 * SAMPLES
OURS = "spectrabeam"
BASELINES = ("loop", "tfdata", "beam")
SLOW = ("tfdata", "beam")
PROGRAMS = Path(__file__).with_name("baselines")
INPUT_MAKER = (
    f"{shlex.quote(sys.executable)} {shlex.quote(str(PROGRAMS / 'waveforms.py'))} {{folder}} {{files}}"
)
SAMPLING_S = 0.05
WARM_UP_FILES = 128
LIBRARIES = ("apache-beam", "numpy", "spectrabeam", "tensorflow", "tfx-bsl")


class BenchmarkError(Exception):
    """The benchmark cannot go on; the message says why."""


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A program to measure, and the command line that makes it fill a second folder from a first."""

    name: str
    command: Callable[[str, str], list[str]]


@dataclasses.dataclass(frozen=True)
class Usage:
    """What a process took, its descendants included; see the head of this file."""

    wall_s: float
    cpu_s: float
    tree_peak_bytes: int
    process_peak_bytes: int

    @property
    def peak_bytes(self) -> int:
        """Peak memory: sampling may miss a short peak of a process, the kernel does not."""
        return max(self.tree_peak_bytes, self.process_peak_bytes)


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of one candidate.

    Attributes:
      steady_s: seconds without the start, by the candidate's own account.
      attempt: of this product, figures from its `runs.jsonl`.
    """

    candidate: str
    files: int
    round: int
    examples: int
    steady_s: float
    usage: Usage
    attempt: dict[str, Any] | None


# Title to what it takes of a run, and how it is written.
MEASURES: dict[str, tuple[Callable[[Run], float], str]] = {
    "wall s": (lambda run: run.usage.wall_s, ".2f"),
    "examples/s, whole process": (lambda run: run.examples / run.usage.wall_s, ",.0f"),
    "examples/s, steady": (lambda run: run.examples / run.steady_s, ",.0f"),
    "CPU µs/example": (lambda run: run.usage.cpu_s / run.examples * 1e6, ",.0f"),
    "peak MB": (lambda run: run.usage.peak_bytes / 1e6, ",.0f"),
}
RATIOS = tuple(MEASURES)[1:]
STAGES = ("read", "compute", "encode", "write")


# Candidates


def our_candidate() -> Candidate:
    """This product, as it is installed beside this Python."""
    script = Path(sys.executable).with_name(OURS)
    program = [str(script)] if script.exists() else [sys.executable, "-m", "spectrabeam.pipeline"]
    settings = ["--raw-dtype", "<f4", "--sample-rate", str(SAMPLE_RATE)]
    return Candidate(OURS, lambda raw, out: [*program, "extract", "--input", raw, "--output", out, *settings])


def baseline(name: str, program: Path) -> Candidate:
    """A program that is called as PROGRAM NAME RAW_DIR OUT_DIR."""
    return Candidate(name, lambda raw, out: [sys.executable, str(program), name, raw, out])


# Input


def find_input(options: argparse.Namespace, work: Path) -> list[Path]:
    """The files to work on, as many as the largest count or more; made where no folder is given."""
    largest = max(*options.files, *options.memory_files, 1)
    folder = options.input or work / "waveforms"
    if not options.input:
        command = (options.input_maker or INPUT_MAKER).format(folder=shlex.quote(str(folder)), files=largest)
        if subprocess.run(command, shell=True, stdout=sys.stderr).returncode:
            raise BenchmarkError(f"the command that makes the input failed: {command}")
    files = sorted(folder.glob("*.raw"))
    if len(files) < largest:
        raise BenchmarkError(f"{folder} holds {len(files)} files *.raw, and {largest} are needed")
    odd = next((file for file in files if file.stat().st_size != FILE_BYTES), None)
    if odd:
        raise BenchmarkError(f"{odd} has not the {FILE_BYTES} bytes of {SAMPLES} float32 samples")
    return files


def link_files(files: Iterable[Path], folder: Path) -> Path:
    """A new folder with these files in it, without copying them where the file system allows it."""
    folder.mkdir()
    for file in files:
        try:
            os.link(file, folder / file.name)
        except OSError:
            shutil.copyfile(file, folder / file.name)
    return folder


# Measuring


def watch_memory(root: psutil.Process, stopped: threading.Event) -> int:
    """The largest sum of resident bytes of a process and its descendants, until `stopped`."""
    peak_bytes = 0
    while not stopped.wait(SAMPLING_S):
        with contextlib.suppress(psutil.NoSuchProcess):  # one of them may end meanwhile
            tree = [root, *root.children(recursive=True)]
            peak_bytes = max(peak_bytes, sum(process.memory_info().rss for process in tree))
    return peak_bytes


def run_measured(command: Sequence[str], log: Path) -> Usage:
    """Runs a command to its end, with its output in `log`.

    Raises:
      BenchmarkError: it failed.
    """
    stopped = threading.Event()
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3", "TMPDIR": str(log.absolute().parent)}
    os.sync()  # what was written before does not hold this run up
    with log.open("wb") as output, ThreadPoolExecutor(1) as watching:
        began = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
        try:
            peak_bytes = watching.submit(watch_memory, psutil.Process(process.pid), stopped)
            _, status, used = os.wait4(process.pid, 0)
        except BaseException:
            process.kill()
            process.wait()
            raise
        finally:
            wall_s = time.perf_counter() - began
            stopped.set()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        lines = log.read_text(errors="replace").strip().splitlines()
        raise BenchmarkError(
            f"exit code {process.returncode} of {shlex.join(command)}: {' | '.join(lines[-5:])}"
        )
    return Usage(wall_s, used.ru_utime + used.ru_stime, peak_bytes.result(), used.ru_maxrss * 1024)


def run_candidate(candidate: Candidate, raw: Path, work: Path, number: int = 0) -> Run:
    """One run on the folder `raw`; what it writes is removed again."""
    out, log = work / "out", work / "log.txt"
    files = sum(1 for _ in raw.iterdir())
    try:
        usage = run_measured(candidate.command(str(raw), str(out)), log)
        attempt = read_attempt(out) if candidate.name == OURS else None
        printed = (attempt["examples"], attempt["shards_s"]) if attempt else read_printed(candidate.name, log)
    finally:
        shutil.rmtree(out, ignore_errors=True)
    return Run(candidate.name, files, number, *printed, usage, attempt)


def read_attempt(dataset: Path) -> dict[str, Any]:
    """This product's own figures: times in seconds, and on what it computed."""
    attempt = json.loads((dataset / "runs.jsonl").read_text().splitlines()[-1])
    metadata = json.loads((dataset / "spectrabeam.json").read_text())
    kept = ("bytes_written", "examples", "plan_s", "runner", "shards_s", "stage_s", "total_s")
    return {key: attempt[key] for key in kept} | {"computed_by": metadata["computed_by"]}


def read_printed(name: str, log: Path) -> tuple[int, float]:
    """Examples and seconds from the last line `NAME examples seconds examples/s`."""
    lines = re.findall(rf"^{name} (\d+) ([\d.]+) \d+$", log.read_text(errors="replace"), re.MULTILINE)
    examples, seconds = lines[-1] if lines else (0, 0)
    if not float(examples) or not float(seconds):
        raise BenchmarkError(f"{name} did not print a line `{name} examples seconds examples/s`, all above 0")
    return int(examples), float(seconds)


def run_rounds(candidates: Sequence[Candidate], files: Sequence[Path], work: Path, rounds: int) -> list[Run]:
    """All candidates in turn, `rounds` times, each round beginning with another one.

    Every file is read once before, so that all candidates find it in the page cache.
    """
    raw = link_files(files, work / f"{len(files)}-files")
    for file in raw.iterdir():
        file.read_bytes()
    runs = []
    for number in range(rounds):
        first = number % len(candidates)
        for candidate in (*candidates[first:], *candidates[:first]):
            run = run_candidate(candidate, raw, work, number)
            runs.append(run)
            figures = ", ".join(f"{take(run):{form}} {title}" for title, (take, form) in MEASURES.items())
            say(f"round {number + 1} of {rounds}, {run.files:,} files, {run.candidate}: {figures}")
    shutil.rmtree(raw)
    return runs


# Results


def summarize(values: Iterable[float]) -> dict[str, float]:
    """Median and range."""
    ordered = sorted(values)
    return {"median": median(ordered), "min": ordered[0], "max": ordered[-1]}


def compare(runs: Sequence[Run]) -> dict[str, Any]:
    """The results of one number of files: figures of each candidate, ratios to each baseline, our stages."""
    by_name: dict[str, list[Run]] = {}
    for run in sorted(runs, key=lambda run: run.round):
        by_name.setdefault(run.candidate, []).append(run)
    return {
        "files": runs[0].files,
        "rounds": len(by_name[OURS]),
        "measures": {
            name: {title: summarize(map(take, theirs)) for title, (take, _) in MEASURES.items()}
            for name, theirs in by_name.items()
        },
        "ratios": {
            name: {title: summarize(_ratios(by_name[OURS], theirs, MEASURES[title][0])) for title in RATIOS}
            for name, theirs in by_name.items()
            if name != OURS
        },
        "stages": find_stages(by_name[OURS]),
        "incomplete": {
            name: run[0].examples for name, run in by_name.items() if run[0].examples != run[0].files
        },
        "runs": list(map(run_json, runs)),
    }


def _ratios(ours: Iterable[Run], theirs: Iterable[Run], take: Callable[[Run], float]) -> list[float]:
    """Ours ÷ theirs, within each round."""
    return [take(mine) / take(other) for mine, other in zip(ours, theirs, strict=True)]


def find_stages(runs: Iterable[Run]) -> dict[str, dict[str, float]]:
    """This product's stages, in µs of thread time an example, and the parts of its wall time, in seconds."""
    values: dict[str, list[float]] = {}
    for run in runs:
        own = run.attempt or {}
        parts = {f"{stage} µs/example": own["stage_s"][stage] / run.examples * 1e6 for stage in STAGES} | {
            "start and exit s": run.usage.wall_s - own["total_s"],
            "plan s": own["plan_s"],
            "shards s": own["shards_s"],
            "other s": own["total_s"] - own["plan_s"] - own["shards_s"],
        }
        for title, value in parts.items():
            values.setdefault(title, []).append(value)
    return {title: summarize(some) for title, some in values.items()}


def find_growth(runs: Sequence[Run]) -> dict[str, Any]:
    """Peak memory by number of files, and how it grows from the fewest to the most."""
    counts = sorted({run.files for run in runs})
    fewest, most = counts[0], counts[-1]
    peaks = {n: summarize(run.usage.peak_bytes / 1e6 for run in runs if run.files == n) for n in counts}
    return {
        "peak_mb": peaks,
        "files_ratio": most / fewest,
        "peak_ratio": peaks[most]["median"] / peaks[fewest]["median"],
        "runs": list(map(run_json, runs)),
    }


def run_json(run: Run) -> dict[str, Any]:
    """A run with its derived figures."""
    return dataclasses.asdict(run) | {title: take(run) for title, (take, _) in MEASURES.items()}


def show_comparison(results: dict[str, Any]) -> str:
    """The tables of one number of files."""
    measures = [
        [name, *(show(values[title], form) for title, (_, form) in MEASURES.items())]
        for name, values in results["measures"].items()
    ]
    ratios = [
        [name, *(show(values[title], ".2f") for title in RATIOS)]
        for name, values in results["ratios"].items()
    ]
    stages = [show(value, ".1f" if "µs" in title else ".2f") for title, value in results["stages"].items()]
    parts = [
        f"## {results['files']:,} files, rounds: {results['rounds']}; median (min..max)",
        table(["candidate", *MEASURES], measures),
    ]
    if ratios:
        parts += [f"{OURS} ÷ baseline, pair by pair within a round:", table(["baseline", *RATIOS], ratios)]
    parts += [
        f"{OURS}: stages (time of all threads) and parts of the wall time:",
        table(["", *results["stages"]], [[OURS, *stages]]),
        *(f"Not all files: {name} made {count:,} examples." for name, count in results["incomplete"].items()),
        *(f"Left out above --slow-limit: {name}." for name in results["left_out"]),
    ]
    return "\n" + "\n\n".join(parts)


def show_growth(growth: dict[str, Any]) -> str:
    """Peak memory by number of files."""
    rows = [[f"{files:,}", show(peak, ",.0f")] for files, peak in growth["peak_mb"].items()]
    return (
        f"\n## Peak memory of {OURS}; median (min..max)\n\n{table(['files', 'peak MB'], rows)}\n\n"
        f"{growth['files_ratio']:.1f} times the files take {growth['peak_ratio']:.2f} times the memory."
    )


def show(summary: dict[str, float], form: str) -> str:
    """`median (min..max)`."""
    middle, low, high = (format(summary[key], form) for key in ("median", "min", "max"))
    return middle if low == high else f"{middle} ({low}..{high})"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown with aligned columns."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    lines = []
    for name, *cells in (head, rule, *rows):
        right = [cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=True)]
        lines.append(f"| {' | '.join([name.ljust(widths[0]), *right])} |")
    return "\n".join(lines)


def describe_machine() -> dict[str, Any]:
    """What the figures depend on."""
    models = re.findall(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": psutil.virtual_memory().total,
        "system": f"{platform.system()} {platform.release()}",
        "load_before": os.getloadavg()[0],
    }


# Command line


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options, checked, with the defaults that depend on others filled in."""
    parser = argparse.ArgumentParser(description="Measures extract beside what one would write instead.")
    add = parser.add_argument
    number = {"type": int, "metavar": "N"}
    folder = {"type": Path, "metavar": "DIR"}
    file = {"type": Path, "metavar": "FILE"}
    add("--files", **number, nargs="+", help="compare at these numbers of files (8000 40000)")
    add("--memory-files", **number, nargs="+", help="our peak memory at these; without --files only that")
    add("--rounds", **number, default=5, help="runs of each candidate (%(default)s)")
    add("--baselines", nargs="*", choices=BASELINES, default=BASELINES, help="compare with these (all)")
    add("--slow-limit", **number, default=8000, help="above it no tfdata and beam (%(default)s)")
    add("--peers", **file, default=PROGRAMS, help="other baselines, called as FILE NAME RAW_DIR OUT_DIR")
    add("--input", **folder, help="take the files *.raw in this folder, not simulated ones")
    add("--input-maker", metavar="COMMAND", help="makes the files; {folder}, {files} are filled in")
    add("--work", **folder, help="for input and output meanwhile, on a disk (the system's temporary folder)")
    add("--json", **file, help="write all runs, the machine and the versions there")
    options = parser.parse_args(arguments)
    if options.input and options.input_maker:
        parser.error("--input and --input-maker exclude each other")
    if not options.peers.exists():
        parser.error(f"--peers {options.peers} does not exist")
    if options.json and not options.json.absolute().parent.is_dir():
        parser.error(f"--json {options.json} lies in no folder")
    options.files = sorted(set(options.files or ([] if options.memory_files else [8000, 40000])))
    options.memory_files = sorted(set(options.memory_files or []))
    if min(*options.files, *options.memory_files, options.rounds) < 1:
        parser.error("--files, --memory-files and --rounds must be at least 1")
    return options


def say(text: str) -> None:
    """Progress, apart from the results."""
    print(text, file=sys.stderr, flush=True)


def benchmark(options: argparse.Namespace, work: Path) -> dict[str, Any]:
    """Runs what was asked for, prints the tables, and returns everything for the JSON file."""
    say("preparing")
    ours = our_candidate()
    baselines = [baseline(name, options.peers) for name in dict.fromkeys(options.baselines)]
    machine = describe_machine()
    files = find_input(options, work)
    warm_up_files = link_files(files[:WARM_UP_FILES], work / "warm-up")
    for candidate in (ours, *baselines) if options.files else (ours,):
        run_candidate(candidate, warm_up_files, work)

    comparisons = []
    for count in options.files:
        left_out = [one.name for one in baselines if one.name in SLOW and count > options.slow_limit]
        candidates = [ours, *(one for one in baselines if one.name not in left_out)]
        results = compare(run_rounds(candidates, files[:count], work, options.rounds))
        comparisons.append(results | {"left_out": left_out})
        print(show_comparison(comparisons[-1]), flush=True)
    growth = None
    if options.memory_files:
        runs = [run_rounds([ours], files[:count], work, options.rounds) for count in options.memory_files]
        growth = find_growth([run for some in runs for run in some])
        print(show_growth(growth))
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "machine": machine,
        "versions": {name: importlib.metadata.version(name) for name in LIBRARIES}
        | {"python": platform.python_version()},
        "baselines": options.peers.name,
        "input": "a folder" if options.input else "a command" if options.input_maker else "simulated",
        "comparisons": comparisons,
        "memory": growth,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and returns the exit code."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the work folder is removed then, too
    options = parse(arguments)
    try:
        if options.work:
            options.work.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="spectrabeam-benchmark-", dir=options.work) as work:
            results = benchmark(options, Path(work))
    except (BenchmarkError, KeyboardInterrupt) as error:
        say(f"error: {str(error) or 'interrupted'}")
        return 1
    if options.json:
        options.json.write_text(json.dumps(results, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

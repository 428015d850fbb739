"""How long does planning take, and how much memory, as an archive of small files grows?

    python benchmarks/plan.py                                  10,000 and 100,000 files, three rounds
    python benchmarks/plan.py --files 1000 10000 --rounds 1    a trial

Headerless files need only their size from the listing; WAV files are opened, eight at a time. Each measurement is
its own process that plans as `extract` does (match, headers, labels, splits, blocks, shards) and writes nothing.
They take turns. The files are read once beforehand, so all find the same page cache.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import wave
from pathlib import Path
from statistics import median

FRAMES = 400
_PLAN = """
import json, resource, sys, time
from spectrabeam.pipeline.plan import plan_inputs
from spectrabeam.pipeline.settings import Settings
folder, kind = sys.argv[1:]
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
began = time.perf_counter()
plan = plan_inputs(
    Settings(
        input=folder, input_format=kind, raw_dtype="<i2", sample_rate=8000, segment_length=512,
        label_from=r"path:(?P<label>\\d)\\.",
    ),
    None,
)
seconds = time.perf_counter() - began
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"files": plan.recordings.num_rows, "seconds": seconds, "bytes": 1024 * (after - before)}))
"""


def write_files(folder: Path, kind: str, count: int) -> Path:
    """`count` small files of 16-bit samples, a thousand in a folder."""
    for number in range(count):
        path = folder / f"{number // 1000:04d}" / f"{number:07d}.{kind}"
        path.parent.mkdir(parents=True, exist_ok=True)
        samples = bytes(2 * (FRAMES + number % 100))
        if kind == "raw":
            path.write_bytes(samples)
        else:
            with wave.open(str(path), "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(8000)
                file.writeframes(samples)
    return folder


def measure(folder: Path, kind: str) -> dict[str, float]:
    """Seconds and additional memory of one planning."""
    command = [sys.executable, "-c", _PLAN, str(folder), kind]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(description="Times the planning of many small files.")
    parser.add_argument("--files", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="spectrabeam-plan-") as work:
        cases = [(kind, count) for kind in ("raw", "wav") for count in options.files]
        folders = {case: write_files(Path(work) / f"{case[0]}{case[1]}", *case) for case in cases}
        results: dict[tuple[str, int], list[dict[str, float]]] = {case: [] for case in cases}
        for kind, count in cases:
            measure(folders[kind, count], kind)  # warms the page cache
        for _ in range(options.rounds):
            for case in cases:
                results[case].append(measure(folders[case], case[0]))
    print("| files | seconds (median, least, most) | µs a file | memory above the start, bytes a file |")
    print("| --- | --- | --- | --- |")
    for (kind, count), runs in results.items():
        seconds = [run["seconds"] for run in runs]
        more = median(run["bytes"] for run in runs)
        print(
            f"| {count:,} {kind} | {median(seconds):.2f} ({min(seconds):.2f}, {max(seconds):.2f}) | "
            f"{1e6 * median(seconds) / count:.0f} | {more / 1e6:.0f} MB, {more / count:,.0f} |"
        )


if __name__ == "__main__":
    main()

"""What a person sees meanwhile: a bar at a terminal, plain lines elsewhere."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from ..transforms.dataset import DatasetError, Layout, read_json

_BAR_INTERVAL_S = 0.25
_LINE_INTERVAL_S = 10.0


class ShardsOnDisk:
    """Counts examples from what is on disk, so it works with any runner that shares the folder.

    Finished shards count by their sidecar, unfinished ones by their length.
    """

    def __init__(self, layout: Layout, example_bytes: int):
        self._layout = layout
        self._example_bytes = example_bytes
        self._finished: dict[str, int] = {}

    def examples(self) -> int:
        """Examples written so far, about."""
        for name in os.listdir(self._layout.sidecars):
            if name not in self._finished and name.endswith(".json"):
                with contextlib.suppress(OSError, DatasetError, KeyError):
                    sidecar = read_json(os.path.join(self._layout.sidecars, name))
                    self._finished[name] = sidecar["examples"]
        unfinished = 0
        with os.scandir(self._layout.temporary) as entries:
            for entry in entries:
                if entry.name.endswith(".tfrecord"):
                    with contextlib.suppress(OSError):
                        unfinished += entry.stat().st_size // self._example_bytes
        return sum(self._finished.values()) + unfinished


@contextlib.contextmanager
def shown(examples: Callable[[], int], total: int, verb: str = "Extracting") -> Iterator[None]:
    """Shows progress towards `total` examples on stderr, until the block ends."""
    stop = threading.Event()
    show = _bar if sys.stderr.isatty() else _lines
    thread = threading.Thread(target=show, args=(examples, total, verb, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _bar(examples: Callable[[], int], total: int, verb: str, stop: threading.Event) -> None:
    columns = (
        TextColumn(verb),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:>9,.0f} examples/s"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=4) as progress:
        task = progress.add_task(verb, total=total, completed=examples(), rate=0.0)
        first, began = examples(), time.monotonic()
        last = False
        while not last:
            last = stop.wait(_BAR_INTERVAL_S)
            count = min(examples(), total)
            progress.update(task, completed=count, rate=(count - first) / max(time.monotonic() - began, 1e-3))


def _lines(examples: Callable[[], int], total: int, verb: str, stop: threading.Event) -> None:
    first, began = examples(), time.monotonic()
    while not stop.wait(_LINE_INTERVAL_S):
        count, spent = examples(), time.monotonic() - began
        rate = (count - first) / spent
        left = f", {(total - count) / rate:,.0f} s left" if rate > 0 else ""
        print(
            f"{verb}: {count:,} of {total:,} examples, {rate:,.0f} examples/s{left}",
            file=sys.stderr,
            flush=True,
        )

"""Every counter of a run, by stage; names end in their unit. Also how stage times are taken."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from apache_beam.metrics.metric import Metrics

NAMESPACE = "spectrabeam"
STAGES = ("read", "compute", "statistics", "encode", "write")


class StageTimes:
    """Time spent in each stage, summed over threads, in microseconds."""

    def __init__(self, clock: Callable[[], int] = time.perf_counter_ns):
        self._clock = clock
        self._lock = threading.Lock()
        self._ns: dict[str, int] = dict.fromkeys(STAGES, 0)

    @contextlib.contextmanager
    def measure(self, stage: str) -> Iterator[None]:
        """Adds the time of the block, also where it raises."""
        start = self._clock()
        try:
            yield
        finally:
            spent = self._clock() - start
            with self._lock:
                self._ns[stage] += spent

    def us(self) -> dict[str, int]:
        """Stage to whole microseconds."""
        with self._lock:
            return {stage: ns // 1000 for stage, ns in self._ns.items()}


def count_dataset(metadata: Mapping) -> None:
    """Counts what was committed."""
    for group in ("recordings", "segments"):
        for name, number in metadata["counts"][group].items():
            Metrics.counter(NAMESPACE, f"{group}_{name}_total").inc(number)
    for split, part in metadata["splits"].items():
        Metrics.counter(NAMESPACE, f"examples_{split}_total").inc(part["examples"])


def count_shard(sidecar: Mapping) -> None:
    """Counts one finished shard. A retried bundle counts twice: counters guide, sidecars decide."""
    counter = lambda name: Metrics.counter(NAMESPACE, name)  # noqa: E731
    counter("shards_written").inc(1)
    counter("examples_written").inc(sidecar["examples"])
    counter("bytes_written").inc(sidecar["bytes"])
    counter("batches_computed").inc(sidecar["batches"])
    for stage, spent in sidecar["stage_us"].items():
        counter(f"{stage}_us").inc(spent)
    for reject in sidecar["rejects"]:
        counter("segments_rejected").inc(reject["segments"])
        counter(f"segments_rejected_{reject['reason']}").inc(reject["segments"])
    Metrics.distribution(NAMESPACE, "shard_us").update(sidecar["wall_us"])

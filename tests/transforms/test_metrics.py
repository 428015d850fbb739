"""Stage times by a fake clock, and the counters of a shard."""

import threading

import apache_beam as beam
import pytest
from apache_beam.metrics.metric import MetricsFilter
from apache_beam.runners.portability.fn_api_runner import FnApiRunner

from spectrabeam.transforms.metrics import NAMESPACE, STAGES, StageTimes, count_shard


class Clock:
    """Nanoseconds that pass only when told."""

    def __init__(self):
        self.now = 0

    def __call__(self):
        return self.now


def test_times_of_a_stage_add_up_before_they_are_cut_to_whole_microseconds():
    clock = Clock()
    times = StageTimes(clock)
    for _ in range(4):
        with times.measure("read"):
            clock.now += 1_600
        clock.now += 1_000_000  # outside of any stage
    with times.measure("write"):
        clock.now += 999
    assert times.us() == {"read": 6, "compute": 0, "statistics": 0, "encode": 0, "write": 0}
    assert tuple(times.us()) == STAGES


def test_time_counts_also_where_the_work_raises():
    clock = Clock()
    times = StageTimes(clock)

    def fail():
        with times.measure("compute"):
            clock.now += 5_000
            raise OSError("lost")

    with pytest.raises(OSError, match="lost"):
        fail()
    assert times.us()["compute"] == 5


def test_threads_add_to_the_same_stage():
    times = StageTimes(iter(range(0, 10**9, 1_000)).__next__)  # each look takes a microsecond

    def work():
        for _ in range(200):
            with times.measure("encode"):
                pass

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert times.us()["encode"] >= 800


def test_a_stage_that_does_not_exist_is_a_bug():
    with pytest.raises(KeyError, match="reading"), StageTimes().measure("reading"):
        pass


def test_counters_of_finished_shards_are_beam_metrics():
    sidecar = {
        "examples": 7,
        "bytes": 1000,
        "batches": 2,
        "stage_us": {"read": 10, "compute": 20, "encode": 30, "write": 40},
        "wall_us": 123_456,
        "rejects": [{"reason": "non_finite", "segments": 2}, {"reason": "vanished", "segments": 3}],
    }
    pipeline = beam.Pipeline(runner=FnApiRunner())
    _ = pipeline | beam.Create([sidecar, sidecar]) | beam.Map(count_shard)
    result = pipeline.run()
    result.wait_until_finish()
    metrics = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))
    counters = {counter.key.metric.name: counter.committed for counter in metrics["counters"]}
    assert (
        counters.items()
        >= {
            "shards_written": 2,
            "examples_written": 14,
            "bytes_written": 2000,
            "batches_computed": 4,
            "read_us": 20,
            "compute_us": 40,
            "encode_us": 60,
            "write_us": 80,
            "segments_rejected": 10,
            "segments_rejected_non_finite": 4,
            "segments_rejected_vanished": 6,
        }.items()
    )
    (wall,) = metrics["distributions"]
    assert wall.key.metric.name == "shard_us"
    assert (wall.committed.count, wall.committed.max) == (2, 123_456)

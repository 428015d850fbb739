"""Recordings put together again from their examples: no sample is lost, doubled or made up."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.helpers.datasets import assert_balanced
from tests.helpers.pipelines import extract, metadata, read_examples, rejects
from tests.helpers.signals import write_raw


def count(frames: int, length: int, hop: int, tail: str) -> int:
    """Segments of a channel, as the design has it; those that would hold no sample do not exist."""
    if tail == "drop":
        return 0 if frames < length else 1 + (frames - length) // hop
    total = 1 if frames <= length else 1 + -(-(frames - length) // hop)
    return sum(number * hop < frames for number in range(total))


@pytest.mark.slow
@given(
    length=st.integers(1, 300),
    hop=st.integers(1, 400),
    tail=st.sampled_from(["pad", "drop"]),
    frames=st.lists(st.integers(1, 3000), min_size=3, max_size=6),
    shards=st.integers(1, 5),
    batch=st.integers(1, 70),
)
@example(length=256, hop=256, tail="pad", frames=[1, 255, 256, 257, 512, 513], shards=2, batch=64)
@example(length=256, hop=64, tail="pad", frames=[1, 255, 256, 257, 320, 321], shards=3, batch=7)
@example(length=256, hop=256, tail="drop", frames=[255, 256, 257, 511, 512, 513], shards=2, batch=64)
@example(length=100, hop=250, tail="pad", frames=[100, 101, 250, 251, 350, 351], shards=1, batch=3)
@example(length=100, hop=250, tail="drop", frames=[99, 100, 349, 350, 351, 600], shards=1, batch=3)
@example(length=1, hop=1, tail="pad", frames=[1, 2, 3000], shards=5, batch=64)
@settings(
    max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck), database=None
)
def test_a_recording_is_the_sum_of_its_examples(length, hop, tail, frames, shards, batch):
    """Every sample is where it belongs; segments begin where they are said to and nowhere beyond the end."""
    with tempfile.TemporaryDirectory() as folder:
        reconstruct(Path(folder), length, hop, tail, frames, shards, batch)


def reconstruct(folder: Path, length: int, hop: int, tail: str, frames, shards: int, batch: int) -> None:
    """Extracts recordings of these lengths, two channels each, and puts them together again."""
    recordings = {}
    for seed, number in enumerate(frames):
        random = np.random.default_rng(seed)
        recordings[f"{seed}.raw"] = random.standard_normal((number, 2)).astype(np.float32)
        write_raw(folder / "in" / f"{seed}.raw", recordings[f"{seed}.raw"])
    write_raw(folder / "in" / "one.raw", np.ones((length, 2)))  # so that something is never dropped
    recordings["one.raw"] = np.ones((length, 2), np.float32)
    (folder / "settings.yaml").write_text("features: {}\nkeep_waveform: true\n")
    out = folder / "out"
    extract(
        folder / "in", out, "--config", folder / "settings.yaml", "--raw-channels", 2, "--segment-length", length,
        "--hop-length", hop, "--tail", tail, "--num-shards", shards, "--batch-size", batch,
        "--max-reject-fraction", 1,
    )  # fmt: skip
    seen = {(name, channel): {} for name in recordings for channel in (0, 1)}
    for each in read_examples(out):
        own = seen[each["recording"].decode(), int(each["channel"])]
        assert int(each["start"]) not in own  # none twice
        own[int(each["start"])] = each
    short = set()
    for (name, channel), own in seen.items():
        samples = recordings[name][:, channel]
        total = count(len(samples), length, hop, tail)
        assert sorted(own) == [number * hop for number in range(total)]
        rebuilt, covered = np.zeros(len(samples), np.float32), np.zeros(len(samples), bool)
        for start, each in own.items():
            valid = int(each["valid"])
            assert 1 <= valid == min(length, len(samples) - start)
            np.testing.assert_array_equal(each["waveform"][:valid], samples[start : start + valid])
            assert not each["waveform"][valid:].any()
            rebuilt[start : start + valid] = each["waveform"][:valid]
            covered[start : start + valid] = True
        np.testing.assert_array_equal(rebuilt[covered], samples[covered])
        if tail == "pad" and hop <= length:
            assert covered.all()
        elif tail == "drop" and hop <= length and total:
            assert covered[: len(samples) - (len(samples) - length) % hop].all()
            assert np.count_nonzero(~covered) == (len(samples) - length) % hop < hop
        if not total:
            short.add(name)
    assert {line["recording"] for line in rejects(out)} == short
    assert {line["reason"] for line in rejects(out)} <= {"too_short"}
    assert metadata(out)["counts"]["segments"]["examples"] == sum(len(own) for own in seen.values())
    assert_balanced(out)

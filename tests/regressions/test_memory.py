"""Memory: the same for few and many files, for a small and a very long one; only references go through the engine."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import numpy as np
import pytest

from spectrabeam.pipeline import build
from spectrabeam.pipeline.match import match
from spectrabeam.pipeline.plan import Plan, make_plan
from spectrabeam.pipeline.runners import beam_options
from spectrabeam.pipeline.settings import Settings
from spectrabeam.transforms.dataset import Layout
from spectrabeam.transforms.segment import block_limit
from spectrabeam.transforms.shard import ExtractShard
from tests.helpers.pipelines import extract, metadata, read_examples
from tests.helpers.processes import extract_arguments, run_fresh
from tests.helpers.signals import write_recordings

MIB = 1 << 20
SEGMENT = 16384
# Three times the difference that was measured (15 MiB); to keep the input of 3000 more files would take 190 MiB,
# to keep their records 95 MiB.
TOLERANCE = 50 * MIB


def sparse(path: Path, num_bytes: int) -> Path:
    """A file of zeros that takes no space."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.truncate(num_bytes)
    return path


def plan_of(source: Path, **settings) -> tuple[Plan, Settings]:
    """The plan of a run over float32 files."""
    chosen = Settings(raw_dtype="<f4", sample_rate=1000, segment_length=SEGMENT, **settings)
    return make_plan(match((str(source),), chosen), chosen), chosen


def pipeline_bytes(folder: Path, plan: Plan, settings: Settings) -> int:
    """Length of the whole pipeline as it is sent to a runner, with all elements that it begins with."""
    pipeline = beam.Pipeline(options=beam_options([], {}, []))
    build.build(pipeline, Layout(str(folder)), plan, list(range(len(plan.shards))), settings)
    return len(pipeline.to_runner_api().SerializeToString())


def test_the_pipeline_does_not_grow_with_the_number_of_files(tmp_path):
    """B11: it holds shard numbers, never recordings: equally many bytes for 10 and 2000 files in 5 shards."""
    sizes = []
    for count in (10, 2000):
        source = tmp_path / f"{count:04d}"
        for number in range(count):
            sparse(source / f"r{number:05d}.raw", 4 * SEGMENT)
        plan, settings = plan_of(source, num_shards=5)
        assert plan.segments == count
        assert len(plan.shards) == 5
        sizes.append(pipeline_bytes(tmp_path / "out", plan, settings))
    assert abs(sizes[1] - sizes[0]) < 100  # names that Beam makes up differ by a few characters


def test_elements_of_the_pipeline_are_shard_numbers(tmp_path, monkeypatch):
    """B11: what goes in and out of the one step that does the work is a number, well below a kilobyte a file."""
    seen: list[tuple[object, object]] = []
    process = ExtractShard.process

    def spy(self, element):
        for out in process(self, element):
            seen.append((element, out))
            yield out

    monkeypatch.setattr(ExtractShard, "process", spy)
    write_recordings(tmp_path / "source", 30)
    extract(tmp_path / "source", tmp_path / "out", "--num-shards", "6")
    assert sorted(seen) == [(number, number) for number in range(6)]
    assert {type(each) for pair in seen for each in pair} == {int}


@pytest.mark.slow
def test_memory_is_the_same_for_1000_files_for_4000_and_for_a_very_long_one(tmp_path):
    """B11, B12: 64 KiB each, or 1000 segments from all over 4 GiB; far below 1.5 GB all of them."""
    peaks = {}
    for name, count, size, flags in (
        ("few", 1000, 4 * SEGMENT, ()),
        ("many", 4000, 4 * SEGMENT, ()),
        ("long", 1, 4096 * MIB, ("--max-segments", "1000", "--max-segments-from", "spread")),
    ):
        for number in range(count):
            sparse(tmp_path / name / f"r{number:05d}.raw", size)
        arguments = extract_arguments(
            tmp_path / name, tmp_path / f"out-{name}", "--segment-length", SEGMENT, *flags
        )
        result = run_fresh(tmp_path, *arguments)
        assert result.code == 0, result.err
        segments = metadata(tmp_path / f"out-{name}")["counts"]["segments"]
        assert segments["examples"] == max(count, 1000)
        peaks[name] = result.peak_bytes
    assert peaks["many"] < peaks["few"] + TOLERANCE
    assert peaks["long"] < peaks["few"] + TOLERANCE
    assert max(peaks.values()) < 1200 * MIB


def test_a_file_of_several_gibibytes_is_planned_into_ranges_over_several_shards(tmp_path):
    """B12: no range is above a block's limit, they cover the file without gap, and each shard gets its share."""
    size = 3500 * MIB + 4
    sparse(tmp_path / "source" / "long.raw", size)
    plan, settings = plan_of(tmp_path / "source", splits={"all": 1})
    assert plan.rejects == []
    starts = np.array(plan.blocks.column("start").to_pylist())
    counts = np.array(plan.blocks.column("count").to_pylist())
    order = np.argsort(starts)
    assert counts.max() <= block_limit(settings)
    assert block_limit(settings) * SEGMENT * 4 <= MIB
    assert (starts[order] == SEGMENT * np.concatenate([[0], np.cumsum(counts[order])[:-1]])).all()
    assert plan.segments == counts.sum() == -(-size // 4 // SEGMENT)
    assert len(plan.shards) >= 10
    shares = [shard.segments for shard in plan.shards]
    assert max(shares) - min(shares) <= 2 * block_limit(settings)


def test_samples_beyond_the_borders_of_32_bits_are_read_from_the_right_place(tmp_path):
    """B12: an impulse near the end of 4.5 GiB has its flat spectrum in its own segment and nowhere else."""
    segments = 72_000
    path = sparse(tmp_path / "source" / "long.raw", segments * SEGMENT * 4)
    marked = [0, 32_767, 32_768, 65_536, 71_999]  # around 2 GiB, above 4 GiB, and the last
    with path.open("r+b") as file:
        for number in marked:
            file.seek((number * SEGMENT + 5) * 4)
            file.write(np.float32(1 + number).tobytes())
    assert path.stat().st_blocks * 512 < MIB  # else this disk keeps the zeros, and the test its gigabytes
    chosen = (2 * np.arange(2000) + 1) * segments // 4000
    with path.open("r+b") as file:
        for number in chosen[[100, 1500, 1999]].tolist():
            file.seek((number * SEGMENT + 5) * 4)
            file.write(np.float32(1 + number).tobytes())
            marked.append(number)
    extract(
        tmp_path / "source", tmp_path / "out", "--segment-length", SEGMENT, "--splits", "all=1",
        "--num-shards", "3", "--max-segments", "2000", "--max-segments-from", "spread",
    )  # fmt: skip
    examples = read_examples(tmp_path / "out")
    assert sorted(int(each["start"]) for each in examples) == (chosen * SEGMENT).tolist()
    expected = set(marked) & set(chosen.tolist())
    assert len(expected) >= 3
    for each in examples:
        number = int(each["start"]) // SEGMENT
        flat = np.log(1 + number + 1e-6) if number in expected else np.log(1e-6)
        assert np.abs(each["spectrum"] - flat).max() < 2e-6  # half a unit of float32 around 11, and of log

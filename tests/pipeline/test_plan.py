"""The plan: every segment once, splits that depend on the id alone, shards of even size, what is left out."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrabeam.pipeline.plan import cut_evenly, split_table
from spectrabeam.pipeline.settings import example_specs
from spectrabeam.transforms.parts import SCHEMA
from spectrabeam.transforms.rejects import Reason
from spectrabeam.transforms.schema import example_bytes
from spectrabeam.transforms.segment import SegmentSettings, cut_blocks
from tests.helpers.plans import SEGMENT_LENGTH as L
from tests.helpers.plans import found, names, plan, rejected, settings, split_of


def test_every_segment_of_every_channel_is_in_one_shard():
    files = found("a.raw", frames=5000) + found("b.raw", frames=70) + found("c.raw", frames=20_000)
    result = plan(files, raw_channels=2, hop_length=48, num_shards=5, splits={"x": 0.5, "y": 0.5})
    segments = []
    for shard in result.shards:
        rows = result.part(shard).to_pylist()
        assert sum(row["count"] for row in rows) == shard.segments > 0
        segments += [
            (r["recording"], r["channel"], r["start"] + 48 * k) for r in rows for k in range(r["count"])
        ]
    expected = []
    for item in files:
        starts, counts = cut_blocks(item.size // 8, SegmentSettings(segment_length=L, hop_length=48))
        for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
            expected += [(item.recording, c, start + 48 * k) for c in (0, 1) for k in range(count)]
    assert sorted(segments) == sorted(expected)
    assert result.segments == len(expected)
    assert result.blocks.schema.names == SCHEMA.names


def test_splits_get_their_share_of_the_recordings():
    assigned = list(split_of(plan(found(*names(4000)))).values())
    for split, share in (("train", 0.8), ("validation", 0.1), ("test", 0.1)):
        spread = np.sqrt(share * (1 - share) * 4000)  # of a binomial distribution
        assert abs(assigned.count(split) - share * 4000) < 4 * spread


def test_split_of_a_recording_does_not_depend_on_the_others_nor_on_its_place_or_size():
    whole = split_of(plan(found(*names(200))))
    some = split_of(plan(found(*names(200)[::3], frames=3 * L), num_shards=7, shard_size=1000))
    assert some == {name: whole[name] for name in some}


def test_all_segments_of_a_recording_are_in_one_split():
    result = plan(found(*names(30), frames=200 * L), num_shards=20)
    splits = {}
    for shard in result.shards:
        for name in result.part(shard).column("recording").to_pylist():
            splits.setdefault(name, set()).add(shard.name.split)
    assert {len(each) for each in splits.values()} == {1}
    assert {name.decode(): min(each) for name, each in splits.items()} == split_of(result)


def test_seed_chooses_splits_and_order():
    one, other = (plan(found(*names(100)), seed=seed) for seed in (0, 1))
    assert split_of(one) != split_of(other)
    whole = {"splits": {"all": 1.0}}
    orders = [
        plan(found(*names(100)), seed=seed, **whole).blocks.column("recording").to_pylist() for seed in (0, 1)
    ]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])


def test_rows_are_scattered():
    result = plan(found(*names(400)), splits={"all": 1.0})
    order = [int(name[1:6]) for name in result.blocks.column("recording").to_pylist()]
    assert abs(np.corrcoef(order, np.arange(400))[0, 1]) < 0.2


def test_composed_and_decomposed_names_fall_into_the_same_split():
    composed, decomposed = [f"caf\u00e9{number}.raw" for number in range(60)], []
    decomposed = [name.replace("\u00e9", "e\u0301") for name in composed]
    one, other = split_of(plan(found(*composed))), split_of(plan(found(*decomposed)))
    assert [one[name] for name in composed] == [other[name] for name in decomposed]
    assert len(set(one.values())) > 1


def test_names_that_are_no_utf8_can_be_planned():
    assert plan(found(b"\xff.raw", b"\xfe.raw")).segments == 2


@given(counts=st.lists(st.integers(1, 50), min_size=1, max_size=60), data=st.data())
def test_cutting_leaves_no_run_empty_and_is_even(counts, data):
    runs = data.draw(st.integers(1, len(counts)))
    ends = cut_evenly(np.array(counts), runs)
    assert len(ends) == runs
    assert ends[-1] == len(counts)
    assert (np.diff([0, *ends]) > 0).all()
    target = sum(counts) / runs
    if max(counts) <= target:  # otherwise a single item may be more than a run should be
        sums = np.diff([0, *np.cumsum(counts)[np.array(ends) - 1]])
        assert np.abs(sums - target).max() <= max(counts)


@pytest.mark.parametrize(
    ("counts", "runs", "ends"),
    [
        ([1] * 10, 3, [3, 7, 10]),
        ([4, 1, 1, 1, 1], 2, [1, 5]),
        ([1, 1, 1, 1, 4], 2, [4, 5]),
        ([9, 1, 1], 3, [1, 2, 3]),  # none empty, though the first fills all three
        ([1, 1, 9], 3, [1, 2, 3]),
        ([5], 1, [1]),
        ([], 0, []),
    ],
)
def test_cuts_of_small_sequences(counts, runs, ends):
    assert cut_evenly(np.array(counts, np.int64), runs) == ends


def test_shard_size_bounds_the_estimated_bytes():
    each = example_bytes(example_specs(settings()))
    for number, shards in ((10, 10), (9, 12), (100, 1), (99, 2)):
        result = plan(found(*names(100)), splits={"all": 1.0}, shard_size=number * each)
        assert len(result.shards) == shards
        assert max(shard.segments for shard in result.shards) <= number
    assert [str(shard.name) for shard in result.shards] == ["all-00000", "all-00001"]


@pytest.mark.parametrize(("num_shards", "expected"), [(1, 1), (7, 7), (100, 100), (5000, 100)])
def test_number_of_shards_is_the_given_one_but_at_most_one_a_block(num_shards, expected):
    result = plan(found(*names(100)), splits={"all": 1.0}, num_shards=num_shards)
    assert len(result.shards) == expected
    sizes = [shard.segments for shard in result.shards]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize("num_shards", [1, 3, 5, 10, 64])
def test_given_shards_are_shared_by_size_with_one_at_least(num_shards):
    result = plan(found(*names(1000)), num_shards=num_shards)
    sizes = {split: sum(counter.values()) for split, counter in split_table(result).items()}
    shards = {split: sum(shard.name.split == split for shard in result.shards) for split in sizes}
    assert sum(shards.values()) == max(3, num_shards)
    for split, size in sizes.items():
        share = num_shards * size / 1000
        assert shards[split] == 1 or abs(shards[split] - share) < 1.5


def test_an_empty_split_is_a_warning_and_has_no_shard():
    result = plan(found("a.raw"), splits={"train": 0.999999, "rare": 0.000001})
    assert [str(shard.name) for shard in result.shards] == ["train-00000"]
    assert result.warnings == ["split rare is empty"]


def test_hops_above_the_segment_length_are_a_warning_with_the_unused_share():
    result = plan(found("a.raw"), splits={"all": 1.0}, hop_length=4 * L)
    assert result.warnings == [
        f"hop_length={4 * L} is above segment_length={L}: 75% of the samples are not used"
    ]


def test_recordings_with_too_few_real_samples_are_rejects_with_the_rule():
    result = plan(found("a.raw", frames=15), min_valid=0.25)
    assert [(reason, message) for _, reason, message in rejected(result)] == [
        (Reason.TOO_SHORT, f"15 samples are fewer than min_valid=0.25 of segment_length={L}: lower either")
    ]
    assert plan(found("a.raw", frames=16), min_valid=0.25).segments == 1


def test_segments_that_are_not_wanted_are_counted_for_each_channel():
    files = found("a.raw", frames=2 * (10 * L + 1))
    result = plan(
        files, raw_channels=2, max_segments=4, min_valid=0.5, left_out={"hidden files and folders": 3}
    )
    assert result.left_out == {
        "hidden files and folders": 3,
        "segments above max_segments": 12,
        "segments with too few real samples": 2,
    }
    assert result.segments == 8


def test_the_same_input_gives_the_same_plan():
    files = found(*names(50), frames=1000)
    one, other = plan(files, num_shards=9), plan(files, num_shards=9)
    assert one.shards == other.shards
    assert one.blocks.equals(other.blocks)
    assert one.recordings.equals(other.recordings)


def test_no_recordings_give_an_empty_plan():
    result = plan([])
    assert (result.shards, result.segments, result.recordings.num_rows) == ([], 0, 0)

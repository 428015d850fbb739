"""Shards: their number by size or as given, even sizes, none empty."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrabeam.pipeline.shards import cut_evenly, shard_blocks
from spectrabeam.transforms.schema import FeatureSpec, example_bytes
from tests.helpers.plans import found, names, plan, segments_of, settings


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
    each = example_bytes(plan(found(*names(1))).specs)
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
    sizes = {split: sum(counts.values()) for split, counts in segments_of(result).items()}
    shards = {split: sum(shard.name.split == split for shard in result.shards) for split in sizes}
    assert sum(shards.values()) == max(3, num_shards)
    for split, size in sizes.items():
        share = num_shards * size / 1000
        assert shards[split] == 1 or abs(shards[split] - share) < 1.5


def test_shards_of_splits_follow_one_another_and_cover_every_block():
    counts, split_of = np.array([4, 2, 2, 1, 1, 5]), np.array([0, 0, 0, 2, 2, 2])
    specs = {"spectrum": FeatureSpec("float32", (9,))}
    shards = shard_blocks(counts, split_of, ["a", "b", "c"], specs, settings(num_shards=4))
    assert [(str(each.name), each.first, each.blocks, each.segments) for each in shards] == [
        ("a-00000", 0, 1, 4),
        ("a-00001", 1, 2, 4),
        ("c-00000", 3, 2, 2),
        ("c-00001", 5, 1, 5),
    ]

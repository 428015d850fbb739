"""The segment count, which segments are used, and the blocks they are read in."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrabeam.transforms.segment import (
    SegmentSettings,
    block_limit,
    choose_segments,
    count_segments,
    cut_blocks,
    cut_runs,
)


@pytest.mark.parametrize(
    ("frames", "hop", "tail", "total"),
    [
        (0, None, "pad", 0),
        (1, None, "pad", 1),
        (100, None, "pad", 1),
        (101, None, "pad", 2),
        (200, None, "pad", 2),
        (150, 50, "pad", 2),
        (151, 50, "pad", 3),
        (99, None, "drop", 0),
        (100, None, "drop", 1),
        (199, None, "drop", 1),
        (200, None, "drop", 2),
        (151, 50, "drop", 2),
        (250, 150, "pad", 2),
        (120, 150, "pad", 1),  # a second segment would hold no sample
    ],
)
def test_count_follows_the_tail_rule(frames, hop, tail, total):
    settings = SegmentSettings(segment_length=100, hop_length=hop, tail=tail)
    assert count_segments(frames, settings).total == total


def test_min_valid_leaves_out_short_padded_segments():
    settings = SegmentSettings(segment_length=100, min_valid=0.5)
    assert count_segments(149, settings).used == 1
    assert count_segments(150, settings).used == 2
    assert count_segments(49, settings).used == 0


@pytest.mark.parametrize(("position", "chosen"), [("first", [0, 1]), ("centre", [4, 5]), ("spread", [2, 7])])
def test_max_segments_takes_them_from_where_it_is_told(position, chosen):
    settings = SegmentSettings(segment_length=10, max_segments=2, max_segments_from=position)
    assert choose_segments(count_segments(100, settings), settings).tolist() == chosen


def test_block_holds_eight_segments_or_one_mebibyte():
    assert block_limit(SegmentSettings(segment_length=16384)) == 16
    assert block_limit(SegmentSettings(segment_length=480_000)) == 8
    assert block_limit(SegmentSettings(segment_length=16384, hop_length=8192)) == 31


lengths = st.integers(1, 40)


@given(
    frames=st.integers(0, 2000),
    length=lengths,
    hop=lengths,
    tail=st.sampled_from(["pad", "drop"]),
    maximum=st.none() | st.integers(1, 30),
    position=st.sampled_from(["first", "centre", "spread"]),
)
def test_blocks_hold_exactly_the_chosen_segments(frames, length, hop, tail, maximum, position):
    settings = SegmentSettings(
        segment_length=length, hop_length=hop, tail=tail, max_segments=maximum, max_segments_from=position
    )
    count = count_segments(frames, settings)
    starts, counts = cut_blocks(frames, settings)
    segments = [start + k * hop for start, number in zip(starts, counts, strict=True) for k in range(number)]
    assert segments == (choose_segments(count, settings) * hop).tolist()
    assert (counts > 0).all()
    assert (counts <= block_limit(settings)).all()
    assert len(segments) == count.used == len(set(segments))
    assert all(0 <= start < frames for start in segments)
    if tail == "drop":
        assert all(start + length <= frames for start in segments)


@given(frames=st.integers(1, 2000), length=lengths, data=st.data())
def test_padding_covers_every_sample_where_segments_touch(frames, length, data):
    hop = data.draw(st.integers(1, length))
    starts, counts = cut_blocks(frames, SegmentSettings(segment_length=length, hop_length=hop))
    covered = np.zeros(frames, bool)
    for start, number in zip(starts, counts, strict=True):
        for k in range(number):
            covered[start + k * hop : start + k * hop + length] = True
    assert covered.all()


@given(frames=st.integers(1, 2000), length=lengths, hop=st.integers(1, 60))
def test_dropping_leaves_out_a_tail_shorter_than_a_hop_and_nothing_else(frames, length, hop):
    """Where hops leave no gap; with gaps, every sample of a segment is there, and the next would not fit."""
    starts, counts = cut_blocks(frames, SegmentSettings(segment_length=length, hop_length=hop, tail="drop"))
    covered = np.zeros(frames, bool)
    end = 0
    for start, number in zip(starts.tolist(), counts.tolist(), strict=True):
        for k in range(number):
            covered[start + k * hop : start + k * hop + length] = True
            end = start + k * hop + length
    if frames < length:
        assert not covered.any()
        return
    assert end <= frames < end + hop  # the next segment would end beyond the recording
    if hop <= length:
        assert covered[:end].all()
    assert not covered[end:].any()


@given(frames=st.integers(1, 2000), length=lengths, hop=st.integers(1, 120))
def test_padding_begins_no_segment_beyond_the_end_and_stops_no_sooner_than_it_must(frames, length, hop):
    """The last segment has a sample, and the one before it does not reach the end."""
    starts, counts = cut_blocks(frames, SegmentSettings(segment_length=length, hop_length=hop))
    last = int(starts[-1] + (counts[-1] - 1) * hop)
    assert starts[0] == 0
    assert last < frames
    assert last == 0 or last - hop + length < frames
    assert frames <= last + max(length, hop)


def runs_one_by_one(chosen, limit, keys):
    """[(position, number)] by going through the segments."""
    runs = []
    for place, index in enumerate(chosen):
        if runs and index == chosen[place - 1] + 1 and keys[place] == keys[place - 1] and runs[-1][1] < limit:
            runs[-1][1] += 1
        else:
            runs.append([place, 1])
    return [tuple(run) for run in runs]


@given(
    chosen=st.sets(st.integers(0, 80), max_size=60).map(sorted),
    limit=st.integers(1, 12),
    keyed=st.booleans(),
    data=st.data(),
)
def test_runs_are_of_consecutive_segments_of_one_key_and_no_longer_than_the_limit(chosen, limit, keyed, data):
    keys = [data.draw(st.integers(0, 2)) for _ in chosen] if keyed else [0] * len(chosen)
    given_keys = np.array(keys, np.int64) if keyed else None
    first, counts = cut_runs(np.array(chosen, np.int64), limit, given_keys)
    assert list(zip(first.tolist(), counts.tolist(), strict=True)) == runs_one_by_one(chosen, limit, keys)


@pytest.mark.parametrize(
    ("chosen", "limit", "keys", "expected"),
    [
        ([], 8, None, []),
        ([5], 8, None, [(0, 1)]),
        ([0, 1, 2, 3], 2, None, [(0, 2), (2, 2)]),
        ([0, 1, 3, 4], 8, None, [(0, 2), (2, 2)]),
        ([0, 1, 2, 3], 8, [7, 7, 9, 9], [(0, 2), (2, 2)]),
        ([0, 1, 2, 3], 8, [7, 9, 7, 7], [(0, 1), (1, 1), (2, 2)]),
        ([1, 2, 9], 8, [-1, -1, -1], [(0, 2), (2, 1)]),
    ],
)
def test_runs_of_small_sequences(chosen, limit, keys, expected):
    given_keys = None if keys is None else np.array(keys)
    first, counts = cut_runs(np.array(chosen, np.int64), limit, given_keys)
    assert list(zip(first.tolist(), counts.tolist(), strict=True)) == expected

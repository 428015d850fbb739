"""Recordings to blocks: regions, labels of parts, resampled lengths, channels, and the order of the dataset."""

import dataclasses
import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from spectrabeam.pipeline.cut import NONE, cut_all
from spectrabeam.pipeline.recording import Interval
from spectrabeam.pipeline.splits import Assignment
from spectrabeam.transforms.rejects import Reason
from tests.helpers.plans import SEGMENT_LENGTH as L
from tests.helpers.plans import settings
from tests.helpers.recordings import recording


def cut(recordings, channels=None, splits=None, names=(), rate=1000.0, **values):
    split_of = np.zeros(len(recordings), np.int64) if splits is None else np.array(splits)
    chosen = Assignment(["a", "b"], split_of, [each.id for each in recordings], {}, [])
    if channels is not None:
        recordings = [
            dataclasses.replace(each, channels=lists)
            for each, lists in zip(recordings, channels, strict=True)
        ]
    return cut_all(recordings, chosen, list(names), rate, settings(**values))


def segments(cuts, hop=L):
    """(owner, series, start, label) of every segment, sorted."""
    columns = (cuts.owner, cuts.series, cuts.starts, cuts.counts, cuts.label)
    return sorted(
        (owner, series, start + number * hop, label)
        for owner, series, start, count, label in zip(*(each.tolist() for each in columns), strict=True)
        for number in range(count)
    )


@given(
    begin=st.integers(0, 500),
    length=st.integers(1, 700),
    hop=st.integers(1, 130),
    tail=st.sampled_from(["pad", "drop"]),
)
def test_segments_of_a_region_count_from_its_begin_and_stay_in_it(begin, length, hop, tail):
    cuts = cut([recording(frames=5000, region=(begin, begin + length))], hop_length=hop, tail=tail)
    starts = [start for _, _, start, _ in segments(cuts, hop)]
    whole = [begin + k * hop for k in range(5000) if k * hop + L <= length]
    assert starts[: len(whole)] == whole
    assert len(starts) <= len(whole) + (tail == "pad")
    assert all(start < begin + length for start in starts)
    assert cuts.ends.tolist() == [begin + length]
    if tail == "pad" and hop <= L:
        assert max(starts) + L >= begin + length


def test_blocks_are_ordered_by_split_then_by_a_salted_hash_of_recording_channel_and_start():
    recordings = [recording(f"{number}.raw", frames=10_000 * L, channels=2) for number in range(6)]
    cuts = cut(recordings, [[(0,), (1,)]] * 6, [0, 1] * 3, seed=3, segment_length=L)
    keys = []
    columns = (cuts.owner, cuts.series, cuts.starts, cuts.split)
    for owner, series, start, split in zip(*(each.tolist() for each in columns), strict=True):
        salted = b"order:3\0%d.raw\0%d\0%d" % (owner, series, start)
        keys.append((split, hashlib.blake2b(salted, digest_size=8).digest()))
    assert len(keys) == len(set(keys)) > 12
    assert keys == sorted(keys)


def test_channel_lists_are_series_of_one_recording_each_with_all_its_segments():
    cuts = cut([recording(frames=3 * L, channels=3)], [[(2,), (0,)]])
    assert segments(cuts) == [(0, series, start, NONE) for series in (0, 1) for start in (0, L, 2 * L)]


def test_labels_are_indexes_of_classes():
    recordings = [
        recording("a", frames=L, label="y"),
        recording("b", frames=L, label="x"),
        recording("c", frames=L),
    ]
    cuts = cut(recordings, names=["x", "y"])
    assert segments(cuts) == [(0, 0, 0, 1), (1, 0, 0, 0), (2, 0, 0, NONE)]


def covering(intervals, start, stop):
    """The label that covers most of [start, stop), the first of `names` where two do; None if none does."""
    best = {}
    for each in intervals:
        best[each.label] = best.get(each.label, 0) + max(0, min(stop, each.end) - max(start, each.start))
    most = max(best.values(), default=0)
    return min(label for label in best if best[label] == most) if most else None


parts = st.lists(
    st.tuples(st.integers(0, 900), st.integers(1, 300), st.sampled_from("xyz")), min_size=1, max_size=6
)


@hypothesis_settings(deadline=None)
@given(parts=parts, hop=st.integers(8, 100), keep=st.booleans())
def test_a_segment_has_the_label_that_covers_most_of_it(parts, hop, keep):
    intervals = tuple(Interval(start, start + length, label) for start, length, label in parts)
    names = sorted({each.label for each in intervals})
    missing = "keep" if keep else "reject"
    cuts = cut(
        [recording(frames=1000, intervals=intervals)], names=names, hop_length=hop, missing_label=missing
    )
    expected, left = [], 0
    starts = [start for start in range(0, 1000, hop) if start == 0 or start + L - hop < 1000]
    for start in starts:
        label = covering(intervals, start, min(start + L, 1000))
        if label is None and not keep:
            left += 1
        else:
            expected.append((0, 0, start, NONE if label is None else names.index(label)))
    assert segments(cuts, hop) == expected
    assert cuts.left_out == ({"segments without a label": left} if left and expected else {}) or not expected
    if not expected:
        ((reject,), ids) = cuts.rejects, cuts.left_out
        assert (reject.reason, reject.message) == (
            Reason.LABEL_MISSING,
            "no segment of it has a label or lies whole in one split: label it, or set a shorter segment_length",
        )
        assert ids == {"segments without a label": left}


def test_blocks_hold_one_label_each():
    intervals = (Interval(0, 4 * L, "x"), Interval(4 * L, 6 * L, "y"), Interval(6 * L, 10 * L, "x"))
    cuts = cut([recording(frames=10 * L, intervals=intervals)], names=["x", "y"])
    blocks = sorted(zip(cuts.starts.tolist(), cuts.counts.tolist(), cuts.label.tolist(), strict=True))
    assert blocks == [(0, 4, 0), (4 * L, 2, 1), (6 * L, 4, 0)]


def test_labelled_parts_are_at_the_recordings_own_rate():
    intervals = (Interval(0, 4 * L, "x"), Interval(4 * L, 8 * L, "y"))
    cuts = cut([recording(frames=8 * L, rate=2000.0, intervals=intervals)], names=["x", "y"], resample=True)
    assert segments(cuts) == [(0, 0, 0, 0), (0, 0, L, 0), (0, 0, 2 * L, 1), (0, 0, 3 * L, 1)]


@pytest.mark.parametrize(
    ("rate", "frames", "region", "begin", "end"),
    [
        (2000.0, 1000, None, 0, 500),
        (44_100.0, 44_100, None, 0, 1000),
        (44_100.0, 44_100, (22_050, 44_100), 500, 1000),
        (500.0, 100, (10, 20), 20, 40),
        (3000.0, 100, None, 0, 33),
    ],
)
def test_recordings_of_another_rate_are_cut_as_they_will_be(rate, frames, region, begin, end):
    cuts = cut([recording(frames=frames, rate=rate, region=region)], resample=True)
    assert cuts.starts.min() == begin
    assert cuts.ends.tolist() == [end]


def test_a_recording_without_a_whole_segment_is_a_reject_where_the_tail_is_dropped():
    cuts = cut([recording(frames=L - 1), recording("b", frames=L)], tail="drop")
    (reject,) = cuts.rejects
    assert (reject.recording, reject.stage, reject.reason) == (b"a.raw", "plan", Reason.TOO_SHORT)
    assert (
        reject.message == f"63 samples are fewer than segment_length={L}: set tail=pad, or a shorter segment"
    )
    assert segments(cuts) == [(1, 0, 0, NONE)]


def test_segments_that_are_left_out_are_counted_for_each_series():
    cuts = cut([recording(frames=10 * L + 1, channels=2)], [[(0,), (1,)]], max_segments=4, min_valid=0.5)
    assert cuts.left_out == {"segments with too few real samples": 2, "segments above max_segments": 12}


def test_no_recordings_give_no_blocks():
    cuts = cut([])
    assert [len(each) for each in (cuts.owner, cuts.starts, cuts.counts, cuts.split, cuts.ends)] == [0] * 5

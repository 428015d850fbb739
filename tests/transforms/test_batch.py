"""Blocks to fixed batches: which rows, padding and mask, and what a bad file or segment costs."""

import dataclasses
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrabeam.transforms.batch import (
    NO_LABEL,
    SampleSettings,
    by_example,
    kept_waveform,
    plan_batches,
    read_batch,
    reject_non_finite,
)
from spectrabeam.transforms.buffers import Buffers, aligned_empty, is_aligned
from spectrabeam.transforms.elements import Origin
from spectrabeam.transforms.formats.raw import RawReader
from spectrabeam.transforms.formats.settings import ReadSettings
from spectrabeam.transforms.rejects import Reason, RejectError
from spectrabeam.transforms.schema import FeatureSpec, context_specs
from spectrabeam.transforms.segment import SegmentSettings
from tests.helpers.blocks import block, opener, source

L = 8
WAVEFORM = {"waveform": FeatureSpec("float32", (L,))}
PAIRED = {"target_waveform": FeatureSpec("float32", (L,))}


def samples(frames, first=0):
    return np.arange(first + 1, first + frames + 1, dtype=np.float32)


def read(
    blocks, files, *, rows=4, hop=L, reader=None, dtype="<f4", mode="each", specs=None, raw=None, **options
):
    """Reads blocks from files in memory: name to samples, or an error to raise."""
    raw = RawReader(ReadSettings(raw_dtype=dtype, sample_rate=1e3, **(raw or {})))
    return read_batch(
        blocks,
        waveform=np.full((rows, L), 99, np.float32),  # what an earlier batch left there
        open_file=opener(files, dtype),
        readers=lambda name, overrides: reader or raw,
        mode=mode,
        segments=SegmentSettings(segment_length=L, hop_length=hop),
        samples=SampleSettings(**options),
        specs=context_specs({}) | (specs or {}),
    )


counts = st.lists(st.integers(1, 20), max_size=12)


@given(counts=counts, batch_size=st.integers(1, 16), hop=st.integers(1, 50))
def test_batches_hold_each_segment_once_in_order_and_only_the_last_is_short(counts, batch_size, hop):
    blocks = [block(b"%d" % number, start=number, count=count) for number, count in enumerate(counts)]
    batches = list(plan_batches(blocks, batch_size, hop))

    def segments(run):
        return [(each.recording, each.start + k * hop) for each in run for k in range(each.count)]

    assert [pair for batch in batches for pair in segments(batch)] == segments(blocks)
    sizes = [sum(each.count for each in batch) for batch in batches]
    assert all(size == batch_size for size in sizes[:-1])
    assert all(0 < size <= batch_size for size in sizes)


def test_a_cut_block_differs_in_start_and_count_alone():
    whole = block(start=16, count=5, label=3, context={"rpm": 1.5})
    first, second = plan_batches([whole], 3, hop=L)
    assert first == [dataclasses.replace(whole, count=3)]
    assert second == [dataclasses.replace(whole, start=16 + 3 * L, count=2)]


def test_last_batch_is_padded_and_masked():
    specs = {"label": FeatureSpec("int64"), "rpm": FeatureSpec("float32"), "site": FeatureSpec("bytes")}
    blocks = [
        block(b"a", frames=20, count=3, label=2, context={"rpm": 1.5, "site": b"x"}),
        block(b"b", frames=8, label=None, context={"rpm": 2.5, "site": b"y"}),
    ]
    batch, rejects = read(blocks, {b"a": samples(20), b"b": samples(8, 50)}, rows=6, specs=specs)
    assert rejects == []
    assert batch.mask.tolist() == [True] * 4 + [False] * 2
    expected = np.zeros((6, L), np.float32)
    expected.reshape(-1)[:20] = samples(20)
    expected[3] = samples(8, 50)
    np.testing.assert_array_equal(batch.waveform, expected)
    assert batch.recording == [b"a", b"a", b"a", b"b", b"", b""]
    assert batch.start.tolist() == [0, 8, 16, 0, 0, 0]
    assert batch.channel.tolist() == [0] * 6
    assert batch.context["valid"].tolist() == [8, 8, 4, 8, 0, 0]
    assert batch.context["label"].tolist() == [2, 2, 2, NO_LABEL, 0, 0]
    assert NO_LABEL == -1
    assert batch.context["sample_rate"].tolist() == [1000] * 4 + [0, 0]
    assert batch.context["rpm"].tolist() == [1.5] * 3 + [2.5, 0, 0]
    assert batch.context["site"] == [b"x"] * 3 + [b"y", b"", b""]
    assert {key: values.dtype for key, values in batch.context.items() if key != "site"} == {
        "valid": np.int64,
        "label": np.int64,
        "sample_rate": np.float32,
        "rpm": np.float32,
    }


def test_vectors_of_a_recording_are_in_each_of_its_examples():
    specs = {"target": FeatureSpec("float32", (2,)), "labels": FeatureSpec("float32", (3,))}
    blocks = [
        block(b"a", 16, count=2, vectors={"target": (1.5, -2.0), "labels": (0.0, 1.0, 0.0)}),
        block(b"b", 8, vectors={"target": (3.0, 4.0), "labels": (1.0, 1.0, 1.0)}),
    ]
    batch, _ = read(blocks, {b"a": samples(16), b"b": samples(8)}, specs=specs)
    assert batch.vectors["target"].tolist() == [[1.5, -2], [1.5, -2], [3, 4], [0, 0]]
    assert batch.vectors["labels"].tolist() == [[0, 1, 0], [0, 1, 0], [1, 1, 1], [0, 0, 0]]


@pytest.mark.parametrize("rate", [1000.0, 44100.0, 11025.0, 1e9 / 7])
def test_time_of_an_example_is_that_of_its_first_sample(rate):
    specs = {"start_time_ns": FeatureSpec("int64")}
    begin = 1_700_000_000_123_456_789
    known = block(b"a", 10**7, start=10**7 - 16, count=2, start_time_ns=begin, sample_rate=rate)
    known = dataclasses.replace(known, source=source(b"a", 10**7, sample_rate=rate))
    unknown = block(b"b", 8)
    batch, _ = read([known, unknown], {b"a": np.zeros(10**7), b"b": samples(8)}, specs=specs)
    times = batch.context["start_time_ns"]
    for time, start in zip(times[:2].tolist(), (10**7 - 16, 10**7 - 8), strict=True):
        assert abs(time - begin - Fraction(start) * 10**9 / Fraction(rate)) <= Fraction(
            1, 2
        )  # exact, then rounded
    assert times[2] == np.iinfo(np.int64).min  # not known


def test_examples_of_stored_waveforms_tell_where_those_came_from():
    stored = block(b"a//3//160", 16, count=2, origin=Origin(b"first.raw", 3, 160))
    batch, _ = read([stored], {b"a//3//160": samples(16)})
    assert batch.recording[:2] == [b"first.raw"] * 2
    assert batch.channel[:2].tolist() == [3, 3]
    assert batch.start[:2].tolist() == [160, 168]


def test_stacked_channels_are_rows_of_one_example():
    interleaved = np.stack([samples(20), samples(20, 100)], axis=1)  # [frames, channels]
    blocks = [block(b"a", 20, count=3, size=160, channels=(1, 0))]
    batch, rejects = read(blocks, {b"a": interleaved}, rows=9, mode="stack", raw={"raw_channels": 2})
    assert rejects == []
    assert batch.rows == 2
    assert batch.mask.tolist() == [True] * 3 + [False]  # four examples fit into nine rows
    stacked = by_example(batch.waveform, batch)
    assert stacked.shape == (4, 2, L)
    padded = np.concatenate([interleaved, np.zeros((4, 2))])
    for number in range(3):
        np.testing.assert_array_equal(stacked[number], padded[number * L : number * L + L, ::-1].T)
    assert not batch.waveform[6:].any()
    assert batch.channel.tolist() == [0] * 4
    assert batch.start.tolist() == [0, 8, 16, 0]


def test_paired_samples_stand_beside_their_own():
    blocks = [
        block(b"a", 16, start=8, paired=source(b"clean", 16)),
        block(b"b", 8, paired=source(b"late", 8)),
    ]
    files = {
        b"a": samples(16),
        b"clean": samples(16, 50),
        b"b": samples(8),
        b"late": FileNotFoundError(2, ""),
    }
    batch, (reject,) = read(blocks, files, specs=PAIRED)
    np.testing.assert_array_equal(batch.waveform[0], samples(8, 8))
    np.testing.assert_array_equal(kept_waveform(batch, PAIRED)["target_waveform"][0], samples(8, 58))
    assert (reject.recording, reject.reason) == (b"b", Reason.VANISHED)
    assert batch.mask.tolist() == [True, False, False, False]
    assert not batch.waveform[1:].any()
    assert not batch.paired[1:].any()


def test_non_finite_paired_samples_are_a_reject_or_zero():
    blocks = [block(b"a", 16, count=2, paired=source(b"clean", 16))]
    files = {b"a": samples(16), b"clean": np.array([1.0] * 10 + [np.nan] + [2.0] * 5)}
    batch, _ = read(blocks, files, specs=PAIRED)
    (reject,) = reject_non_finite(batch, {}, np.array([False] * 4))
    assert (reject.reason, reject.where) == (Reason.NON_FINITE, ((0, 8),))
    assert reject.message.startswith("1 samples are NaN or infinite, the first at 10: ")
    assert batch.mask.tolist() == [True, False, False, False]
    batch, _ = read(blocks, files, specs=PAIRED, non_finite="zero")
    assert reject_non_finite(batch, {}, np.array([False] * 4)) == []
    assert batch.paired[1].tolist() == [1, 1, 0, 2, 2, 2, 2, 2]


@pytest.mark.parametrize(
    ("content", "reason", "message"),
    [
        (FileNotFoundError(2, "gone"), Reason.VANISHED, "was there when it was planned and is gone now"),
        (IsADirectoryError(21, "folder"), Reason.NOT_A_FILE, "a folder has taken the file's place"),
        (PermissionError(13, "Permission denied"), Reason.UNREADABLE, "cannot be read: Permission denied"),
        (OSError("odd"), Reason.UNREADABLE, "the file cannot be read: odd"),
        (samples(99), Reason.CHANGED, "had 400 bytes when it was planned and has 396 now"),
    ],
)
def test_a_bad_file_is_a_reject_and_takes_no_other_row_along(content, reason, message):
    blocks = [block(b"good", frames=8), block(b"bad", start=8, count=2), block(b"fine", frames=8)]
    files = {b"good": samples(8), b"bad": content, b"fine": samples(8, 20)}
    batch, (reject,) = read(blocks, files)
    assert (reject.recording, reject.stage, reject.reason, reject.segments) == (b"bad", "read", reason, 2)
    assert reject.where == ((0, 8), (0, 16))
    assert message in reject.message
    assert batch.mask.tolist() == [True, False, False, True]
    np.testing.assert_array_equal(batch.waveform, [samples(8), np.zeros(L), np.zeros(L), samples(8, 20)])


class Failing:
    """A reader that raises."""

    def __init__(self, error):
        self.error = error

    def read(self, file, locator, channel, start, out):
        out[: len(out) // 2] = np.nan  # it had begun
        raise self.error


def test_what_the_reader_refuses_is_a_reject_with_its_reason():
    reader = Failing(RejectError(Reason.TRUNCATED, "cut short"))
    batch, (reject,) = read([block(count=2)], {b"a": samples(100)}, reader=reader)
    assert (reject.reason, reject.message, reject.segments) == (Reason.TRUNCATED, "cut short", 2)
    assert not batch.mask.any()
    assert not batch.waveform.any()


@pytest.mark.parametrize("error", [TypeError("a bug"), ValueError("a bug"), KeyError("a bug")])
def test_a_bug_is_never_a_reject(error):
    with pytest.raises(type(error), match="a bug"):
        read([block()], {b"a": samples(100)}, reader=Failing(error))


def test_int16_samples_are_kept_as_they_came():
    stored = np.array([-32768, 32767, 5, -6, 7, 8, 9, 10, 11, 12], np.int16)
    blocks = [block(frames=10, size=20, count=2)]
    batch, rejects = read(blocks, {b"a": stored}, dtype="<i2", keep_waveform="int16")
    assert rejects == []
    assert batch.stored.dtype == np.int16
    np.testing.assert_array_equal(batch.stored.reshape(-1)[:10], stored)
    assert not batch.stored.reshape(-1)[10:].any()
    np.testing.assert_array_equal(batch.waveform, batch.stored)
    assert kept_waveform(batch, WAVEFORM)["waveform"] is batch.stored
    assert kept_waveform(batch, {}) == {}


def test_samples_that_are_no_int16_cannot_be_kept_as_such():
    _, (reject,) = read([block(frames=8)], {b"a": samples(8)}, keep_waveform="int16")
    assert reject.reason is Reason.DTYPE_MISMATCH


BROKEN = np.array([1, np.nan, 2, np.inf, -np.inf, 3, 4, 5] + [6] * 8, np.float32)


def test_non_finite_samples_become_zero_where_that_is_set():
    batch, _ = read([block(frames=16, count=2)], {b"a": BROKEN}, non_finite="zero")
    np.testing.assert_array_equal(batch.waveform[0], [1, 0, 2, 0, 0, 3, 4, 5])
    assert reject_non_finite(batch, {}, np.array([True] * 4)) == []


def test_only_the_segment_with_non_finite_samples_is_rejected():
    batch, _ = read([block(frames=32, start=16, count=2)], {b"a": np.concatenate([samples(16), BROKEN])})
    (reject,) = reject_non_finite(batch, {}, np.array([True] * 4))
    assert (reject.recording, reject.stage, reject.segments, reject.where) == (b"a", "read", 1, ((0, 16),))
    assert reject.message.startswith("3 samples are NaN or infinite, the first at 17: ")
    assert reject.reason is Reason.NON_FINITE
    assert batch.mask.tolist() == [False, True, False, False]


def test_one_channel_that_is_not_finite_rejects_the_stacked_example():
    interleaved = np.stack([samples(16), np.concatenate([samples(8), BROKEN[:8]])], axis=1)
    blocks = [block(b"a", 16, count=2, size=128, channels=(0, 1))]
    batch, _ = read(blocks, {b"a": interleaved}, mode="stack", raw={"raw_channels": 2})
    (reject,) = reject_non_finite(batch, {}, ~np.isfinite(batch.waveform.sum(axis=1)))
    assert reject.where == ((0, 8),)
    assert reject.message.startswith("3 samples are NaN or infinite, the first at 9: ")
    assert batch.mask.tolist() == [True, False]


def test_features_that_overflow_are_rejected_and_sums_that_overflow_are_not():
    batch, _ = read([block(frames=16, count=2)], {b"a": np.full(16, 3e38)})
    features = {"spectrum": np.array([[1, np.inf], [1, 2], [np.nan, 1], [1, 1]], np.float32)}
    (reject,) = reject_non_finite(batch, features, np.array([True] * 4))
    assert (reject.stage, reject.where) == ("compute", ((0, 0),))
    assert "a feature is not finite: the samples reach 3e+38, too large for float32" in reject.message
    assert batch.mask.tolist() == [False, True, False, False]


@pytest.mark.parametrize("dtype", [np.float32, np.int16])
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (64, 16384)])
def test_arrays_are_aligned_for_tensorflow(shape, dtype):
    array = aligned_empty(shape, dtype)
    assert (array.shape, array.dtype) == (shape, dtype)
    assert is_aligned(array)
    assert not is_aligned(np.ones((4, 40), np.float32)[:, 1:])


def test_buffers_are_used_again_only_when_given_back():
    buffers = Buffers((2, L))
    one, other = buffers.take(), buffers.take()
    assert not np.shares_memory(one, other)
    buffers.give_back(one)
    assert buffers.take() is one
    assert buffers.take().shape == (2, L)

"""Blocks to fixed batches: which rows, padding and mask, and what a bad file or segment costs."""

import dataclasses
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrabeam.transforms.batch import (
    Buffers,
    SampleSettings,
    aligned_empty,
    is_aligned,
    plan_batches,
    read_batch,
    reject_non_finite,
)
from spectrabeam.transforms.elements import Block
from spectrabeam.transforms.formats.base import ReadSettings
from spectrabeam.transforms.formats.raw import RawReader
from spectrabeam.transforms.rejects import Reason, RejectError
from spectrabeam.transforms.segment import SegmentSettings

L = 8


def block(name=b"a", frames=100, start=0, count=1, **more):
    known = {"uri": b"/" + name, "format": "raw", "size": 4 * frames, "channels": 1, "sample_rate": 1e3}
    return Block(recording=name, frames=frames, channel=0, start=start, count=count, **(known | more))


def samples(frames, first=0):
    return np.arange(first + 1, first + frames + 1, dtype=np.float32)


def read(blocks, files, *, rows=4, hop=L, reader=None, dtype="<f4", **options):
    """Reads blocks from files in memory: name to samples, or an error to raise."""

    def open_file(uri):
        content = files[uri[1:]]
        if isinstance(content, Exception):
            raise content
        return io.BytesIO(np.asarray(content).astype(dtype).tobytes())

    raw = RawReader(ReadSettings(raw_dtype=dtype, sample_rate=1e3))
    return read_batch(
        blocks,
        waveform=np.full((rows, L), 99, np.float32),  # what an earlier batch left there
        open_file=open_file,
        readers=lambda name: reader or raw,
        segments=SegmentSettings(segment_length=L, hop_length=hop),
        samples=SampleSettings(**options),
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
    whole = block(start=16, count=5, label=3)
    first, second = plan_batches([whole], 3, hop=L)
    assert first == [dataclasses.replace(whole, count=3)]
    assert second == [dataclasses.replace(whole, start=16 + 3 * L, count=2)]


def test_last_batch_is_padded_and_masked():
    blocks = [block(b"a", frames=20, count=3, label=2), block(b"b", frames=8, sample_rate=50.0)]
    batch, rejects = read(blocks, {b"a": samples(20), b"b": samples(8, 50)}, rows=6)
    assert rejects == []
    assert batch.mask.tolist() == [True] * 4 + [False] * 2
    expected = np.zeros((6, L), np.float32)
    expected.reshape(-1)[:20] = samples(20)
    expected[3] = samples(8, 50)
    np.testing.assert_array_equal(batch.waveform, expected)
    assert batch.recording == [b"a", b"a", b"a", b"b", b"", b""]
    assert batch.start.tolist() == [0, 8, 16, 0, 0, 0]
    assert batch.valid.tolist() == [8, 8, 4, 8, 0, 0]
    assert batch.label.tolist() == [2, 2, 2, -1, 0, 0]
    assert batch.sample_rate.tolist() == [1000, 1000, 1000, 50, 0, 0]


@pytest.mark.parametrize("hop", [3, 8, 11])
def test_rows_start_a_hop_apart(hop):
    batch, _ = read([block(frames=30, start=hop, count=3)], {b"a": samples(30)}, hop=hop)
    padded = np.concatenate([samples(30), np.zeros(100, np.float32)])
    expected = [padded[start : start + L] for start in (hop, 2 * hop, 3 * hop)]
    np.testing.assert_array_equal(batch.waveform[:3], expected)
    assert batch.start.tolist() == [hop, 2 * hop, 3 * hop, 0]
    assert batch.valid.tolist() == [min(L, 30 - start) for start in (hop, 2 * hop, 3 * hop)] + [0]


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

    def read(self, file, channel, start, out):
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

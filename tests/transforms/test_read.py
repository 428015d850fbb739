"""Reading a block: mixing, stacking, factors, hops, resampling, and zeros beyond the end; against plain slices."""

import io
import os

import numpy as np
import pytest
import soxr
from hypothesis import given
from hypothesis import strategies as st

from spectrabeam.transforms.formats.raw import RawReader
from spectrabeam.transforms.formats.settings import ReadSettings
from spectrabeam.transforms.read import read_block
from spectrabeam.transforms.rejects import Reason, RejectError
from spectrabeam.transforms.segment import SegmentSettings
from tests.helpers.blocks import RATE, block, source

L = 8


def stored(frames=100, channels=3, seed=0):
    """float32 [frames, channels]."""
    return np.random.default_rng(seed).standard_normal((frames, channels)).astype(np.float32)


def read(
    samples,
    *,
    mode="each",
    start=0,
    count=1,
    hop=L,
    channels=(0,),
    end=None,
    length=L,
    out=np.float32,
    **of_source,
):
    """Rows [count, rows of an example, length] of an interleaved recording."""
    frames, width = samples.shape
    own = source(b"a", frames, **{"size": samples.nbytes} | of_source)
    one = block(b"a", frames, start, count, source=own, channels=channels, end=frames if end is None else end)
    rows = np.full((count, len(channels) if mode == "stack" else 1, length), 99, out)
    raw = RawReader(ReadSettings(raw_dtype=samples.dtype.newbyteorder("<").str, raw_channels=width))
    file = io.BytesIO(samples.astype(samples.dtype.newbyteorder("<")).tobytes())
    segments = SegmentSettings(segment_length=length, hop_length=hop)
    read_block(one, own, rows, file=file, reader=raw, mode=mode, segments=segments)
    return rows


def cut(signal, start, count, hop, end=None, length=L):
    """[count, length], zeros from `end` on; float64."""
    padded = np.concatenate([np.asarray(signal, np.float64)[:end], np.zeros(count * hop + length + 10**4)])
    return np.stack([padded[first : first + length] for first in range(start, start + count * hop, hop)])


@given(
    hop=st.integers(1, 20),
    count=st.integers(1, 6),
    start=st.integers(0, 90),
    end=st.integers(91, 100),
    mode=st.sampled_from(["each", "mix", "stack"]),
    data=st.data(),
)
def test_rows_are_slices_a_hop_apart_with_zeros_beyond_the_end(hop, count, start, end, mode, data):
    samples = stored()
    channels = tuple(
        data.draw(st.permutations([0, 1, 2]))[: 1 if mode == "each" else data.draw(st.integers(1, 3))]
    )
    rows = read(samples, mode=mode, start=start, count=count, hop=hop, channels=channels, end=end)
    signals = samples[:, list(channels)].astype(np.float64)
    if mode != "stack":
        signals = signals.mean(axis=1, keepdims=True)
    expected = np.stack([cut(signal, start, count, hop, end) for signal in signals.T], axis=1)
    np.testing.assert_allclose(rows, expected, rtol=0, atol=3e-7)  # one rounding to float32
    if mode != "mix":
        np.testing.assert_array_equal(rows, expected.astype(np.float32))


def test_mix_is_the_average_rounded_once():
    samples = np.array([[1e8, 1.0, -1e8], [1, 2, 4]], np.float32)  # sums in float32 would lose the 1
    rows = read(samples, mode="mix", channels=(0, 1, 2), length=2, hop=2)
    np.testing.assert_array_equal(rows[0, 0], np.array([1 / 3, 7 / 3]).astype(np.float32))


def test_stacked_channels_stand_in_the_order_they_are_asked_for():
    samples = stored()
    rows = read(samples, mode="stack", channels=(2, 0), start=5, count=2)
    np.testing.assert_array_equal(rows[1], samples[13:21, [2, 0]].T)


def test_region_ends_give_zeros_though_the_file_goes_on():
    samples = stored(channels=1)
    rows = read(samples, start=40, count=2, end=51)
    np.testing.assert_array_equal(rows[1, 0], [*samples[48:51, 0], *[0] * 5])


@pytest.mark.parametrize("mode", ["each", "mix", "stack"])
def test_one_factor_is_for_all_channels_and_several_are_one_each(mode):
    samples = stored()
    channels = (2,) if mode == "each" else (2, 1)
    plain = [samples[:L, channel].astype(np.float64) for channel in channels]
    for factors, own in (((0.25,), (0.25,) * 3), ((10.0, 0.5, -2.0), (10.0, 0.5, -2.0))):
        expected = [signal * own[channel] for signal, channel in zip(plain, channels, strict=True)]
        expected = np.stack(expected) if mode == "stack" else np.mean(expected, axis=0)[None]
        rows = read(samples, mode=mode, channels=channels, factors=factors)
        np.testing.assert_allclose(rows[0], expected, rtol=3e-7, atol=1e-6)


def test_factors_leave_stored_integers_as_they_are():
    samples = np.arange(40, dtype=np.int16).reshape(40, 1)
    rows = read(samples, factors=(0.5,), out=np.int16)
    assert rows.dtype == np.int16
    np.testing.assert_array_equal(rows[0, 0], np.arange(L))


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"mode": "mix", "channels": (0, 1)}, "averages of channels"),
        ({"sample_rate": 2 * RATE}, "resampled samples"),
    ],
)
def test_what_is_no_integer_any_more_cannot_be_kept_as_one(more, what):
    samples = np.zeros((4000, 2), np.int16)
    with pytest.raises(RejectError) as caught:
        read(samples, out=np.int16, **more)
    assert caught.value.reason is Reason.DTYPE_MISMATCH
    assert str(caught.value) == (
        f"keep_waveform=int16 keeps 16-bit integers as they came, and {what} are no integers: set "
        "keep_waveform=float32"
    )


@pytest.mark.parametrize("hop", [200, 64, 300])
def test_recordings_of_another_rate_are_resampled_then_scaled_and_mixed(hop):
    samples = stored(20_000, 2)
    rate, factors = 2.5 * RATE, (2.0, -0.5)
    whole = [soxr.resample(signal.astype(np.float64), rate, RATE, quality="VHQ") for signal in samples.T]
    expected = (2.0 * whole[0] - 0.5 * whole[1]) / 2
    end = len(expected)
    rows = read(
        samples, mode="mix", channels=(0, 1), start=end - 450, count=3, hop=hop, end=end, length=200,
        sample_rate=rate, factors=factors,
    )  # fmt: skip
    expected = cut(expected, end - 450, 3, hop, end, 200)
    assert np.abs(rows[:, 0] - expected).max() <= 2e-6 * np.abs(samples).max()


def test_a_file_of_another_size_than_planned_is_a_reject():
    samples = stored(channels=1)
    with pytest.raises(RejectError) as caught:
        read(samples, size=404)
    assert caught.value.reason is Reason.CHANGED
    assert str(caught.value) == (
        "the file had 404 bytes when it was planned and has 400 now: start the run again"
    )


class Counting(io.BytesIO):
    """Counts the bytes that are read."""

    taken = 0

    def readinto(self, buffer):
        self.taken += len(buffer)
        return super().readinto(buffer)


def test_nothing_between_far_segments_is_read():
    samples = stored(10_000, 1)
    file = Counting(samples.tobytes())
    own = source(b"a", 10_000)
    rows = np.empty((3, 1, L), np.float32)
    raw = RawReader(ReadSettings(raw_dtype="<f4"))
    segments = SegmentSettings(segment_length=L, hop_length=3000)
    read_block(block(b"a", 10_000, count=3), own, rows, file=file, reader=raw, mode="each", segments=segments)
    assert file.taken == 3 * L * 4
    assert file.seek(0, os.SEEK_END) == 40_000

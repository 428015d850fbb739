"""Resampling block by block against the whole recording through soxr at its highest quality, in float64."""

from fractions import Fraction

import numpy as np
import pytest
import soxr
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spectrabeam.transforms.resample import ratio, resample_range, resampled_frames

RATES = [
    (44_100.0, 16_000.0),
    (48_000.0, 12_000.0),
    (12_000.0, 48_000.0),
    (8_000.0, 11_025.0),
    (44_100.0, 44_099.0),
    (25_600.0, 12_000.5),
]
TOLERANCE = 1e-6  # of the peak: blocks differ in float64 by 1e-10, and are rounded to float32 once, 6e-8


def noise(frames, seed=0):
    random = np.random.default_rng(seed)
    tone = np.sin(2 * np.pi * 0.05 * np.arange(frames))
    return (tone + random.standard_normal(frames)).astype(np.float32)


def whole(samples, rate, new_rate):
    """float64 [frames], the nearest length; where soxr rounds down, its last sample stands for the missing one."""
    length = resampled_frames(len(samples), ratio(rate, new_rate))
    found = soxr.resample(samples.astype(np.float64), rate, new_rate, quality="VHQ")
    assert abs(len(found) - length) <= 1
    return np.concatenate([found, found[-1:]])[:length] if len(found) else np.zeros(length)


def piece(samples, rate, new_rate, start, count):
    reads = []

    def read(first, out):
        reads.append((first, len(out)))
        assert 0 <= first <= first + len(out) <= len(samples)
        out[:] = samples[first : first + len(out)]

    out = np.full(count, np.nan, np.float32)
    resample_range(read, len(samples), rate, new_rate, start, out)
    return out, reads


def assert_close(found, expected, samples):
    assert np.abs(found - expected).max() <= TOLERANCE * np.abs(samples).max()


@pytest.mark.parametrize(("rate", "new_rate"), RATES)
def test_segments_are_those_of_the_whole_resampled_recording(rate, new_rate):
    samples = noise(60_000)
    expected = whole(samples, rate, new_rate)
    length = 1000
    for start in [*range(0, len(expected) - length, 3777), 1, 513, len(expected) - length, len(expected) - 1]:
        count = min(length, len(expected) - start)
        found, _ = piece(samples, rate, new_rate, start, count)
        assert_close(found, expected[start : start + count], samples)


@pytest.mark.parametrize(("rate", "new_rate"), RATES)
def test_blocks_next_to_one_another_fit_without_a_seam(rate, new_rate):
    samples = noise(30_000, seed=3)
    expected = whole(samples, rate, new_rate)
    pieces = []
    for start in range(0, len(expected), 2500):
        pieces.append(piece(samples, rate, new_rate, start, min(2500, len(expected) - start))[0])
    assert_close(np.concatenate(pieces), expected, samples)


@pytest.mark.parametrize(("rate", "new_rate"), RATES)
@settings(max_examples=60, deadline=None)
@given(frames=st.integers(1, 600), seed=st.integers(0, 9), data=st.data())
def test_short_recordings_are_resampled_to_their_end(rate, new_rate, frames, seed, data):
    samples = noise(frames, seed)
    expected = whole(samples, rate, new_rate)
    assume(len(expected))
    start = data.draw(st.integers(0, len(expected) - 1))
    count = data.draw(st.integers(1, len(expected) - start))
    found, _ = piece(samples, rate, new_rate, start, count)
    assert_close(found, expected[start : start + count], samples)


@pytest.mark.parametrize(("rate", "new_rate"), RATES)
def test_a_tone_below_both_half_rates_keeps_frequency_phase_and_level(rate, new_rate):
    frequency = 0.2 * min(rate, new_rate)
    samples = np.sin(2 * np.pi * frequency * np.arange(50_000) / rate).astype(np.float32)
    start, count = 7001, 2000
    found, _ = piece(samples, rate, new_rate, start, count)
    expected = np.sin(2 * np.pi * frequency * (start + np.arange(count)) / new_rate)
    assert np.abs(found - expected).max() < 1e-5  # pass-band ripple of the filter


def test_what_lies_above_the_new_half_rate_is_gone():
    samples = np.sin(2 * np.pi * 9000 * np.arange(60_000) / 48_000).astype(np.float32)
    found, _ = piece(samples, 48_000.0, 12_000.0, 5000, 2000)
    assert np.abs(found).max() < 1e-6


@pytest.mark.parametrize(("rate", "new_rate"), RATES[:4])
def test_only_samples_near_the_block_are_read(rate, new_rate):
    samples = np.zeros(3_000_000, np.float32)
    start = resampled_frames(2_000_000, ratio(rate, new_rate))
    _, reads = piece(samples, rate, new_rate, start, 1000)
    span = 1000 * rate / new_rate
    assert sum(count for _, count in reads) < span + 2 * 512 * max(1, rate / new_rate) + 1000
    assert min(first for first, _ in reads) > 2_000_000 - 5000


@pytest.mark.parametrize(
    ("rate", "new_rate", "expected"),
    [
        (44_100.0, 16_000.0, Fraction(441, 160)),
        (12_000.0, 48_000.0, Fraction(1, 4)),
        (25_600.0, 12_000.5, Fraction(51_200, 24_001)),
        (0.1, 0.3, Fraction(1, 3)),
    ],
)
def test_ratio_is_that_of_the_rates_in_lowest_terms(rate, new_rate, expected):
    assert ratio(rate, new_rate) == expected


@given(frames=st.integers(0, 10**9), rates=st.sampled_from(RATES))
def test_resampled_length_is_the_nearest(frames, rates):
    step = ratio(*rates)
    assert abs(Fraction(resampled_frames(frames, step)) - Fraction(frames) / step) <= Fraction(1, 2)

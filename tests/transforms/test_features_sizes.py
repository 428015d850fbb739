"""Lengths of FFTs that are slow."""

import pytest

from spectrabeam.transforms.features.sizes import largest_factor, slow_length


@pytest.mark.parametrize(
    ("number", "factor"),
    [(1, 1), (2, 2), (16384, 2), (16000, 5), (343, 7), (22, 11), (16381, 16381), (4096 * 13, 13)],
)
def test_largest_prime_factor(number, factor):
    assert largest_factor(number) == factor


@pytest.mark.parametrize("points", [1, 16384, 16000, 2520])
def test_lengths_of_small_factors_are_fine(points):
    assert slow_length(points) is None


def test_others_are_told_with_the_next_fast_lengths_and_their_times():
    warning = slow_length(16381)
    assert warning is not None
    assert "an FFT of 16381 points, which is a multiple of the prime 16381, takes " in warning
    assert "16384 points " in warning
    assert warning.count("µs") == 2  # the next fast length is the power of two

"""Lengths of FFTs: which are slow, and by how much on this machine."""

from __future__ import annotations

import time

import numpy as np
import scipy.fft

from ..device import load_tensorflow

_SMALL_FACTOR = 7  # FFT libraries have code of their own for prime factors up to here
_ROWS = 8
_TRIES = 5


def largest_factor(number: int) -> int:
    """The largest prime factor; 1 of 1."""
    largest, factor = 1, 2
    while factor * factor <= number:
        while number % factor == 0:
            largest, number = factor, number // factor
        factor += 1
    return max(largest, number)


def slow_length(points: int) -> str | None:
    """A warning where an FFT's length has a large prime factor, with the next lengths and their measured times."""
    factor = largest_factor(points)
    if factor <= _SMALL_FACTOR:
        return None
    others = {int(scipy.fft.next_fast_len(points, real=True) or points), 1 << (points - 1).bit_length()}
    here = seconds(points)
    shown = ", ".join(
        f"{other} points {1e6 * taken:,.0f} µs ({here / taken:.2g} times as fast)"
        for other in sorted(others)
        for taken in [seconds(other)]
    )
    return (
        f"an FFT of {points} points, which is a multiple of the prime {factor}, takes {1e6 * here:,.0f} µs a row here; "
        f"{shown}: set fft_length, or another segment_length or frame_length"
    )


def seconds(points: int) -> float:
    """The least time that TensorFlow takes for the FFT of one float32 row on this machine."""
    tf = load_tensorflow()
    rows = tf.constant(np.random.default_rng(0).standard_normal((_ROWS, points), np.float32))
    taken = []
    for _ in range(_TRIES):
        began = time.perf_counter()
        tf.signal.rfft(rows)
        taken.append(time.perf_counter() - began)
    return min(taken) / _ROWS

"""What the numbers must be, by an independent route in float64."""

from __future__ import annotations

import numpy as np
import scipy.fft

EPSILON = 1e-6


def magnitude(segment: np.ndarray) -> np.ndarray:
    """|rfft(x)|, float64, by scipy's FFT."""
    return np.abs(scipy.fft.rfft(np.asarray(segment, np.float64)))


def log_spectrum(segment: np.ndarray, epsilon: float = EPSILON) -> np.ndarray:
    """log(|rfft(x)| + ε), float64."""
    return np.log(magnitude(segment) + epsilon)


def assert_spectrum(stored: np.ndarray, segment: np.ndarray, epsilon: float = EPSILON) -> float:
    """Holds a stored float32 spectrum against the reference.

    The magnitude must be within 1e-6 of the row's largest, a few float32 roundings (6e-8) over the 14 stages
    of a 16384-point FFT. Near a zero bin the logarithm magnifies them, so of its difference only the 99 %
    quantile is bounded, and the largest is returned.
    """
    expected = magnitude(segment)
    found = np.exp(np.asarray(stored, np.float64)) - epsilon
    peak = expected.max()
    # exp and subtraction of ε cannot be better than the stored float32 logarithm: 4e-6 of ε for silence
    assert np.abs(found - expected).max() <= 1e-6 * peak + 8e-6 * epsilon
    difference = np.abs(stored - np.log(expected + epsilon))
    assert np.quantile(difference, 0.99) < 1e-3
    return float(difference.max())

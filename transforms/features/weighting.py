"""A and C frequency weighting."""

from __future__ import annotations

import numpy as np


def weighting_response(name: str, frequencies: np.ndarray) -> np.ndarray:
    """Magnitude of the A or C weighting, 1 at 1 kHz.

    Source: IEC 61672-1:2013, annex E, which derives the pole frequencies (about 20.6, 107.7, 737.9 and 12194 Hz)
    from round design values.

    Args:
      name: "A" or "C".
      frequencies: Hz, float64 [bins].

    Returns:
      float64 [bins]; 0 at 0 Hz.
    """
    f1, f2, f3, f4 = _poles()

    def weight(f: np.ndarray) -> np.ndarray:
        c_weight = f4**2 * f**2 / ((f**2 + f1**2) * (f**2 + f4**2))
        return c_weight if name == "C" else c_weight * f**2 / np.sqrt((f**2 + f2**2) * (f**2 + f3**2))

    return weight(frequencies) / weight(np.array([1000.0]))


def _poles() -> tuple[float, float, float, float]:
    """Hz; the first and last belong to C and A, the others to A alone."""
    reference, low, high, middle = 1000.0**2, 10**3.0, 10**7.8, 10**2.45  # the first three squared
    half = 0.5**0.5
    b = (reference + low * high / reference - half * (low + high)) / (1 - half)
    root = (b**2 - 4 * low * high) ** 0.5
    golden = (3 - 5**0.5) / 2
    return ((-b - root) / 2) ** 0.5, middle * golden, middle / golden, ((-b + root) / 2) ** 0.5

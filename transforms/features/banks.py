"""Filter banks over the bins of a spectrum, computed in float64."""

from __future__ import annotations

from typing import Literal

import numpy as np

MelScale = Literal["slaney", "htk"]

_SLANEY_STEP = 200 / 3  # Hz a mel, below the corner
_SLANEY_CORNER = 1000.0
_SLANEY_LOG_STEP = np.log(6.4) / 27


def hz_to_mel(frequency: np.ndarray, scale: MelScale) -> np.ndarray:
    """Mel of Hz. htk: 2595 log10(1 + f/700); slaney: linear to 1 kHz, then logarithmic (Auditory Toolbox, 1998)."""
    frequency = np.asarray(frequency, np.float64)
    if scale == "htk":
        return 2595 * np.log10(1 + frequency / 700)
    above = (
        _SLANEY_CORNER / _SLANEY_STEP + np.log(np.maximum(frequency, 1.0) / _SLANEY_CORNER) / _SLANEY_LOG_STEP
    )
    return np.where(frequency < _SLANEY_CORNER, frequency / _SLANEY_STEP, above)


def mel_to_hz(mel: np.ndarray, scale: MelScale) -> np.ndarray:
    """The inverse of `hz_to_mel`."""
    mel = np.asarray(mel, np.float64)
    if scale == "htk":
        return 700 * (10 ** (mel / 2595) - 1)
    corner = _SLANEY_CORNER / _SLANEY_STEP
    return np.where(
        mel < corner, mel * _SLANEY_STEP, _SLANEY_CORNER * np.exp(_SLANEY_LOG_STEP * (mel - corner))
    )


def mel_bank(
    frequencies: np.ndarray,
    bands: int,
    low: float,
    high: float,
    scale: MelScale,
    norm: Literal["slaney", "none"],
) -> tuple[np.ndarray, np.ndarray]:
    """Triangles whose corners are evenly spaced in mel.

    Args:
      frequencies: of the bins, Hz, float64 [bins].
      bands: how many triangles.
      low, high: where the first begins and the last ends, Hz.
      scale: which mel.
      norm: slaney divides each triangle by half its width in Hz, so that all have the same area; none leaves peaks at 1.

    Returns:
      float64 [bins, bands], and the centres in Hz, float64 [bands].
    """
    edges = mel_to_hz(
        np.linspace(hz_to_mel(np.array(low), scale), hz_to_mel(np.array(high), scale), bands + 2), scale
    )
    left, centre, right = edges[:-2], edges[1:-1], edges[2:]
    f = frequencies[:, None]
    bank = np.maximum(0, np.minimum((f - left) / (centre - left), (right - f) / (right - centre)))
    if norm == "slaney":
        bank *= 2 / (right - left)
    return bank, centre


def octave_bank(
    frequencies: np.ndarray, fraction: int, low: float, high: float
) -> tuple[np.ndarray, np.ndarray]:
    """Sums bins into 1/fraction-octave bands; a bin that an edge cuts counts by the share of its width.

    Mid-band frequencies are base ten, 1000 · G^(k/b) Hz with G = 10^0.3, for odd b, and between those for even b
    (IEC 61260-1:2014, 5.2 to 5.4). Bands that lie whole between `low` and `high` are taken.

    Returns:
      float64 [bins, bands], and the mid-band frequencies in Hz, float64 [bands].
    """
    ratio = 10**0.3
    shift = 0.0 if fraction % 2 else 0.5
    number = np.arange(-20 * fraction, 10 * fraction)
    middle = 1000 * ratio ** ((number + shift) / fraction)
    lower, upper = middle * ratio ** (-0.5 / fraction), middle * ratio ** (0.5 / fraction)
    kept = (lower >= low) & (upper <= high)
    middle, lower, upper = middle[kept], lower[kept], upper[kept]
    step = frequencies[1]
    begin, end = (frequencies - step / 2)[:, None], (frequencies + step / 2)[:, None]
    share = (np.minimum(end, upper) - np.maximum(begin, lower)) / step
    return np.clip(share, 0, 1), middle


def dct_basis(inputs: int, outputs: int) -> np.ndarray:
    """The orthonormal DCT-II as a matrix, float64 [inputs, outputs]; see scipy.fft.dct(type=2, norm="ortho")."""
    n, k = np.arange(inputs)[:, None], np.arange(outputs)[None]
    basis = np.cos(np.pi * (2 * n + 1) * k / (2 * inputs)) * np.sqrt(2 / inputs)
    basis[:, 0] /= np.sqrt(2)
    return basis


def smoothing(frames: int, coefficient: float) -> tuple[np.ndarray, np.ndarray]:
    """The filter M[t] = (1 − b) M[t − 1] + b E[t] as a matrix, since the number of frames is known.

    Returns:
      float64 [frames, frames] from E to M, rows the inputs; and float64 [frames], what M[−1] = 1 adds to each.
    """
    lag = np.arange(frames)[None] - np.arange(frames)[:, None]
    matrix = np.where(lag >= 0, coefficient * (1 - coefficient) ** np.maximum(lag, 0), 0.0)
    return matrix, (1 - coefficient) ** np.arange(1, frames + 1)

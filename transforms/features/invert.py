"""From stored features back to samples, for the kinds that keep everything."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.signal

from ..device import load_tensorflow
from .base import constant, fft_length_of, fix_length, window_of
from .frames import Stft
from .spectrum import Complex

_LEAST_WEIGHT = (
    1e-3  # of the largest; samples under less of the windows are not got back to float32's precision
)


def from_complex(values: Any, kind: Complex, segment_length: int, *, is_complex: bool = False) -> Any:
    """The segment, as it was after preparing.

    Args:
      values: float [batch, bins, 2].
      kind: the settings that they were computed with.
      segment_length: samples of a segment.
      is_complex: whether the samples were complex, and the spectrum two-sided.

    Returns:
      float or complex [batch, segment_length]. TensorFlow's irfft is normalised: nothing is divided by N.

    Raises:
      ValueError: the settings have left something out; the message says which.
    """
    points = fft_length_of(kind.fft_length, segment_length)
    window = window_of(kind.window, segment_length)
    for name, lost in (
        ("band", kind.band is not None),
        ("integrate", kind.integrate > 0),
        ("weighting", kind.weighting != "none"),
        ("amplitude", kind.amplitude != "none"),
        ("fft_length", points < segment_length),
        ("window", bool((np.abs(window) < _LEAST_WEIGHT).any())),
    ):
        if lost:
            raise ValueError(f"{name}={getattr(kind, name)} is not undone: compute kind complex without it")
    _require_bins(values.shape[1], points, is_complex=is_complex)
    samples = _back(values, points, is_complex=is_complex)[..., :segment_length]
    return samples / constant(window, samples)


def from_stft(
    values: Any, kind: Stft, segment_length: int, *, is_complex: bool = False
) -> tuple[Any, np.ndarray]:
    """The segment, as it was after preparing, by weighted overlap-add (Griffin and Lim 1984, eq. 6).

    Args:
      values: float [batch, frames, bins, 2].
      kind: the settings that they were computed with.
      segment_length: samples of a segment.
      is_complex: whether the samples were complex, and the spectra two-sided.

    Returns:
      float or complex [batch, segment_length], zero where it is not known; and bool [segment_length], which samples are known:
      not those behind the last frame, nor the first ones of a window that begins at zero.

    Raises:
      ValueError: the settings have left something out, or the windows leave samples out (NOLA); the message says which.
    """
    points = fft_length_of(kind.fft_length, kind.frame_length)
    if kind.values != "complex" or kind.band is not None or points < kind.frame_length:
        raise ValueError(
            f"values={kind.values}, band={kind.band}, fft_length={points}: only values=complex without band and with "
            f"fft_length of frame_length={kind.frame_length} or more lead back to samples"
        )
    window = window_of(kind.window, kind.frame_length)
    overlap = kind.frame_length - kind.frame_step
    if overlap < 0 or not scipy.signal.check_NOLA(window, kind.frame_length, overlap):
        raise ValueError(
            f"window={kind.window} leaves samples out at frame_step={kind.frame_step} (NOLA): lower frame_step"
        )
    _require_bins(values.shape[2], points, is_complex=is_complex)
    tf = load_tensorflow()
    count = values.shape[1]
    if count != 1 + (segment_length - kind.frame_length) // kind.frame_step:
        raise ValueError(
            f"values have {count} frames, which segment_length={segment_length} does not give: set the right one"
        )
    frames = _back(values, points, is_complex=is_complex)[..., : kind.frame_length]
    frames = frames * constant(window, frames)
    summed = tf.signal.overlap_and_add(frames, kind.frame_step)
    weight = np.zeros((count - 1) * kind.frame_step + kind.frame_length)
    for frame in range(count):
        weight[frame * kind.frame_step :][: kind.frame_length] += window**2
    known = weight > _LEAST_WEIGHT**2 * weight.max()
    samples = summed * constant(np.where(known, 1 / np.where(known, weight, 1), 0), summed)
    return fix_length(samples, segment_length), np.pad(known, (0, max(0, segment_length - len(known))))[
        :segment_length
    ]


def _require_bins(bins: int, points: int, *, is_complex: bool) -> None:
    expected = points if is_complex else points // 2 + 1
    if bins != expected:
        raise ValueError(
            f"values have {bins} bins, and {points} points of {'complex' if is_complex else 'real'} samples give {expected}: "
            "set kind, segment_length and is_complex as they were computed"
        )


def _back(values: Any, points: int, *, is_complex: bool) -> Any:
    """Float [..., bins, 2] to the samples, [..., points]; the inverse of `base.spectrum_of`."""
    tf = load_tensorflow()
    spectrum = tf.complex(values[..., 0], values[..., 1])
    if is_complex:
        return tf.signal.ifft(tf.signal.ifftshift(spectrum, axes=-1))
    return tf.signal.irfft(spectrum, [points])

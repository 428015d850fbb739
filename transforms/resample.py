"""Another sample rate, block by block, with the samples that the whole recording would have.

soxr's very high quality filter runs in float64. Resampling is the same at every multiple of the ratio's
period (M input samples for L output samples, M/L the reduced ratio of the rates), so a block starts at such a
multiple, with enough samples before it for the filter.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

_QUALITY = "VHQ"
# Samples at the lower of both rates for the filter to settle: from 256 on, blocks and whole agree to 1e-10.
_SETTLING = 512
# Above, soxr interpolates its filter, and a shift by a period changes 1e-5 of the samples' size: start at 0 then.
_LONGEST_PERIOD = 1000
_CHUNK = 1 << 17
LARGEST_RATIO = 256  # between rates, either way


def ratio(rate: float, new_rate: float) -> Fraction:
    """Input samples an output sample; rates count to a millionth of a hertz."""
    return Fraction(rate).limit_denominator(10**6) / Fraction(new_rate).limit_denominator(10**6)


def resampled_frames(frames: int, step: Fraction) -> int:
    """Samples that `frames` input samples become: frames / step, rounded to the nearest.

    >>> resampled_frames(44_100, ratio(44_100, 16_000))
    16000
    """
    return int(Fraction(frames) / step + Fraction(1, 2))


def resample_range(
    read: Callable[[int, np.ndarray], None],
    frames: int,
    rate: float,
    new_rate: float,
    start: int,
    out: np.ndarray,
) -> None:
    """Fills `out` with samples [start, start + len(out)) of the resampled recording.

    Args:
      read: fills an array of the type of `out` with the recording's samples from a start on.
      frames: samples of the recording, at its own rate.
      rate, new_rate: Hz.
      start: at the new rate.
      out: float32 or complex64 [samples]; the range must lie within the resampled recording.
    """
    import soxr

    step = ratio(rate, new_rate)
    settling = int(_SETTLING * max(1, step))
    periods = (
        max(0, int(start * step) - settling) // step.numerator if step.denominator <= _LONGEST_PERIOD else 0
    )
    position, skip = periods * step.numerator, start - periods * step.denominator
    end = int((start + len(out)) * step) + settling + 1  # beyond the recording's end are zeros
    parts = 2 if out.dtype.kind == "c" else 1  # real and imaginary part, side by side
    stream = soxr.ResampleStream(rate, new_rate, parts, dtype="float64", quality=_QUALITY)
    filled = 0
    while filled < len(out):
        samples = np.zeros(min(_CHUNK, end - position), out.dtype)
        there = samples[: max(0, min(len(samples), frames - position))]
        if len(there):
            read(position, there)
        position += len(samples)
        wide = samples.view(np.float32).astype(np.float64).reshape(len(samples), parts)
        chunk = stream.resample_chunk(wide if parts > 1 else wide[:, 0], last=position == end)
        if parts > 1:
            chunk = np.ascontiguousarray(chunk).view(np.complex128)[:, 0]
        part = chunk[skip : skip + len(out) - filled]
        skip -= min(skip, len(chunk))
        out[filled : filled + len(part)] = part
        filled += len(part)

"""Stored numbers to samples: the scale, and the types that `Reader.read` may be asked for."""

from __future__ import annotations

import numpy as np

from ..rejects import Reason, RejectError
from .base import not_int16

FULL_SCALE = "full scale"


def scaling(scale: str | float, dtype: np.dtype, *, audio: bool = False) -> tuple[float, float]:
    """(offset, factor): samples are (stored − offset) × factor.

    Args:
      scale: as in the settings: auto, pcm, none or a factor.
      dtype: of the stored numbers.
      audio: whether the format is an audio container, whose integers `auto` brings to [-1, 1).
    """
    if isinstance(scale, float):
        return 0.0, scale
    if (scale == "pcm" or (scale == "auto" and audio)) and dtype.kind in "iu":
        full_scale = float(2 ** (8 * dtype.itemsize - 1))
        return (full_scale if dtype.kind == "u" else 0.0), 1.0 / full_scale
    return 0.0, 1.0


def store(stored: np.ndarray, out: np.ndarray, offset: float = 0.0, factor: float = 1.0) -> None:
    """Writes stored numbers into `out` as `Reader.read` promises; rounds to float32 once.

    Args:
      stored: [samples], any real or complex type and byte order.
      out: float32, complex64 or int16 [samples].
      offset, factor: see `scaling`.

    Raises:
      RejectError: `out` asks for real or int16 samples, and these are not.
    """
    if out.dtype == np.int16:
        if stored.dtype.newbyteorder("=") != np.int16:
            raise not_int16(stored.dtype.str)
        out[:] = stored
        return
    if stored.dtype.kind == "c" and out.dtype.kind != "c":
        raise complex_samples(stored.dtype.str)
    with np.errstate(over="ignore", invalid="ignore"):  # what is not finite in float32 is rejected as such
        if (offset, factor) == (0.0, 1.0):
            out[:] = stored
        else:
            wide = np.complex128 if stored.dtype.kind == "c" else np.float64
            out[:] = (stored.astype(wide) - offset) * factor


def complex_samples(stored: str) -> RejectError:
    """Complex samples where real ones are asked for."""
    return RejectError(
        Reason.COMPLEX_SAMPLES,
        f"samples are complex ({stored}), and these features take real ones: store real and imaginary part, or the "
        "magnitude, as real recordings",
    )

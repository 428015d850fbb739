"""Whether headerless samples look as if their bytes were the other way round."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from ..transforms.elements import Source
from ..transforms.formats.choose import Readers, open_recording
from ..transforms.formats.settings import ReadSettings
from ..transforms.rejects import RejectError

_SAMPLES = 1 << 14
_FAR_SMOOTHER = 4.0
_ENOUGH = 64  # samples to judge by


def maybe_byteswapped(source: Source, name: str, settings: ReadSettings) -> str | None:
    """A warning where a headerless recording's first samples are far smoother with their bytes swapped; else None."""
    own = json.loads(source.overrides) if source.overrides else {}
    stored = own.get("raw_dtype", settings.raw_dtype)
    if source.format != "raw" or stored is None:
        return None
    dtype = np.dtype(stored)
    if dtype.itemsize == 1 or dtype.kind == "c":
        return None
    swapped = dtype.newbyteorder().str
    given = _first(source, own | {"raw_dtype": dtype.str}, settings)
    other = _first(source, own | {"raw_dtype": swapped}, settings)
    if given is None or other is None or len(given) < _ENOUGH:
        return None
    with np.errstate(invalid="ignore"):
        given_varies, other_varies = np.ptp(given) != 0, np.ptp(other) != 0
    if not other_varies:
        return None
    rough, smooth = _roughness(given), _roughness(other)
    if not given_varies and not given.any() and dtype.kind == "f":  # whole numbers, swapped, are next to zero
        how = "not next to zero, and smoother"
        if smooth * _FAR_SMOOTHER > 1:
            return None
    elif not smooth * _FAR_SMOOTHER < rough:
        return None
    elif np.isfinite(rough):
        how = f"{rough / max(smooth, 1e-9):.0f} times smoother"
    else:
        how = "all finite and far smoother"
    return (
        f"maybe_byteswapped: the samples of {name} are {how} as {swapped} than as raw_dtype={dtype.str}: "
        "check the byte order"
    )


def _first(source: Source, overrides: dict[str, Any], settings: ReadSettings) -> np.ndarray | None:
    reader = Readers(settings).get("raw", json.dumps(overrides))
    samples = np.empty(min(_SAMPLES, source.frames), np.float32)
    try:
        with open_recording(source) as file:
            reader.read(file, source.locator, 0, 0, samples)
    except (RejectError, OSError):
        return None
    with np.errstate(invalid="ignore"):  # signalling NaNs, which swapped bytes may be
        return samples.astype(np.float64)


def _roughness(samples: np.ndarray) -> float:
    """Mean square of steps over twice the variance: 1 for white noise, near 0 for what is smooth."""
    if not np.isfinite(samples).all():
        return np.inf
    variance = float(np.var(samples))
    return float(np.mean(np.diff(samples) ** 2)) / (2 * variance) if variance else 0.0

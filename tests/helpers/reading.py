"""Readers called as the pipeline calls them: described once, then read by ranges."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from spectrabeam.transforms.elements import Description
from spectrabeam.transforms.rejects import RejectError


def opened(source: bytes | Path) -> Any:
    """A file in memory, or a local one as the pipeline opens it."""
    return io.BytesIO(source) if isinstance(source, bytes) else source.open("rb", buffering=0)


def describe(reader: Any, source: bytes | Path) -> list:
    """What the reader says of a file."""
    size = len(source) if isinstance(source, bytes) else source.stat().st_size
    with opened(source) as file:
        return list(reader.describe(file, size))


def only(reader: Any, source: bytes | Path) -> Description:
    """The one recording of a file."""
    (description,) = describe(reader, source)
    if isinstance(description, RejectError):
        raise description
    return description


def read(
    reader: Any, source: bytes | Path, found: Description, start: int = 0, count: int | None = None, channel: int = 0,
    dtype: Any = np.float32,
) -> np.ndarray:  # fmt: skip
    """A range of one channel; to the end if no count is given."""
    out = np.full(found.frames - start if count is None else count, 77, dtype)
    with opened(source) as file:
        reader.read(file, found.locator, channel, start, out)
    return out


@st.composite
def ranges(draw: Any, frames: int) -> tuple[int, int]:
    """(start, count) within `frames`."""
    start = draw(st.integers(0, frames - 1))
    return start, draw(st.integers(1, frames - start))

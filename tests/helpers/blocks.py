"""Blocks of headerless recordings in memory."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy as np

from spectrabeam.transforms.elements import Block, Source

RATE = 1000.0


def source(name: bytes = b"a", frames: int = 100, **more: Any) -> Source:
    """A recording of float32 samples."""
    known = {
        "uri": b"/" + name,
        "name": name,
        "format": "raw",
        "size": 4 * frames,
        "locator": "",
        "overrides": "",
    }
    return Source(**known | {"frames": frames, "sample_rate": RATE} | more)


def block(
    name: bytes = b"a",
    frames: int = 100,
    start: int = 0,
    count: int = 1,
    size: int | None = None,
    **more: Any,
) -> Block:
    """A run of segments of its channel 0."""
    own = source(name, frames) if size is None else source(name, frames, size=size)
    known = {
        "recording": name,
        "source": own,
        "paired": None,
        "sample_rate": RATE,
        "channels": (0,),
        "start": start,
        "end": frames,
        "count": count,
    }
    return Block(**known | more)


def opener(files: Mapping[bytes, Any], dtype: str = "<f4") -> Callable[[Source], BinaryIO]:
    """Opens files in memory by name: samples, or an error to raise."""

    def open_file(wanted: Source) -> BinaryIO:
        content = files[wanted.uri[1:]]
        if isinstance(content, Exception):
            raise content
        return io.BytesIO(np.asarray(content).astype(dtype).tobytes())

    return open_file

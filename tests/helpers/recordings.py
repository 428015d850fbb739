"""Recordings as the plan sees them, without files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spectrabeam.pipeline.match import Found
from spectrabeam.pipeline.recording import Recording, Said
from spectrabeam.transforms.elements import Description


def recording(
    name: str | bytes = "a.raw",
    *,
    frames: int = 640,
    channels: int = 1,
    rate: float | None = 1000.0,
    region: tuple[int, int] | None = None,
    member: str | None = None,
    attributes: Mapping[str, Any] | None = None,
    start_time_ns: int | None = None,
    said: Mapping[str, Any] | None = None,
    fields: Mapping[str, Any] | None = None,
    channel_names: tuple[str, ...] = (),
    lists: Sequence[tuple[int, ...]] = ((0,),),
    **more: Any,
) -> Recording:
    """One recording; `said` and `fields` are what a manifest says of it, `lists` the channels of its examples."""
    path = name if isinstance(name, bytes) else name.encode()
    found = Found(path, b"/not/there/" + path, 4 * frames * channels, 5, "raw")
    description = Description(
        format="raw",
        sample_rate=rate,
        channels=channels,
        frames=frames,
        dtype="<f4",
        member=member,
        channel_names=channel_names,
        start_time_ns=start_time_ns,
        attributes=dict(attributes or {}),
    )
    known: dict[str, Any] = {
        "id": path if member is None else path + b"//" + member.encode(),
        "found": found,
        "description": description,
        "said": Said(fields=dict(fields or {}), **(said or {})),
        "sample_rate": rate,
        "region": region or (0, frames),
        "channels": tuple(lists),
    }
    return Recording(**known | more)


def tone(samples: int, frequency: float, amplitude: float = 1.0) -> np.ndarray:
    """A sine, float64 [samples]; the frequency in cycles a sample."""
    return amplitude * np.sin(2 * np.pi * frequency * np.arange(samples))

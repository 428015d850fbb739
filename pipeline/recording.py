"""A recording as the plan sees it: where it is, what it holds, and what is said about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..transforms.elements import Description, Origin, Source
from ..transforms.rejects import Reject
from .match import Found

Field = str | int | float


@dataclasses.dataclass(frozen=True, slots=True)
class Interval:
    """Samples [start, end) that have a label."""

    start: int
    end: int
    label: str


@dataclasses.dataclass(frozen=True, slots=True)
class Said:
    """What a manifest's row or a sidecar says of a recording; None and empty where it says nothing.

    Attributes:
      sample_rate: its own, Hz.
      unit: of the samples.
      factors: what samples are multiplied with, one for all channels or one each.
      channel: the only one that is meant, by number or name.
      channel_names: of all channels.
      start_time_ns: of the first sample, nanoseconds since 1970 UTC.
      label, labels: class names.
      split, group: as in the row.
      target: the id or path of the recording that belongs to it.
      overrides: read settings of this recording alone, as JSON, or "".
      fields: everything else, by name.
      warnings: what is odd about it.
    """

    sample_rate: float | None = None
    unit: str | None = None
    factors: tuple[float, ...] = ()
    channel: str | None = None
    channel_names: tuple[str, ...] = ()
    start_time_ns: int | None = None
    label: str | None = None
    labels: tuple[str, ...] | None = None
    split: str | None = None
    group: str | None = None
    target: str | None = None
    overrides: str = ""
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    warnings: tuple[str, ...] = ()


NOTHING_SAID = Said()


@dataclasses.dataclass(frozen=True, slots=True)
class Recording:
    """A recording that can be used, as far as its header and what is said about it show.

    Attributes:
      id: path, or path//member, or path//…//start-end for a part of it; bytes as on disk.
      found: its file.
      description: what it holds.
      said: by manifest and sidecar.
      sample_rate: its own, Hz.
      region: samples [start, end) that are used, at its own rate.
      intervals: parts of it with their labels, at its own rate; None where the label is one for all.
      label: class name, or None.
      split: where it is fixed, or None.
      paired: the recording that belongs to it, or None.
      origin: where its samples came from, if from another dataset.
    """

    id: bytes
    found: Found
    description: Description
    said: Said
    sample_rate: float | None
    region: tuple[int, int]
    intervals: tuple[Interval, ...] | None = None
    label: str | None = None
    split: str | None = None
    paired: Recording | None = None
    origin: Origin | None = None

    def source(self) -> Source:
        """Where a worker finds the samples."""
        assert self.sample_rate is not None
        return Source(
            uri=self.found.uri,
            format=self.description.format,
            size=self.found.size,
            locator=self.description.locator,
            overrides=self.said.overrides,
            frames=self.description.frames,
            sample_rate=self.sample_rate,
            factors=self.said.factors,
        )


class Sifted(NamedTuple):
    """What a step of planning leaves.

    Attributes:
      used: recordings that go on.
      rejects: why the others do not.
      dropped: the others.
    """

    used: list[Recording]
    rejects: list[Reject]
    dropped: list[Recording]

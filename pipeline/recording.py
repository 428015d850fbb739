"""A recording as the plan sees it: where it is, what it holds, and what is said about it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ..transforms.elements import Description, Origin, Source
from ..transforms.rejects import Reject, RejectError
from ..transforms.resample import ratio, resampled_frames
from .match import Found
from .packed import Packed


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
      paired: the id or path of the recording that belongs to it.
      overrides: read settings of this recording alone.
      fields: everything, by name.
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
    paired: str | None = None
    overrides: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    fields: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def over(self, other: Said) -> Said:
        """Both together; where both say something, this one counts."""
        if other is NOTHING_SAID:
            return self
        values = {
            field.name: getattr(self, field.name)
            if getattr(self, field.name) not in (None, ())
            else getattr(other, field.name)
            for field in dataclasses.fields(Said)
        }
        values |= {name: {**getattr(other, name), **getattr(self, name)} for name in ("overrides", "fields")}
        return Said(**values)


NOTHING_SAID = Said()


@dataclasses.dataclass(frozen=True, slots=True)
class Recording:
    """A recording that can be used, as far as its header and what is said about it show.

    Attributes:
      id: path, or path//member, or path//…//start-end for a part of it; bytes as on disk.
      found: its file.
      description: what it holds.
      said: by manifest and sidecar.
      sample_rate: its own, Hz; None where nothing states it.
      region: samples [start, end) that are used, at its own rate.
      unit: of the samples, or None.
      intervals: parts of it with their labels, at its own rate; None where the label is one for all.
      channels: which are read together, for each example that is made of its samples.
      label: class name, or None.
      paired: the recording that belongs to it, or None.
      origin: where its samples came from, if from another dataset.
    """

    id: bytes
    found: Found
    description: Description
    said: Said
    sample_rate: float | None
    region: tuple[int, int]
    unit: str | None = None
    intervals: tuple[Interval, ...] | None = None
    channels: tuple[tuple[int, ...], ...] = ()
    label: str | None = None
    paired: Recording | None = None
    origin: Origin | None = None

    @property
    def name(self) -> bytes:
        """Its file's id, with its member."""
        return member_id(self.found, self.description.member)

    @property
    def start_time_ns(self) -> int | None:
        """Time of sample 0, as stated, else as its file says; nanoseconds since 1970 UTC."""
        stated = self.said.start_time_ns
        return self.description.start_time_ns if stated is None else stated

    def source(self) -> Source:
        """Where a worker finds the samples."""
        assert self.sample_rate is not None
        overrides = self.said.overrides
        return Source(
            uri=self.found.uri,
            name=self.name,
            format=self.description.format,
            size=self.found.size,
            locator=self.description.locator,
            overrides=json.dumps(overrides, sort_keys=True) if overrides else "",
            frames=self.description.frames,
            sample_rate=self.sample_rate,
            factors=self.said.factors,
        )

    def span(self, sample_rate: float) -> tuple[int, int]:
        """The samples [begin, end) that are used, at the dataset's rate."""
        begin, end = self.region
        if self.sample_rate == sample_rate:
            return begin, end
        assert self.sample_rate is not None
        step = ratio(self.sample_rate, sample_rate)
        most = resampled_frames(self.description.frames, step)
        return min(most, resampled_frames(begin, step)), min(most, resampled_frames(end, step))


def member_id(found: Found, member: str | None) -> bytes:
    """The id of a file's member, or of the file."""
    if member is None:
        return found.recording
    return found.recording + b"//" + member.encode("utf-8", "surrogateescape")


class Sifted(NamedTuple):
    """What steps of planning leave.

    Attributes:
      used: recordings that go on.
      rejects: why the others do not.
      dropped: the others.
    """

    used: Sequence[Recording]
    rejects: list[Reject]
    dropped: Sequence[Recording]


# Adds to what is known of a recording, or raises RejectError.
Step = Callable[[Recording], Recording]


def sift(recordings: Iterable[Recording], *steps: Step) -> Sifted:
    """Takes each recording through all steps, in one pass."""
    used, rejects, dropped = Packed[Recording](), [], Packed[Recording]()
    for recording in recordings:
        try:
            for step in steps:
                recording = step(recording)
        except RejectError as error:
            rejects.append(Reject(recording.id, "plan", error.reason, str(error)))
            dropped.append(recording)
        else:
            used.append(recording)
    return Sifted(used, rejects, dropped)

"""What the usable recordings have between them, gathered in one pass."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

from .recording import Recording


@dataclasses.dataclass
class Totals:
    """Of all usable recordings.

    Attributes:
      labels: class names, of recordings and of their parts.
      units: None among them where a recording has none.
      has_times: whether any start time is known.
      resampled: how many have another rate than the dataset.
      odd: how many have a warning.
      first_odd: the first of these.
      torn: names of the recordings of which there are parts.
    """

    labels: set[str] = dataclasses.field(default_factory=set)
    units: set[str | None] = dataclasses.field(default_factory=set)
    has_times: bool = False
    resampled: int = 0
    odd: int = 0
    first_odd: Recording | None = None
    torn: set[bytes] = dataclasses.field(default_factory=set)


def totals_of(recordings: Iterable[Recording], sample_rate: float) -> Totals:
    """Goes through them once.

    Args:
      recordings: the usable ones.
      sample_rate: of the dataset, Hz.
    """
    totals = Totals()
    for recording in recordings:
        if recording.label is not None:
            totals.labels.add(recording.label)
        totals.labels.update(recording.said.labels or ())
        totals.labels.update(each.label for each in recording.intervals or ())
        totals.units.add(recording.unit)
        totals.has_times |= recording.start_time_ns is not None
        totals.resampled += recording.sample_rate != sample_rate
        if recording.description.warnings:
            totals.odd += 1
            totals.first_odd = totals.first_odd or recording
        if recording.id != (name := recording.name):
            totals.torn.add(name)
    return totals

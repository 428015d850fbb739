"""Recordings to splits: by salted hash of their group, by value, by time, or as the manifest says."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from ..transforms.rejects import text
from .packed import Packed
from .recording import Recording
from .split_settings import SPLIT_NAME, SplitSettings, as_text, fields_needed, fractions_of
from .words import counted


class SplitError(ValueError):
    """Recordings cannot be split as the settings say; the message says why."""


def hash_id(recording: bytes) -> bytes:
    """A recording's id as hashes use it: composed the same way (NFC) on every file system."""
    if recording.isascii():
        return recording
    name = recording.decode("utf-8", "surrogateescape")
    return unicodedata.normalize("NFC", name).encode("utf-8", "surrogateescape")


def salted_hash(salted: bytes) -> int:
    """64 bits."""
    return int.from_bytes(hashlib.blake2b(salted, digest_size=8).digest(), "big")


TimeRange = tuple[int, int | None, int | None]


@dataclasses.dataclass(frozen=True)
class Assignment:
    """What goes where.

    Attributes:
      names: of the splits, sorted.
      split_of: index into names, int64 [recordings]; without meaning where a recording is cut by time.
      groups: key of each recording's group, [recordings].
      ranges: recording to (split, lowest start, highest end) of its segments, where it is cut by time;
        in samples, at the dataset's rate, None for no bound.
      warnings: what the user should know.
    """

    names: list[str]
    split_of: np.ndarray
    groups: Sequence[bytes]
    ranges: Mapping[int, list[TimeRange]]
    warnings: list[str]

    @functools.cached_property
    def group_of(self) -> np.ndarray:
        """Number of each recording's group, int64 [recordings]."""
        hashes = np.fromiter(map(salted_hash, self.groups), np.uint64, len(self.groups))
        return np.unique(hashes, return_inverse=True)[1]

    def only(self, kept: Sequence[int]) -> Assignment:
        """The same for some of the recordings."""
        return Assignment(
            self.names,
            self.split_of[kept],
            Packed(self.groups[index] for index in kept),
            {new: self.ranges[old] for new, old in enumerate(kept) if old in self.ranges},
            self.warnings,
        )


def assign_splits(
    recordings: Sequence[Recording],
    fields: Callable[[Recording], Mapping[str, Any]],
    settings: SplitSettings,
    *,
    sample_rate: float,
    gap: int,
) -> Assignment:
    """Gives each recording its split.

    Args:
      recordings: with labels and fixed splits.
      fields: what is known of one, by name.
      settings: the splits.
      sample_rate: of the dataset, Hz.
      gap: samples that are left out between two splits of one group.

    Raises:
      SplitError: a recording lacks a field, or falls into no split.
    """
    fractions = fractions_of(settings.splits)
    groups, chosen = Packed[bytes](), []
    by_manifest = set()
    for recording in recordings:
        known = _fields_of(recording, fields, settings)
        groups.append(_group(recording, known, settings))
        name = recording.said.split
        by_manifest.add(name)
        if name is not None and not SPLIT_NAME.fullmatch(name):
            raise SplitError(
                f"{name!r} cannot be a split's name (manifest, {text(recording.id)}): use letters, digits and _"
            )
        chosen.append(name if name is not None else _by_value(known, settings))
    names = sorted({*settings.splits, *by_manifest} - {None})
    if (
        by_manifest and None not in by_manifest
    ):  # the manifest decides all, so the settings' names mean nothing
        names = sorted(by_manifest)
    index_of = {name: index for index, name in enumerate(names)}
    split_of = np.array([index_of.get(name, 0) for name in chosen], np.int64)
    open_to_hash = [index for index, name in enumerate(chosen) if name is None]
    if open_to_hash and not fractions:
        raise SplitError(
            f"{len(open_to_hash)} recordings fall into no split, such as {text(recordings[open_to_hash[0]].id)}: "
            "add a split with a fraction"
        )
    if "time" in settings.split_by:
        ranges = _cut_by_time(recordings, groups, open_to_hash, fractions, names, sample_rate, gap)
        warnings = _torn(groups, split_of, names, open_to_hash, by_time=True)
        return Assignment(names, split_of, groups, ranges, warnings)
    if settings.stratify and open_to_hash and all(recordings[index].label is None for index in open_to_hash):
        raise SplitError(
            "stratify shares each label's groups, and there are no labels: set label_from or a manifest"
        )
    positions = _positions(recordings, groups, open_to_hash, settings)
    ordered = sorted(fractions)
    edges = np.cumsum([fractions[name] for name in ordered])
    places = np.minimum(np.searchsorted(edges, positions, side="right"), len(edges) - 1)
    split_of[open_to_hash] = np.array([index_of.get(name, 0) for name in ordered], np.int64)[places]
    return Assignment(
        names, split_of, groups, {}, _torn(groups, split_of, names, open_to_hash, by_time=False)
    )


def _fields_of(
    recording: Recording, fields: Callable[[Recording], Mapping[str, Any]], settings: SplitSettings
) -> dict[str, str]:
    """The fields that decide, as text."""
    needed = sorted(fields_needed(settings))
    if not needed:
        return {}
    known = {
        **fields(recording),
        "label": recording.label,
        "split": recording.said.split,
        "group": recording.said.group,
    }
    values = {name: as_text(known[name]) for name in needed if known.get(name) is not None}
    if len(values) < len(needed):
        lacking = next(name for name in needed if name not in values)
        others = sorted(name for name, value in known.items() if value is not None)
        raise SplitError(
            f"{text(recording.id)} has no field {lacking}, which splits need: name one of "
            f"{', '.join(others) or 'none'}, or get it by fields_from=path:REGEX or a manifest"
        )
    return values


def _group(recording: Recording, values: Mapping[str, str], settings: SplitSettings) -> bytes:
    if settings.split_by == ("recording",):
        return hash_id(recording.id)
    names = [name for name in settings.split_by if name != "time"]
    if names:
        return b"\0".join(hash_id(values[name].encode("utf-8", "surrogateescape")) for name in names)
    if recording.said.group is not None:
        return hash_id(recording.said.group.encode("utf-8", "surrogateescape"))
    return hash_id(recording.found.recording)


def _by_value(values: Mapping[str, str], settings: SplitSettings) -> str | None:
    for name, share in settings.splits.items():
        if isinstance(share, dict) and all(values[field] in wanted for field, wanted in share.items()):
            return name
    return None


def _torn(
    groups: Sequence[bytes], split_of: np.ndarray, names: list[str], open_to_hash: list[int], *, by_time: bool
) -> list[str]:
    """A warning where fixed splits tear groups apart."""
    if len(open_to_hash) == len(groups):
        return []
    is_open = set(open_to_hash)
    where: dict[bytes, set[str]] = defaultdict(set)
    for index, (group, split) in enumerate(zip(groups, split_of.tolist(), strict=True)):
        where[group].add("those cut by time" if by_time and index in is_open else names[split])
    torn = sorted(group for group, found in where.items() if len(found) > 1)
    if not torn:
        return []
    return [
        f"{counted(len(torn), 'group')} in several splits, such as {show_group(torn[0])} in "
        f"{', '.join(sorted(where[torn[0]]))}: the manifest's split column or the values of splits tear them apart"
    ]


def show_group(group: bytes) -> str:
    """A group's key for people."""
    return " ".join(text(part) for part in group.split(b"\0"))


def _positions(
    recordings: Sequence[Recording], groups: Sequence[bytes], chosen: list[int], settings: SplitSettings
) -> np.ndarray:
    """Where each recording's group stands between 0 and 1: its hash, or its rank within its label."""
    salt = b"split:%d\0" % settings.seed
    if not settings.stratify:
        hashes = np.fromiter((salted_hash(salt + groups[index]) for index in chosen), np.uint64, len(chosen))
        return hashes.astype(np.float64) / 2.0**64
    labels: dict[bytes, Counter[str]] = defaultdict(Counter)
    for index in chosen:
        labels[groups[index]][recordings[index].label or ""] += 1
    by_label: dict[str, list[bytes]] = defaultdict(list)
    for group in sorted(labels, key=lambda group: (salted_hash(salt + group), group)):
        counter = labels[group]
        by_label[min(counter, key=lambda label: (-counter[label], label))].append(group)
    rank = {
        group: (place + 0.5) / len(members)
        for members in by_label.values()
        for place, group in enumerate(members)
    }
    return np.array([rank[groups[index]] for index in chosen])


def _cut_by_time(
    recordings: Sequence[Recording],
    groups: Sequence[bytes],
    chosen: list[int],
    fractions: Mapping[str, float],
    names: list[str],
    sample_rate: float,
    gap: int,
) -> dict[int, list[TimeRange]]:
    """Ranges of each recording for each split, in samples of the recording's own axis."""
    members: dict[bytes, list[int]] = defaultdict(list)
    for index in chosen:
        members[groups[index]].append(index)
    shares = np.cumsum(list(fractions.values()))[:-1]
    ranges: dict[int, list[TimeRange]] = {}
    for indexes in members.values():
        offsets, length = _axis([recordings[index] for index in indexes], sample_rate)
        inner = [round(float(share) * length) for share in shares]
        lows = [None, *(edge + gap for edge in inner)]
        highs = [*inner, None]
        for index, offset in zip(indexes, offsets, strict=True):
            ranges[index] = [
                (
                    names.index(name),
                    None if low is None else low - offset,
                    None if high is None else high - offset,
                )
                for name, low, high in zip(fractions, lows, highs, strict=True)
            ]
    return ranges


def _axis(recordings: Sequence[Recording], sample_rate: float) -> tuple[list[int], int]:
    """Where each recording's sample 0 lies on its group's time axis, and the axis' length, in samples.

    By start times where all have one. Else files follow one another in the order of their ids, and what is in
    one file is taken to be of the same time.
    """
    times = [recording.start_time_ns for recording in recordings]
    spans = [recording.span(sample_rate) for recording in recordings]
    known = [time for time in times if time is not None]
    if len(known) == len(times):
        first, rate = min(known), Fraction(sample_rate)
        offsets = [round((time - first) * rate / 10**9) for time in known]
    else:
        longest: dict[bytes, int] = {}
        for recording, (_, end) in zip(recordings, spans, strict=True):
            name = recording.found.recording
            longest[name] = max(longest.get(name, 0), end)
        names = sorted(longest)
        begins = dict(
            zip(names, itertools.accumulate((longest[name] for name in names), initial=0), strict=False)
        )
        offsets = [begins[recording.found.recording] for recording in recordings]
    low = min(offset + start for offset, (start, _) in zip(offsets, spans, strict=True))
    high = max(offset + end for offset, (_, end) in zip(offsets, spans, strict=True))
    return [offset - low for offset in offsets], high - low

"""Pairs: recordings that a manifest's column `target` brings together, such as noisy and clean speech."""

from __future__ import annotations

import dataclasses
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence

from ..transforms.rejects import Reason, RejectError, text
from .describe import describe
from .listed import match_listed
from .manifest import Manifest
from .recording import Recording, Step
from .settings import Settings


@dataclasses.dataclass(frozen=True)
class Partners:
    """The recordings that others name.

    Attributes:
      known: name in the manifest to the recordings that it may mean.
      problems: name to why there is none.
    """

    known: Mapping[str, Sequence[Recording]]
    problems: Mapping[str, str]


def find_partners(recordings: Sequence[Recording], manifest: Manifest, settings: Settings) -> Partners:
    """Matches and describes the recordings that others name as theirs."""
    names: dict[str, list[str]] = defaultdict(list)
    for name in sorted({recording.said.paired for recording in recordings if recording.said.paired}):
        names[os.path.normpath(name.partition("//")[0])].append(name)
    matches = match_listed(names, settings.input, manifest.folder, settings)
    known: dict[str, list[Recording]] = defaultdict(list)
    problems: dict[str, str] = {}
    paths: dict[bytes, list[str]] = defaultdict(list)  # one file may be named in several ways
    for item in matches.found:
        paths[item.uri].append(str(item.listed_as))
    files = {item.uri: dataclasses.replace(item, listed_as=None) for item in matches.found}
    described = describe(list(files.values()), settings, attributes=False)
    for recording in described.recordings:
        for path in paths[recording.found.uri]:
            for name in names[path]:
                member = name.partition("//")[2]
                if not member or member == recording.description.member:
                    known[name].append(recording)
    for reject, (_, item) in zip(described.rejects, described.unread, strict=True):
        for path in paths[item.uri]:
            problems |= dict.fromkeys(names[path], f"it cannot be used: {reject.message}")
    for reject in matches.rejects:
        for path, several in names.items():
            if text(reject.recording) == path.lstrip("/"):
                problems |= dict.fromkeys(several, reject.message)
    return Partners(known, problems)


def with_partner(partners: Partners) -> Step:
    """The step that gives a recording its partner, which must have the same rate, length and channels."""

    def step(recording: Recording) -> Recording:
        message = _mismatch(recording, partners)
        if message is not None:
            raise RejectError(Reason.PAIR_MISMATCH, message)
        partner = partners.known[str(recording.said.paired)][0]
        return dataclasses.replace(recording, paired=_like(recording, partner))

    return step


def _like(recording: Recording, partner: Recording) -> Recording:
    """The partner at the rate that is stated for the recording, where its own file says none."""
    if partner.sample_rate is None or partner.description.sample_rate is None:
        return dataclasses.replace(partner, sample_rate=recording.sample_rate)
    return partner


def _mismatch(recording: Recording, partners: Partners) -> str | None:
    name = recording.said.paired
    if name is None:
        return "its row in the manifest names no target: name one, or leave the row out"
    found = partners.known.get(name, ())
    if not found:
        return f"target {name}: {partners.problems.get(name, 'it has no such member')}"
    if len(found) > 1:
        return f"target {name} holds {len(found)} recordings: name one of them, such as {text(found[0].name)}"
    mine, other = recording.description, _like(recording, found[0])
    theirs = other.description
    for what, one, two in (
        ("sample rate", recording.sample_rate, other.sample_rate),
        ("length", mine.frames, theirs.frames),
        ("number of channels", mine.channels, theirs.channels),
        ("number of parts of a sample (complex ones have 2)", 1 + mine.is_complex, 1 + theirs.is_complex),
    ):
        if one != two:
            return f"target {name} has another {what}, {two:g} and not {one:g}: name the one that was recorded with it"
    return None

"""Matched files to recordings: headers, sidecars, the manifest's rows, the one sample rate."""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from ..transforms.ahead import map_ahead
from ..transforms.elements import Description, Origin
from ..transforms.files import open_source
from ..transforms.formats.base import MissingExtraError
from ..transforms.formats.choose import HEAD_BYTES, READERS, Readers, format_by_content
from ..transforms.rejects import Reason, Reject, RejectError, text
from ..transforms.resample import LARGEST_RATIO
from . import manifest as manifests
from .match import Found
from .recording import NOTHING_SAID, Interval, Recording, Said, Sifted
from .settings import Settings, SettingsError
from .sidecars import Sidecars

_HEADER_THREADS = 8
_HANDFUL = 32
_HANDFULS_AHEAD = 32


@dataclasses.dataclass(frozen=True)
class Described:
    """What files hold.

    Attributes:
      recordings: that can be used, in the order of the files.
      rejects: what cannot.
      unread: id and file of the rejects, which are not among the recordings.
    """

    recordings: list[Recording]
    rejects: list[Reject]
    unread: list[tuple[bytes, Found]]


def describe(
    found: Sequence[Found],
    settings: Settings,
    manifest: manifests.Manifest | None = None,
    *,
    attributes: bool = True,
) -> Described:
    """Opens headers, side by side; headerless files need only their size.

    Args:
      found: files, sorted.
      settings: how they are read, and what is said of all of them.
      manifest: what is said of each, or None.
      attributes: whether what files say besides is kept.

    Raises:
      SettingsError: a setting is missing that the files do not say, or a package that a format needs.
      ManifestError: a row says what cannot be.
    """
    readers = Readers(settings)
    sidecars = Sidecars(settings, of_all=(settings.label_from or "").startswith("sidecar:"))
    result = Described([], [], [])
    same: dict[Description, Description] = {}

    def open_some(items: Sequence[Found]) -> list[tuple[list[Description | RejectError], Said]]:
        return [_open(item, settings, readers, sidecars) for item in items]

    # by the handful, since handing one file to a thread costs as much as opening it
    handfuls = (found[first : first + _HANDFUL] for first in range(0, len(found), _HANDFUL))
    with ThreadPoolExecutor(_HEADER_THREADS) as pool:
        opened = itertools.chain.from_iterable(map_ahead(open_some, handfuls, pool, _HANDFULS_AHEAD))
        for item, (descriptions, said) in zip(found, opened, strict=True):
            rows = _rows_of(item, manifest)
            for each in descriptions:
                if isinstance(each, RejectError):
                    _reject(result, item, _member_id(item, each.member), each)
                    continue
                if item.dataset is not None:
                    _add_stored(result, item, each, settings)
                    continue
                if not attributes and each.attributes:
                    each = dataclasses.replace(each, attributes={})
                each = each if each.attributes else same.setdefault(each, each)  # one object for many
                _add(result, item, each, said, rows, manifest, settings)
            _reject_unknown_members(result, item, descriptions, rows)
    return result


def _open(
    found: Found, settings: Settings, readers: Readers, sidecars: Sidecars
) -> tuple[list[Description | RejectError], Said]:
    try:
        known = None if found.format is None else READERS[found.format]
        said = sidecars.said(found, headerless=known is not None and not known.needs_header)
        try:
            if known is not None and not known.needs_header:
                reader = readers.get(known.name, said.overrides)
                return list(reader.describe(None, found.size)), said
            with open_source(found.uri, is_folder=known is not None and known.takes_folder) as file:
                by_content = None
                if settings.input_format == "auto":
                    by_content = format_by_content(file.read(HEAD_BYTES))
                name = by_content or found.format
                if name is None:
                    raise _unknown(found)
                return list(readers.get(name, said.overrides).describe(file, found.size)), said
        except MissingExtraError as error:
            raise SettingsError(f"{error} (for {found.show})") from error
        except ValueError as error:
            if isinstance(error, RejectError):
                raise
            raise SettingsError(f"{error} (for {found.show})") from error
        except OSError as error:
            message = f"the file cannot be read: {error.strerror or error}"
            raise RejectError(Reason.UNREADABLE, message) from error
    except RejectError as error:
        return [error], NOTHING_SAID


def _unknown(found: Found) -> RejectError:
    if not found.size:
        return RejectError(Reason.EMPTY, "the file has 0 bytes")
    return RejectError(Reason.UNKNOWN_FORMAT, "neither name nor content shows the format: set input_format")


def _member_id(found: Found, member: str | None) -> bytes:
    if member is None:
        return found.recording
    return found.recording + b"//" + member.encode("utf-8", "surrogateescape")


def _reject(result: Described, found: Found, name: bytes, error: RejectError) -> None:
    result.rejects.append(Reject(name, "plan", error.reason, str(error)))
    result.unread.append((name, found))


def _rows_of(found: Found, manifest: manifests.Manifest | None) -> Sequence[manifests.Row]:
    return () if manifest is None or found.listed_as is None else manifest.rows[found.listed_as]


def _add(
    result: Described,
    found: Found,
    description: Description,
    beside: Said,
    rows: Sequence[manifests.Row],
    manifest: manifests.Manifest | None,
    settings: Settings,
) -> None:
    """The recordings that a description stands for: one, or one for each of its rows in the manifest."""
    name = _member_id(found, description.member)
    if manifest is None:
        _add_one(result, name, found, description, beside, settings, None)
        return
    own = [row for row in rows if row.member in (None, description.member)]
    if settings.manifest_rows == "labels" and own:
        rate = _rate(manifests.said(own[0]), beside, description, settings)
        parts = manifests.intervals(
            own, in_seconds=manifest.in_seconds, sample_rate=rate, frames=description.frames
        )
        one = _merge(beside, dataclasses.replace(manifests.said(own[0]), label=None))
        _add_one(result, name, found, description, one, settings, None, parts)
        return
    several = len(own) > 1
    for row in own:
        said = _merge(beside, manifests.said(row))
        try:
            region = manifests.region(
                row,
                in_seconds=manifest.in_seconds,
                sample_rate=_rate(said, NOTHING_SAID, description, settings),
                frames=description.frames,
            )
        except RejectError as error:
            _reject(result, found, _part_id(name, row, None, several=several), error)
            continue
        part = _part_id(name, row, region, several=several)
        _add_one(result, part, found, description, said, settings, region)


def _add_stored(result: Described, found: Found, description: Description, settings: Settings) -> None:
    """An example of a dataset of ours: its split, label and origin stay, unless the settings say otherwise."""
    assert found.dataset is not None
    values = description.attributes
    origin = Origin(
        str(values["recording"]).encode("utf-8", "surrogateescape"),
        int(values.get("channel", 0)),
        int(values["start"]),
    )
    names = found.dataset.label_names
    label = int(values.get("label", -1))
    said = Said(
        label=names[label] if 0 <= label < len(names) else None,
        split=None if settings.split_by else found.dataset.split,
        group=text(origin.recording),
    )
    name = b"%b//%d//%d" % (origin.recording, origin.channel, origin.start)
    _add_one(result, name, found, description, said, settings, None, origin=origin)


def _part_id(name: bytes, row: manifests.Row, region: tuple[int, int] | None, *, several: bool) -> bytes:
    """The row's own id, or the recording's; with channel and range where several rows are of one recording."""
    if "id" in row.values:
        return str(row.values["id"]).encode("utf-8", "surrogateescape")
    if several and "channel" in row.values:
        name += b"//" + str(row.values["channel"]).encode()
    if several and ("start" in row.values or "end" in row.values):
        start, end = region or (row.values.get("start", 0), row.values.get("end", ""))
        name += f"//{start}-{end}".encode()
    return name


def _merge(beside: Said, said: Said) -> Said:
    """What the row says, over what the sidecar says."""
    if beside is NOTHING_SAID:
        return said
    changes = {
        field.name: getattr(beside, field.name)
        for field in dataclasses.fields(Said)
        if field.name != "fields" and getattr(said, field.name) in (None, "", ())
    }
    return dataclasses.replace(said, **changes, fields={**beside.fields, **said.fields})


def _rate(said: Said, beside: Said, description: Description, settings: Settings) -> float | None:
    """The recording's own rate: stated for it, else in the file, else the dataset's."""
    for rate in (said.sample_rate, beside.sample_rate, description.sample_rate):
        if rate is not None:
            return rate
    return settings.sample_rate


def _add_one(
    result: Described,
    name: bytes,
    found: Found,
    description: Description,
    said: Said,
    settings: Settings,
    region: tuple[int, int] | None,
    intervals: tuple[Interval, ...] | None = None,
    origin: Origin | None = None,
) -> None:
    rate = _rate(said, NOTHING_SAID, description, settings)
    warnings = description.warnings
    try:
        _check(description, rate, settings)
        if region is not None and region[1] > description.frames:
            beyond = f"its row ends at sample {region[1]}, and {description.frames} are there"
            if settings.strict:
                raise RejectError(Reason.TRUNCATED, f"{beyond}; and strict is set")
            region, warnings = (region[0], description.frames), (*warnings, beyond)
    except RejectError as error:
        _reject(result, found, name, error)
        return
    if warnings is not description.warnings:
        description = dataclasses.replace(description, warnings=warnings)
    if said.channel_names:
        description = dataclasses.replace(description, channel_names=said.channel_names)
    if not said.factors and settings.sensitivity is not None:
        said = dataclasses.replace(said, factors=(1.0 / settings.sensitivity,))
    result.recordings.append(
        Recording(
            id=name,
            found=found,
            description=description,
            said=said,
            sample_rate=rate,
            region=region or (0, description.frames),
            intervals=intervals,
            split=said.split,
            origin=origin,
        )
    )


def _check(description: Description, rate: float | None, settings: Settings) -> None:
    if description.is_complex or settings.iq:
        raise RejectError(
            Reason.COMPLEX_SAMPLES,
            f"samples are complex ({'I and Q' if settings.iq else description.dtype}), and the features "
            "take real ones: store the magnitude, or real and imaginary part as channels",
        )
    if rate is not None and not (math.isfinite(rate) and 0 < rate <= 1e12):
        raise RejectError(
            Reason.RATE_INVALID,
            f"sample_rate={rate:g} Hz must be above 0 and at most 1e12: state the right one in a manifest",
        )


def _reject_unknown_members(
    result: Described,
    found: Found,
    descriptions: Sequence[Description | RejectError],
    rows: Sequence[manifests.Row],
) -> None:
    """Rows that name a member that the file does not have."""
    if not any(row.member for row in rows) or any(
        isinstance(each, RejectError) and each.member is None for each in descriptions
    ):
        return
    members = {each.member for each in descriptions}
    for row in rows:
        if row.member and row.member not in members:
            known = ", ".join(sorted(str(member) for member in members)[:20])
            error = RejectError(
                Reason.NO_MEMBER, f"{row.where}: there is no member {row.member}, only {known}"
            )
            _reject(result, found, _member_id(found, row.member), error)


def keep_rate(recordings: Sequence[Recording], settings: Settings) -> tuple[float, Sifted]:
    """The dataset's one sample rate in Hz, and the recordings that have it or are resampled to it.

    Raises:
      SettingsError: there are several, or none, and none was asked for.
    """
    rates = Counter(recording.sample_rate for recording in recordings)
    if rates[None] and settings.sample_rate is None:
        first = next(recording for recording in recordings if recording.sample_rate is None)
        raise SettingsError(
            f"sample_rate is not set, and {first.found.show} does not say it: give it in Hz, such as "
            "--sample-rate 25600, in a manifest, or in a sidecar"
        )
    if settings.sample_rate is not None:
        rate = settings.sample_rate
    elif len(rates) > 1:
        table = ", ".join(
            f"{rate:g} Hz: {count}" for rate, count in sorted((r or 0.0, c) for r, c in rates.items())
        )
        raise SettingsError(
            f"the recordings have several sample rates ({table}), and a dataset has one: "
            "set sample_rate to the one to use, and resample to bring the others to it"
        )
    else:
        rate = next(iter(rates), None) or 0.0
    kept, rejects, dropped = [], [], []
    for recording in recordings:
        own = recording.sample_rate or rate
        if own == rate or (settings.resample and 1 / LARGEST_RATIO <= own / rate <= LARGEST_RATIO):
            kept.append(recording)
            continue
        cure = "set resample, or sample_rate"
        if settings.resample:
            cure = f"rates may differ by a factor of {LARGEST_RATIO}; state the right one in a manifest"
        message = f"sample_rate={own:g} Hz, and {rate:g} Hz is expected: {cure}"
        rejects.append(Reject(recording.id, "plan", Reason.RATE_MISMATCH, message))
        dropped.append(recording)
    return rate, Sifted(kept, rejects, dropped)


def pair(recordings: Sequence[Recording], others: Mapping[str, Recording]) -> Sifted:
    """Gives recordings that name a target theirs, which must have the same rate, length and channels or one.

    Args:
      recordings: all.
      others: the targets by the name that the manifest gives them.
    """
    kept, rejects, dropped = [], [], []
    for recording in recordings:
        name = recording.said.target
        other = others.get(name) if name is not None else None
        problem = None
        if name is None:
            problem = "its row in the manifest names no target"
        elif other is None:
            problem = f"target {name} is not there, or cannot be used"
        else:
            problem = _mismatch(recording, other)
        if problem is None:
            kept.append(dataclasses.replace(recording, paired=other))
        else:
            rejects.append(Reject(recording.id, "plan", Reason.TARGET_MISMATCH, problem))
            dropped.append(recording)
    return Sifted(kept, rejects, dropped)


def _mismatch(recording: Recording, other: Recording) -> str | None:
    mine, theirs = recording.description, other.description
    for what, one, two in (
        ("sample rate", recording.sample_rate, other.sample_rate),
        ("length", mine.frames, theirs.frames),
    ):
        if one != two:
            return f"its target {other.found.show} has another {what}: {two:g}, not {one:g}"
    if theirs.channels != mine.channels:
        return f"its target {other.found.show} has {theirs.channels} channels, not {mine.channels}"
    return None

"""What a file holds, and what is said about it, to recordings: one each, or one for each row of a manifest."""

from __future__ import annotations

import dataclasses
import math
from collections import defaultdict
from collections.abc import Sequence

from ..transforms.elements import Description, Origin
from ..transforms.formats.iq import pair_names
from ..transforms.formats.samples import FULL_SCALE
from ..transforms.rejects import Reason, Reject, RejectError, text
from . import manifest as manifests
from .match import Found
from .packed import Packed
from .recording import Interval, Recording, Said, member_id
from .settings import Settings, SettingsError


class Expander:
    """Makes recordings of descriptions, file by file.

    Attributes:
      recordings: made so far.
      rejects: what cannot be used.
      unread: id and file of the rejects.
      unlisted: members that the manifest does not name.
    """

    def __init__(self, settings: Settings, manifest: manifests.Manifest | None):
        self._settings = settings
        self._manifest = manifest
        self.recordings: Packed[Recording] = Packed()
        self.rejects: list[Reject] = []
        self.unread: Packed[tuple[bytes, Found]] = Packed()
        self.unlisted = self.complex_recordings = 0
        self._ids: set[bytes] = set()

    def add(self, found: Found, described: Sequence[Description | RejectError], beside: Said) -> None:
        """The recordings of one file.

        Args:
          found: the file.
          described: its recordings, or why they cannot be used.
          beside: what sidecars say.
        """
        rows = self._rows(found)
        for each in described:
            own = (
                None
                if rows is None
                else [*rows.get(None, ()), *(rows.get(each.member, ()) if each.member else ())]
            )
            if own is not None and not own and not (isinstance(each, RejectError) and each.member is None):
                self.unlisted += 1
            elif isinstance(each, RejectError):
                self._reject(found, member_id(found, each.member), each)
            elif found.dataset is not None:
                self._add_stored(found, each)
            elif own is None:
                self._add(member_id(found, each.member), found, each, beside)
            else:
                self._add_rows(found, each, beside, own)
        if rows:
            self._reject_missing(found, described, rows)

    def _rows(self, found: Found) -> dict[str | None, list[manifests.Row]] | None:
        """The file's rows by member, or None without a manifest."""
        if self._manifest is None or found.listed_as is None:
            return None
        rows: dict[str | None, list[manifests.Row]] = defaultdict(list)
        for row in self._manifest.rows[found.listed_as]:
            rows[row.member].append(row)
        return rows

    def _reject(self, found: Found, name: bytes, error: RejectError) -> None:
        self._refuse_shared_id(found, name)
        self.rejects.append(Reject(name, "plan", error.reason, str(error)))
        self.unread.append((name, found))

    def _refuse_shared_id(self, found: Found, name: bytes) -> None:
        if found.listed_as is None and found.dataset is None:
            return  # paths differ
        if name in self._ids:
            raise SettingsError(
                f"two recordings have the id {text(name)}: give each row of the manifest its own"
            )
        self._ids.add(name)

    def _reject_missing(
        self,
        found: Found,
        described: Sequence[Description | RejectError],
        rows: dict[str | None, list[manifests.Row]],
    ) -> None:
        """Rows that name a member that the file does not have."""
        if any(isinstance(each, RejectError) and each.member is None for each in described):
            return  # the whole file is rejected
        members = {each.member for each in described}
        for member, own in rows.items():
            if member is not None and member not in members:
                known = ", ".join(sorted(str(each) for each in members)[:20])
                message = f"{own[0].where}: there is no member {member}, only {known}: correct the uri"
                self._reject(found, member_id(found, member), RejectError(Reason.NO_MEMBER, message))

    def _add_rows(
        self, found: Found, description: Description, beside: Said, rows: list[manifests.Row]
    ) -> None:
        assert self._manifest is not None
        name, in_seconds = member_id(found, description.member), self._manifest.in_seconds
        if self._settings.manifest_rows == "labels":
            said = manifests.said_of_all(rows).over(beside)
            parts = manifests.intervals(
                rows,
                in_seconds=in_seconds,
                sample_rate=self._rate(said, description),
                frames=description.frames,
            )
            self._add(name, found, description, dataclasses.replace(said, label=None), intervals=parts)
            return
        for row in rows:
            said = manifests.said(row).over(beside)
            rate = self._rate(said, description)
            try:
                region = manifests.region(
                    row, in_seconds=in_seconds, sample_rate=rate, frames=description.frames
                )
            except RejectError as error:
                self._reject(found, _part_id(name, row, None, several=len(rows) > 1), error)
                continue
            part = _part_id(name, row, region, several=len(rows) > 1)
            self._add(part, found, description, said, region=region)

    def _add_stored(self, found: Found, description: Description) -> None:
        """An example of a dataset of ours: its split, label and origin stay, unless the settings say otherwise."""
        assert found.dataset is not None
        values, names = description.attributes, found.dataset.label_names
        origin = Origin(
            str(values["recording"]).encode("utf-8", "surrogateescape"),
            int(values.get("channel", 0)),
            int(values["start"]),
        )
        label = values.get("label")
        known = isinstance(label, int) and 0 <= label < len(names)
        said = Said(
            label=names[int(label)] if known and label is not None else None,
            split=None if self._settings.split_by else found.dataset.split,
            group=text(origin.recording),
        )
        name = b"%b//%d//%d" % (origin.recording, origin.channel, origin.start)
        self._add(name, found, description, said, origin=origin)

    def _add(
        self,
        name: bytes,
        found: Found,
        description: Description,
        said: Said,
        *,
        region: tuple[int, int] | None = None,
        intervals: tuple[Interval, ...] | None = None,
        origin: Origin | None = None,
    ) -> None:
        settings, rate = self._settings, self._rate(said, description)
        try:
            _check_rate(rate)
            names = _channel_names(said, description, iq=said.overrides.get("iq", settings.iq))
            if region is not None and region[1] > description.frames:
                beyond = f"its row ends at sample {region[1]}, and {description.frames} are there"
                if settings.strict:
                    raise RejectError(Reason.TRUNCATED, f"{beyond}, and strict is set: correct the row")
                region = (region[0], description.frames)
                description = dataclasses.replace(description, warnings=(*description.warnings, beyond))
        except RejectError as error:
            self._reject(found, name, error)
            return
        self._refuse_shared_id(found, name)
        self.complex_recordings += description.is_complex
        if said.channel_names:
            description = dataclasses.replace(description, channel_names=names)
        if not said.factors and settings.sensitivity is not None:
            said = dataclasses.replace(said, factors=(1.0 / settings.sensitivity,))
        self.recordings.append(
            Recording(
                id=name,
                found=found,
                description=description,
                said=said,
                sample_rate=rate,
                region=region or (0, description.frames),
                unit=said.unit or _unit(description, settings),
                intervals=intervals,
                origin=origin,
            )
        )

    def _rate(self, said: Said, description: Description) -> float | None:
        """The recording's own rate: stated for it, else in the file, else the dataset's."""
        rates = (said.sample_rate, description.sample_rate, self._settings.sample_rate)
        return next((rate for rate in rates if rate is not None), None)


def _unit(description: Description, settings: Settings) -> str | None:
    """As the file says; that a container's samples are brought to full scale is no unit of theirs."""
    if description.unit in (None, FULL_SCALE):
        return settings.unit or description.unit
    return description.unit


def _part_id(name: bytes, row: manifests.Row, region: tuple[int, int] | None, *, several: bool) -> bytes:
    """The row's own id, or the recording's; with channel and range where several rows are of one recording."""
    if "id" in row.values:
        return str(row.values["id"]).encode("utf-8", "surrogateescape")
    if several and "channel" in row.values:
        name += b"//" + str(row.values["channel"]).encode("utf-8", "surrogateescape")
    if several and ("start" in row.values or "end" in row.values):
        start, end = region or (row.values.get("start", 0), row.values.get("end", ""))
        name += f"//{start}-{end}".encode()
    return name


def _channel_names(said: Said, description: Description, *, iq: bool) -> tuple[str, ...]:
    """Those that are stated; of I and Q either one each or one a pair."""
    names, channels = said.channel_names, description.channels
    if iq and len(names) == 2 * channels:
        return pair_names(names)
    if names and len(names) != channels:
        raise RejectError(
            Reason.CHANNEL_MISMATCH,
            f"{len(names)} channel_names are given for its {channels} channels: give one each",
        )
    return names


def _check_rate(rate: float | None) -> None:
    if rate is not None and not (math.isfinite(rate) and 0 < rate <= 1e12):
        raise RejectError(
            Reason.RATE_INVALID,
            f"sample_rate={rate:g} Hz must be above 0 and at most 1e12: state the right one in a manifest",
        )

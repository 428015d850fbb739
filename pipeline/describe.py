"""Matched files to recordings: headers, sidecars, and the manifest's rows."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ..transforms.ahead import map_ahead
from ..transforms.elements import Description
from ..transforms.files import open_source
from ..transforms.formats.base import MissingExtraError
from ..transforms.formats.choose import HEAD_BYTES, READERS, Readers, format_by_content
from ..transforms.rejects import Reason, Reject, RejectError
from .manifest import Manifest
from .match import Found
from .packed import chunks
from .recording import NOTHING_SAID, Recording, Said
from .rows import Expander
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
      unlisted: members that the manifest does not name.
      complex_recordings: how many of the recordings have complex samples.
    """

    recordings: Sequence[Recording]
    rejects: list[Reject]
    unread: Sequence[tuple[bytes, Found]]
    unlisted: int
    complex_recordings: int


def describe(
    found: Sequence[Found],
    settings: Settings,
    manifest: Manifest | None = None,
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
    expander = Expander(settings, manifest)
    same: dict[Description, Description] = {}

    def open_some(items: Sequence[Found]) -> list[tuple[list[Description | RejectError], Said]]:
        return [_open(item, settings, readers, sidecars) for item in items]

    # by the handful, since handing one file to a thread costs as much as opening it
    handfuls = chunks(found, _HANDFUL)
    with ThreadPoolExecutor(_HEADER_THREADS) as pool:
        opened = itertools.chain.from_iterable(map_ahead(open_some, handfuls, pool, _HANDFULS_AHEAD))
        for item, (descriptions, said) in zip(found, opened, strict=True):
            if not attributes and item.dataset is None:
                descriptions = [_bare(each) for each in descriptions]
            # one object for many, where only the size of a file tells
            shared = [
                same.setdefault(each, each) if isinstance(each, Description) and not each.attributes else each
                for each in descriptions
            ]
            expander.add(item, shared, said)
    return Described(
        expander.recordings, expander.rejects, expander.unread, expander.unlisted, expander.complex_recordings
    )


def _bare(described: Description | RejectError) -> Description | RejectError:
    if isinstance(described, RejectError) or not described.attributes:
        return described
    return dataclasses.replace(described, attributes={})


def _open(
    found: Found, settings: Settings, readers: Readers, sidecars: Sidecars
) -> tuple[list[Description | RejectError], Said]:
    try:
        known = None if found.format is None else READERS[found.format]
        said = sidecars.said(found, headerless=known is not None and not known.needs_header)
        try:
            if known is not None and not known.needs_header:
                return list(_reader(readers, known.name, said, found).describe(None, found.size)), said
            with open_source(found.uri, is_folder=known is not None and known.takes_folder) as file:
                by_content = None
                if settings.input_format == "auto":
                    by_content = format_by_content(file.read(HEAD_BYTES))
                name = by_content or found.format
                if name is None:
                    raise _unknown(found)
                return list(_reader(readers, name, said, found).describe(file, found.size)), said
        except MissingExtraError as error:
            raise SettingsError(f"{error} (for {found.show})") from error
        except OSError as error:
            message = f"the file cannot be read: {error.strerror or error}"
            raise RejectError(Reason.UNREADABLE, message) from error
    except RejectError as error:
        return [error], NOTHING_SAID


def _reader(readers: Readers, name: str, said: Said, found: Found):
    try:
        return readers.get(name, said.overrides)
    except ValueError as error:
        raise SettingsError(f"{error} (for {found.show})") from error


def _unknown(found: Found) -> RejectError:
    if not found.size:
        return RejectError(Reason.EMPTY, "the file has 0 bytes")
    return RejectError(Reason.UNKNOWN_FORMAT, "neither name nor content shows the format: set input_format")

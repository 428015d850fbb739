"""Matched files to usable recordings: headers, the one sample rate, labels."""

from __future__ import annotations

import dataclasses
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from ..transforms.ahead import map_ahead
from ..transforms.elements import Description
from ..transforms.files import open_local
from ..transforms.formats.choose import HEAD_BYTES, Readers, format_by_content
from ..transforms.rejects import Reason, Reject, RejectError, text
from .match import Found
from .settings import Settings, SettingsError

_HEADER_THREADS = 8
_HEADERS_AHEAD = 1024


@dataclasses.dataclass(frozen=True, slots=True)
class Recording:
    """A matched file that can be used, as far as its header shows.

    Attributes:
      found: where it is.
      description: what it holds.
      label: its class name, or None where there are no labels.
    """

    found: Found
    description: Description
    label: str | None = None


def describe(found: list[Found], settings: Settings) -> tuple[list[Recording], list[Reject]]:
    """Opens headers, side by side; headerless files need only their size.

    Raises:
      SettingsError: a setting is missing that the files do not say.
    """
    readers = Readers(settings)
    try:
        headers = any(item.format is None or readers.get(item.format).needs_header for item in found)
        if headers:
            with ThreadPoolExecutor(_HEADER_THREADS, "plan") as pool:
                results = list(map_ahead(lambda item: _describe(item, readers), found, pool, _HEADERS_AHEAD))
        else:
            results = [_describe(item, readers) for item in found]
    except ValueError as error:  # from a reader: a setting is missing
        raise SettingsError(str(error)) from None
    recordings = [result for result in results if isinstance(result, Recording)]
    return recordings, [result for result in results if isinstance(result, Reject)]


def _describe(found: Found, readers: Readers) -> Recording | Reject:
    try:
        try:
            if found.format is not None and not readers.get(found.format).needs_header:
                return Recording(found, readers.get(found.format).describe(None, found.size))
            with open_local(found.uri) as file:
                name = found.format or format_by_content(file.read(HEAD_BYTES))
                if name is None:
                    raise _unknown(found)
                return Recording(found, readers.get(name).describe(file, found.size))
        except OSError as error:
            message = f"the file cannot be read: {error.strerror or error}"
            raise RejectError(Reason.UNREADABLE, message) from error
    except RejectError as error:
        return Reject(found.recording, "plan", error.reason, str(error))


def _unknown(found: Found) -> RejectError:
    if not found.size:
        return RejectError(Reason.EMPTY, "the file has 0 bytes")
    return RejectError(Reason.UNKNOWN_FORMAT, "neither name nor content shows the format: set input_format")


def keep_rate(recordings: list[Recording], settings: Settings) -> tuple[float, list[Recording], list[Reject]]:
    """The dataset's one sample rate in Hz, and the recordings that have it; the others are rejects.

    Raises:
      SettingsError: there are several, and none was asked for.
    """
    rates = Counter(recording.description.sample_rate for recording in recordings)
    if settings.sample_rate is not None:
        rate = settings.sample_rate
    elif len(rates) > 1:
        table = ", ".join(f"{rate:g} Hz: {count}" for rate, count in sorted(rates.items()))
        raise SettingsError(
            f"the recordings have several sample rates ({table}), and a dataset has one: "
            "set sample_rate to the one to use"
        )
    else:
        rate = next(iter(rates), None) or 0.0
    kept = [recording for recording in recordings if recording.description.sample_rate == rate]
    rejects = [
        Reject(
            recording.found.recording,
            "plan",
            Reason.RATE_MISMATCH,
            f"sample_rate={recording.description.sample_rate:g} Hz, and {rate:g} Hz is expected: "
            "resample the file, or set sample_rate",
        )
        for recording in recordings
        if recording.description.sample_rate != rate
    ]
    return rate, kept, rejects


def label(recordings: list[Recording], settings: Settings) -> tuple[list[Recording], list[Reject]]:
    """Finds each recording's label in its id; those without one are rejects."""
    pattern = settings.label_pattern
    if pattern is None:
        return recordings, []
    labelled, rejects = [], []
    for recording in recordings:
        match = pattern.search(text(recording.found.recording))
        if match and match["label"]:
            labelled.append(dataclasses.replace(recording, label=match["label"]))
        else:
            message = (
                f"label_from={settings.label_from} finds no label in the path: "
                "mend the expression, or leave the file out"
            )
            rejects.append(Reject(recording.found.recording, "plan", Reason.LABEL_MISSING, message))
    return labelled, rejects

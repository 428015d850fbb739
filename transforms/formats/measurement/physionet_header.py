"""Headers of WFDB records: what wfdb reads, held against what can be.

Format: header(5) and signal(5) of the WFDB manual.
"""

from __future__ import annotations

import datetime
import os
import re
import stat
from typing import Any, BinaryIO

from ...rejects import Reason, RejectError
from ..base import MissingExtraError, empty, local_path

_MOST_HEADER_BYTES, _MOST_LINE_LENGTH, _MOST_SKEW = 1 << 20, 1000, 1 << 16
PIECE_SAMPLES = 1 << 20
# format: bits of a sample, and how many bytes hold how many samples
FORMATS = {
    "8": (8, 1, 1), "16": (16, 2, 1), "24": (24, 3, 1), "32": (32, 4, 1), "61": (16, 2, 1), "80": (8, 1, 1),
    "160": (16, 2, 1), "212": (12, 3, 2), "310": (10, 4, 3), "311": (10, 4, 3),
}  # fmt: skip
COMPRESSED = {"508": 8, "516": 16, "524": 24}
_FORMAT_PATTERN = "|".join([*FORMATS, *COMPRESSED])
_RECORD_LINE = re.compile(
    r"[-\w]+(?P<segments>/\d+)?[ \t]+\d+([ \t]+[-\d./()]+){0,2}([ \t]+[\d:.]+([ \t]+[\d/]+)?)?[ \t]*$"
)
_SIGNAL_LINE = re.compile(rf"[-\w]+\.\w+[ \t]+({_FORMAT_PATTERN})(x\d+)?(:\d+)?(\+\d+)?([ \t]|$)")
_FILE_NAME = re.compile(r"[-\w]+\.?\w*")


def looks_like_header(head: bytes) -> bool:
    """Whether a file begins with a record line and a line of a signal in a known format, or of a segment."""
    lines = header_lines(head.decode("ascii", "replace"))[:2]
    if len(lines) < 2 or not (record := _RECORD_LINE.match(lines[0][:_MOST_LINE_LENGTH])):
        return False
    if record["segments"]:
        return re.match(r"[-\w~]+[ \t]+\d+$", lines[1][:_MOST_LINE_LENGTH]) is not None
    return _SIGNAL_LINE.match(lines[1][:_MOST_LINE_LENGTH]) is not None


def open_header(file: BinaryIO) -> Any:
    """The header as wfdb has it, which only names files beside it.

    Raises:
      MissingExtraError: wfdb is not installed.
      RejectError: it is no header that can be used.
    """
    file.seek(0)
    content = file.read(_MOST_HEADER_BYTES + 1)
    lines = header_lines(content.decode("ascii", "ignore"))
    if len(content) > _MOST_HEADER_BYTES or max(map(len, lines), default=0) > _MOST_LINE_LENGTH:
        raise RejectError(Reason.BAD_FORMAT, "it is longer than a WFDB header, or has too long lines")
    if not lines:
        raise RejectError(Reason.BAD_FORMAT, "the header has no record line")
    if "/" in lines[0].split()[0]:
        raise RejectError(
            Reason.BAD_FORMAT,
            "records of several segments cannot be read: give the headers of the segments",
        )
    if len(lines) == 1:
        raise empty("the header names no signal")
    for line in lines[1:]:
        if not _FILE_NAME.fullmatch(line.split()[0]):
            raise RejectError(
                Reason.BAD_FORMAT,
                f"the header names the sample file {line.split()[0][:100]!r}: it must lie beside the header, and "
                "its name may have letters, digits, - and _, and one dot",
            )
    record = call("rdheader", record_path(file))
    _check(record, len(lines) - 1)
    return record


def record_path(file: BinaryIO) -> str:
    """What wfdb calls the record: the header's path without its ending."""
    path = os.path.abspath(local_path(file, "WFDB"))
    if not path.endswith(".hea") or "::" in path:
        raise RejectError(Reason.BAD_FORMAT, f"{path} must end in .hea and hold no double colon: rename it")
    return path[: -len(".hea")]


def header_lines(text: str) -> list[str]:
    """Lines that are neither blank nor comments."""
    return [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]


def sample_bits(format_name: str) -> int:
    """Of a sample in that format."""
    return COMPRESSED[format_name] if format_name in COMPRESSED else FORMATS[format_name][0]


def call(function: str, path: str, **more: Any) -> Any:
    """What a function of wfdb gives for a local record.

    Raises:
      MissingExtraError: wfdb is not installed.
      RejectError: wfdb does not understand the record.
    """
    try:
        import wfdb
    except ImportError as error:
        raise MissingExtraError("WFDB", "wfdb", "wfdb") from error
    try:
        return getattr(wfdb, function)(path, **more)
    except OSError:
        raise
    except Exception as error:  # wfdb raises whatever its parsing stumbles over, and plain Exception
        if type(error).__name__ == "LibsndfileError" or function == "rdrecord":
            raise RejectError(
                Reason.CORRUPT, f"wfdb cannot read the samples: {' '.join(str(error).split())[:300]}"
            ) from error
        raise RejectError(
            Reason.BAD_FORMAT, f"wfdb cannot read the header: {' '.join(str(error).split())[:300]}"
        ) from error


def _check(record: Any, signals: int) -> None:
    """Holds what the header says against what can be.

    Raises:
      RejectError: it is not possible, or would make wfdb reserve memory for nothing.
    """
    if record.n_sig != signals:
        raise RejectError(
            Reason.BAD_FORMAT, f"the header promises {record.n_sig} signals and describes {signals}"
        )
    for name, format_name, per_frame, skew in zip(
        record.file_name, record.fmt, record.samps_per_frame, record.skew, strict=True
    ):
        if format_name not in FORMATS and format_name not in COMPRESSED:
            raise RejectError(
                Reason.BAD_FORMAT, f"{name} has format {format_name}, which is none of {_FORMAT_PATTERN}"
            )
        if not 1 <= per_frame <= PIECE_SAMPLES or not 0 <= (skew or 0) <= _MOST_SKEW:
            raise RejectError(
                Reason.BAD_FORMAT,
                f"{name} has {per_frame} samples a frame and a skew of {skew} frames: beyond {PIECE_SAMPLES}, {_MOST_SKEW}",
            )


def file_size(path: str, name: str) -> int:
    """Bytes of a sample file.

    Raises:
      RejectError: it is not there, or no regular file.
    """
    try:
        status = os.stat(path)
    except FileNotFoundError as error:
        raise RejectError(
            Reason.NOT_FOUND, f"the samples are in {name}, which is not beside the header: copy it there"
        ) from error
    if not stat.S_ISREG(status.st_mode):
        raise RejectError(Reason.NOT_A_FILE, f"the samples are in {name}, which is no regular file")
    return status.st_size


def start_ns(record: Any) -> int | None:
    """From base date and time, taken as UTC: the header says no zone."""
    if record.base_date is None or record.base_time is None:
        return None
    days = record.base_date.toordinal() - datetime.date(1970, 1, 1).toordinal()
    time = record.base_time
    seconds = days * 86400 + time.hour * 3600 + time.minute * 60 + time.second
    return seconds * 10**9 + time.microsecond * 1000


def comments_of(lines: list[str]) -> dict[str, str | int | float]:
    """Comments of the form "key: value" by their key, the others together."""
    found: dict[str, str | int | float] = {}
    rest = []
    for line in lines[:1000]:
        key, colon, value = line.partition(":")
        if colon and value.strip() and 0 < len(key.strip()) <= 60 and len(found) < 60:
            found[key.strip(" \t<>")] = value.strip()[:1000]
        elif line:
            rest.append(line)
    return found | ({"comments": " ".join(rest)[:1000]} if rest else {})

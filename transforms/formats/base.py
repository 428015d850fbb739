"""What a reader is, and what readers share."""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterable, Sequence
from typing import BinaryIO, ClassVar, Protocol

import numpy as np

from ..elements import Description
from ..rejects import Reason, RejectError
from .settings import ReadSettings

__all__ = ["ReadSettings", "Reader"]


class Reader(Protocol):
    """Reads one format. Bound to the settings, otherwise stateless: one instance serves every file and thread.

    Attributes:
      name: as in `input_format` and the ledger.
      suffixes: file name endings, lower case, that stand for the format where content does not tell.
      needs_header: whether `describe` has to open the file; if not it is given None.
      takes_folder: whether a recording is a folder with one of the suffixes; `file` is then a `files.Folder`.
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    needs_header: ClassVar[bool] = True
    takes_folder: ClassVar[bool] = False

    def __init__(self, settings: ReadSettings): ...

    @staticmethod
    def matches(head: bytes) -> bool:
        """Whether a file with these first 4096 bytes is of this format; only where there can be no doubt."""
        ...

    def describe(self, file: BinaryIO | None, size: int) -> Iterable[Description | RejectError]:
        """What a file of `size` bytes holds: one description a recording, in a fixed order.

        A member that cannot be used stands as a `RejectError` that names it among the others.

        Raises:
          RejectError: the file cannot be used at all.
        """
        ...

    def read(self, file: BinaryIO, locator: str, channel: int, start: int, out: np.ndarray) -> None:
        """Fills `out` [samples] from sample `start` of `channel` of the recording at `locator`.

        A float32 `out` gets samples in the unit of the scale setting, an int16 one gets them as stored, a
        complex64 one gets complex samples.

        Raises:
          RejectError: the range is not there, or the samples are not what `out` asks for.
        """
        ...


class MissingExtraError(ValueError):
    """A format needs a package that is not installed; the message names the installation."""

    def __init__(self, what: str, package: str, extra: str):
        super().__init__(f"{what} needs {package}: pip install 'spectrabeam[{extra}]'")


def not_int16(stored: str) -> RejectError:
    """Samples that are not 16-bit integers cannot be kept as int16 as they came."""
    return RejectError(
        Reason.DTYPE_MISMATCH,
        f"samples are stored as {stored}, and keep_waveform=int16 keeps 16-bit integers as they came: "
        "set keep_waveform=float32",
    )


def short_read(start: int, wanted: int, found: int) -> RejectError:
    """The file ended before the range did, though its size is the planned one."""
    return RejectError(
        Reason.TRUNCATED,
        f"only {found} of {wanted} samples could be read from sample {start}: the file is cut short",
    )


def empty(what: str) -> RejectError:
    """A file or member without a sample."""
    return RejectError(Reason.EMPTY, what)


def choose_members(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """The names that match any pattern, in their order; all where there is no pattern.

    A pattern is a glob on the whole name, or on its last part, or after `re:` a regular expression that is
    searched in the name.

    >>> choose_members(["X105_DE_time", "X105RPM"], ["*_time"])
    ['X105_DE_time']

    Raises:
      RejectError: none does; the message lists the candidates.
    """
    if not patterns:
        return list(names)
    chosen = [name for name in names if any(_fits(name, pattern) for pattern in patterns)]
    if not chosen:
        candidates = ", ".join(names[:20]) + (" …" if len(names) > 20 else "") if names else "nothing"
        raise RejectError(
            Reason.NO_MEMBER, f"no member fits members={','.join(patterns)}: the file holds {candidates}"
        )
    return chosen


def _fits(name: str, pattern: str) -> bool:
    if pattern.startswith("re:"):
        return re.search(pattern[3:], name) is not None
    return any(
        fnmatch.fnmatchcase(part, pattern) for part in (name, name.rpartition("/")[2], name.lstrip("/"))
    )


def local_path(file: BinaryIO, format_name: str) -> str:
    """The path of a local file, for libraries that take nothing else.

    Raises:
      RejectError: the file is not local.
    """
    name = getattr(file, "name", None)
    if isinstance(name, (str, bytes)) and os.path.exists(name):
        return os.fsdecode(name)
    raise RejectError(Reason.UNREADABLE, f"{format_name} can be read from local files only: copy it first")

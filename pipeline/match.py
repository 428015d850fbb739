"""Inputs to recordings: walks folders, expands globs, and says what it left out."""

from __future__ import annotations

import dataclasses
import glob
import itertools
import os
import re
import stat
from collections import Counter

from ..transforms.dataset import METADATA
from ..transforms.files import NO_FILE
from ..transforms.formats.base import ReadSettings
from ..transforms.formats.choose import format_by_name
from ..transforms.rejects import Reason, Reject, text

_NAMED = re.compile(r"([A-Za-z_][\w.-]*)=(.+)", re.DOTALL)
_WILDCARD = re.compile(r"[*?\[]")


class NoMatchError(ValueError):
    """Inputs that cannot be matched to recordings; the message says which and why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """One matched file.

    Attributes:
      recording: its id: path relative to the input's root, "/"-separated, bytes as on disk.
      uri: absolute path, bytes as on disk.
      size: bytes.
      modified_ns: modification time, nanoseconds since 1970.
      format: by its name, or None where only the content can tell.
    """

    recording: bytes
    uri: bytes
    size: int
    modified_ns: int
    format: str | None


@dataclasses.dataclass(frozen=True)
class Matches:
    """What the inputs hold.

    Attributes:
      found: usable files, sorted by id.
      rejects: matched, but no readable file.
      left_out: why other files were not matched, to how many.
    """

    found: list[Found]
    rejects: list[Reject]
    left_out: dict[str, int]


def match(inputs: tuple[str, ...], settings: ReadSettings, output: str | None = None) -> Matches:
    """Finds the recordings of all inputs. A file that is matched twice counts once.

    Args:
      inputs: folders, files or globs, each perhaps as NAME=PATH.
      settings: which formats to look for.
      output: a folder to leave out.

    Raises:
      NoMatchError: an input does not exist or matches nothing, or two files get one id.
    """
    if not inputs:
        raise NoMatchError("input is not set: name folders, files or globs, such as --input recordings/")
    matcher = _Matcher(settings, output)
    for given in inputs:
        before, left_out = matcher.seen, matcher.left_out.copy()
        matcher.add(given)
        if matcher.seen == before:
            raise NoMatchError(
                f"input={given} matches no recording{_hint(matcher.left_out - left_out, settings)}"
            )
    found = sorted(matcher.found.values(), key=lambda item: item.recording)
    rejects = sorted(matcher.rejects.values(), key=lambda reject: reject.recording)
    _refuse_shared_ids(matcher)
    return Matches(found, rejects, dict(sorted(matcher.left_out.items())))


class _Matcher:
    def __init__(self, settings: ReadSettings, output: str | None):
        self._settings = settings
        self._output = None if output is None else os.fsencode(os.path.realpath(output))
        self.found: dict[bytes, Found] = {}
        self.rejects: dict[bytes, Reject] = {}
        self.left_out: Counter[str] = Counter()
        self.seen = 0

    def add(self, given: str) -> None:
        """Everything under one input."""
        if re.match(r"[a-z][a-z0-9+.-]*://", given):
            raise NoMatchError(f"input={given} is no local path: object stores cannot be read yet")
        prefix, path = b"", given
        if not os.path.lexists(given) and (named := _NAMED.fullmatch(given)):
            prefix, path = os.fsencode(named[1]) + b"/", named[2]
        if os.path.lexists(path):  # taken literally first: file names may hold * ? [
            uri = os.fsencode(os.path.abspath(path))
            if os.path.isdir(path):
                self._walk(uri, uri, prefix)
            else:
                self._file(uri, os.path.dirname(uri), prefix, named=True)
            return
        if not _WILDCARD.search(path):
            raise NoMatchError(f"input={given} does not exist")
        pattern = os.path.abspath(path)
        root = os.fsencode(pattern[: pattern.rindex("/", 0, _WILDCARD.search(pattern).start() + 1)])  # type: ignore[union-attr]
        for name in glob.iglob(os.fsencode(pattern), recursive=True):
            if os.path.isdir(name):
                if b"**" not in os.path.basename(os.fsencode(pattern)):
                    self._walk(name, root or b"/", prefix)
            else:
                self._file(name, root, prefix, named=True)

    def _walk(self, folder: bytes, root: bytes, prefix: bytes, above: frozenset = frozenset()) -> int:
        """Matches below a folder; returns how many."""
        real = os.path.realpath(folder)
        if real == self._output:
            self.left_out["the output folder"] += 1
            return 0
        if real in above:  # a link to a folder that holds it
            self.left_out["links that lead back to their own folder"] += 1
            return 0
        above |= {real}
        before = self.seen
        try:
            entries = list(os.scandir(folder))
        except OSError as error:
            self._reject(
                folder, root, prefix, Reason.UNREADABLE, f"the folder cannot be listed: {error.strerror}"
            )
            return 1
        if any(entry.name == METADATA.encode() for entry in entries):
            self.left_out["datasets of spectrabeam"] += 1
            return 0
        for entry in entries:
            if entry.name.startswith(b"."):
                self.left_out["hidden files and folders"] += 1
            elif _is_folder(entry):
                below = self._walk(entry.path, root, prefix, above)
                if not below and format_by_name(entry.name, self._settings):
                    message = "a folder bears the name of a recording and holds none"
                    self._reject(entry.path, root, prefix, Reason.NOT_A_FILE, message)
            else:
                self._file(entry.path, root, prefix, entry=entry)
        return self.seen - before

    def _file(
        self, uri: bytes, root: bytes, prefix: bytes, *, entry: os.DirEntry | None = None, named: bool = False
    ) -> None:
        """Matches one file. A file that is named, or found by a glob, may have any name."""
        if named and self._output and os.path.realpath(uri).startswith(self._output + b"/"):
            self.left_out["files in the output folder"] += 1
            return
        format_name = format_by_name(uri, self._settings)
        if format_name is None:
            if not named:
                self.left_out["files of other kinds"] += 1
                return
            if self._settings.input_format != "auto":
                format_name = self._settings.input_format
        try:
            status = entry.stat() if entry else os.stat(uri)
        except OSError as error:
            self._reject(uri, root, prefix, Reason.UNREADABLE, f"the file cannot be read: {error.strerror}")
            return
        if not stat.S_ISREG(status.st_mode):
            self._reject(uri, root, prefix, Reason.NOT_A_FILE, NO_FILE)
            return
        self.seen += 1
        recording = _identify(uri, root, prefix)
        self.found.setdefault(uri, Found(recording, uri, status.st_size, status.st_mtime_ns, format_name))

    def _reject(self, uri: bytes, root: bytes, prefix: bytes, reason: Reason, message: str) -> None:
        self.seen += 1
        self.rejects.setdefault(uri, Reject(_identify(uri, root, prefix), "match", reason, message))


def _is_folder(entry: os.DirEntry) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # such as a link to itself
        return False


def _identify(uri: bytes, root: bytes, prefix: bytes) -> bytes:
    return prefix + uri[len(root.rstrip(b"/")) + 1 :]


def _refuse_shared_ids(matcher: _Matcher) -> None:
    named = [(found.recording, uri) for uri, found in matcher.found.items()]
    named += [(reject.recording, uri) for uri, reject in matcher.rejects.items()]
    for (recording, uri), (other, other_uri) in itertools.pairwise(sorted(named)):
        if recording == other:
            raise NoMatchError(
                f"{text(uri)} and {text(other_uri)} would both be recording {text(recording)}: give their "
                "common parent as input, or a name to each input, such as --input a=PATH b=PATH"
            )


def _hint(left_out: Counter[str], settings: ReadSettings) -> str:
    kinds = "*.raw or *.wav" if settings.input_format == "auto" else f"*.{settings.input_format}"
    counts = ", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items()))
    return f": looked for {kinds}, left out {counts}" if counts else f": looked for {kinds}"

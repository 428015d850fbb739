"""Inputs to recordings: walks folders, expands globs, and says what it left out."""

from __future__ import annotations

import dataclasses
import fnmatch
import heapq
import os
import re
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from ..transforms.dataset import METADATA, DatasetError, ShardName, load_dataset
from ..transforms.files import NO_FILE, folder_size
from ..transforms.formats.base import ReadSettings
from ..transforms.formats.choose import READERS, TABLES, format_by_name
from ..transforms.rejects import Reason, Reject, text
from .packed import Packed

_NAMED = re.compile(r"([A-Za-z_][\w.-]*)=(.+)", re.DOTALL)
REMOTE = re.compile(r"[a-z][a-z0-9+.-]*://")
_WILDCARD = re.compile(r"[*?\[]")


class NoMatchError(ValueError):
    """Inputs that cannot be matched to recordings; the message says which and why."""


@dataclasses.dataclass(frozen=True, slots=True)
class StoredDataset:
    """What a dataset of ours says of one of its shards: the split, and the names of its classes."""

    split: str
    label_names: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """One matched file.

    Attributes:
      recording: its id: path relative to the input's root, "/"-separated, bytes as on disk.
      uri: absolute path, bytes as on disk.
      size: bytes.
      modified_ns: modification time, nanoseconds since 1970.
      format: by its name, or None where only the content can tell.
      root: of its input; b"" where it is not known.
      listed_as: what a manifest calls it, or None where there is none.
      dataset: of which it is a shard, or None.
    """

    recording: bytes
    uri: bytes
    size: int
    modified_ns: int
    format: str | None
    root: bytes = b""
    listed_as: str | None = None
    dataset: StoredDataset | None = None

    @property
    def show(self) -> str:
        """Its id for people."""
        return text(self.recording)


@dataclasses.dataclass(frozen=True)
class Matches:
    """What the inputs hold.

    Attributes:
      found: usable files, sorted by id.
      rejects: matched, but no readable file.
      left_out: why other files were not matched, to how many.
    """

    found: Sequence[Found]
    rejects: Sequence[Reject]
    left_out: dict[str, int]


def match(
    inputs: tuple[str, ...], settings: ReadSettings, output: str | None = None, *, may_be_empty: bool = False
) -> Matches:
    """Finds the recordings of all inputs. A file that is matched twice counts once.

    Args:
      inputs: folders, files or globs, each perhaps as NAME=PATH.
      settings: which formats to look for.
      output: a folder to leave out.
      may_be_empty: whether inputs may hold no recording.

    Raises:
      NoMatchError: an input does not exist or matches nothing, or two files get one id.
    """
    if not inputs:
        raise NoMatchError("input is not set: name folders, files or globs, such as --input recordings/")
    matcher = _Matcher(settings, output, several=len(inputs) > 1)
    for given in inputs:
        before, left_out = matcher.seen, matcher.left_out.copy()
        matcher.add(given)
        if matcher.seen == before and not may_be_empty:
            raise NoMatchError(
                f"input={given} matches no recording{_hint(matcher.left_out - left_out, settings)}"
            )
    found = matcher.found.sorted(key=lambda item: item.recording)
    rejects = sorted(matcher.rejects.items(), key=lambda item: item[1].recording)
    found = Packed(_with_own_ids(found, rejects))
    if matcher.links:
        found = _once(found, matcher)
    if matcher.tables:
        found = _without_tables(found, matcher)
    return Matches(found, [reject for _, reject in rejects], dict(sorted(matcher.left_out.items())))


def split_name(given: str) -> tuple[str, str]:
    """The name, or "", and the path of an input written as NAME=PATH or PATH; an existing path is no name."""
    named = None if os.path.lexists(given) else _NAMED.fullmatch(given)
    return (named[1], named[2]) if named else ("", given)


class _Matcher:
    def __init__(self, settings: ReadSettings, output: str | None, *, several: bool):
        self._settings = settings
        self._output = None if output is None else os.fsencode(os.path.realpath(output))
        self._uris: set[bytes] | None = set() if several else None
        self.found: Packed[Found] = Packed()
        self.rejects: dict[bytes, Reject] = {}
        self.left_out: Counter[str] = Counter()
        self.seen = 0
        self.named_tables: set[bytes] = set()
        self.links = False
        self.tables = False
        self._ours: dict[bytes, bool] = {}
        self._complex: dict[bytes, bool] = {}

    def add(self, given: str) -> None:
        """Everything under one input."""
        if REMOTE.match(given):
            raise NoMatchError(f"input={given} is no local path: object stores cannot be read yet")
        name, path = split_name(given)
        prefix = os.fsencode(name) + b"/" if name else b""
        if os.path.lexists(path):  # taken literally first: file names may hold * ? [
            uri = os.fsencode(os.path.abspath(path))
            self.links |= os.path.realpath(uri) != uri
            if os.path.isdir(path) and self._is_recording(uri):
                self._folder(uri, os.path.dirname(uri), prefix)
            elif os.path.exists(os.path.join(uri, METADATA.encode())):
                self._dataset(given, uri, prefix)
            elif os.path.isdir(path):
                self._walk(uri, uri, prefix)
            else:
                self._file(uri, os.path.dirname(uri), prefix, named=True)
            return
        if not _WILDCARD.search(path):
            raise NoMatchError(f"input={given} does not exist")
        pattern = os.path.abspath(path)
        root = os.fsencode(pattern[: pattern.rindex("/", 0, _WILDCARD.search(pattern).start() + 1)])  # type: ignore[union-attr]
        self._expand(
            root or b"/", os.fsencode(pattern)[len(root) + 1 :].split(b"/"), root, prefix, frozenset()
        )

    def _expand(
        self, folder: bytes, parts: list[bytes], root: bytes, prefix: bytes, above: frozenset[bytes]
    ) -> None:
        """Matches below a folder what a glob's remaining parts say; ** goes into every folder once on a way."""
        if self._is_ours(folder):
            return
        part, rest = parts[0], parts[1:]
        if part == b"**":
            real = os.path.realpath(folder)
            if real in above:
                return
            above |= {real}
            self._expand(folder, rest or [b"*"], root, prefix, above)
        for entry in _entries(folder):
            if entry.name.startswith(b".") and not part.startswith(b"."):
                continue
            self.links |= entry.is_symlink()
            if part == b"**":
                if _is_folder(entry) and not self._is_recording(entry.path):
                    self._expand(entry.path, parts, root, prefix, above)
            elif not fnmatch.fnmatchcase(entry.name, part):
                continue
            elif rest:
                if _is_folder(entry):
                    self._expand(entry.path, rest, root, prefix, above)
            elif not _is_folder(entry):
                self._file(entry.path, root, prefix, entry=entry, named=True)
            elif self._is_recording(entry.path):
                self._folder(entry.path, root, prefix)
            elif not above:  # below ** its folders are gone into anyway
                self._walk(entry.path, root or b"/", prefix)

    def _is_ours(self, folder: bytes) -> bool:
        """Whether a folder is the output, or a dataset, or below one."""
        known = self._ours.get(folder)
        if known is None:
            above = os.path.dirname(folder)
            known = (
                os.path.realpath(folder) == self._output
                or os.path.exists(os.path.join(folder, METADATA.encode()))
                or (above != folder and self._is_ours(above))
            )
            self._ours[folder] = known
        return known

    def _walk(self, folder: bytes, root: bytes, prefix: bytes, above: frozenset[bytes] = frozenset()) -> int:
        """Matches below a folder; returns how many."""
        real = os.path.realpath(folder)
        if real == self._output:  # not counted: it may not have been there the first time
            return 0
        if real in above:  # a link to a folder that holds it
            self.left_out["links that lead back to their own folder"] += 1
            return 0
        above |= {real}
        before = self.seen
        try:
            entries = os.scandir(folder)
        except OSError as error:
            if folder == root:
                raise NoMatchError(f"input={text(folder)} cannot be listed: {error.strerror}") from None
            self._reject(
                folder, root, prefix, Reason.UNREADABLE, f"the folder cannot be listed: {error.strerror}"
            )
            return 1
        if os.path.lexists(os.path.join(folder, METADATA.encode())):
            self.left_out["datasets of spectrabeam"] += 1
            return 0
        for entry in entries:
            self.links |= entry.is_symlink()
            if entry.name.startswith(b"."):
                self.left_out["hidden files and folders"] += 1
            elif _is_folder(entry) and self._is_recording(entry.path):
                self._folder(entry.path, root, prefix)
            elif _is_folder(entry):
                below = self._walk(entry.path, root, prefix, above)
                if not below and format_by_name(entry.name, self._settings):
                    message = "a folder bears the name of a recording and holds none"
                    self._reject(entry.path, root, prefix, Reason.NOT_A_FILE, message)
            else:
                self._file(entry.path, root, prefix, entry=entry)
        return self.seen - before

    def _dataset(self, given: str, folder: bytes, prefix: bytes) -> None:
        """Matches the shards of a dataset of ours that keeps its waveforms."""
        dataset = load_dataset(os.fsdecode(folder))
        if "waveform" not in dataset.features:
            raise NoMatchError(
                f"input={given} is a dataset without waveforms: name the recordings that it was made from, or extract "
                "it again with --keep-waveform"
            )
        if len(dataset.features["waveform"].shape) > 1:
            held = "complex samples" if dataset.metadata.get("is_complex") else "stacked channels"
            raise NoMatchError(f"input={given} holds {held}: name the recordings that it was made from")
        for split, shards in dataset.splits.items():
            for shard in shards:
                uri = os.path.join(folder, shard["file"].encode())
                stored = StoredDataset(split, tuple(dataset.metadata["label_names"] or ()))
                self._file(uri, folder, prefix, dataset=stored)

    def _is_recording(self, folder: bytes) -> bool:
        """Whether a folder is one recording, as its name says."""
        name = format_by_name(folder, self._settings)
        return name is not None and READERS[name].takes_folder

    def _folder(self, uri: bytes, root: bytes, prefix: bytes) -> None:
        """Matches a folder that is one recording."""
        try:
            status, size = os.stat(uri), folder_size(uri)
        except OSError as error:
            self._reject(uri, root, prefix, Reason.UNREADABLE, f"the folder cannot be read: {error.strerror}")
            return
        self.seen += 1
        name = format_by_name(uri, self._settings)
        self._add(Found(_identify(uri, root, prefix), uri, size, status.st_mtime_ns, name, root))

    def _add(self, found: Found) -> None:
        if self._uris is not None:
            if found.uri in self._uris:  # another input has it, maybe by another id
                return
            self._uris.add(found.uri)
        self.tables |= found.format in TABLES
        self.found.append(found)

    def _file(
        self,
        uri: bytes,
        root: bytes,
        prefix: bytes,
        *,
        entry: os.DirEntry | None = None,
        named: bool = False,
        dataset: StoredDataset | None = None,
    ) -> None:
        """Matches one file. A file that is named, or found by a glob, may have any name."""
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
        if dataset is None and self._is_complex_shard(uri):
            message = "a shard of a dataset with complex waveforms: name the recordings that it was made from"
            self._reject(uri, root, prefix, Reason.COMPLEX_SAMPLES, message)
            return
        self.seen += 1
        if named and format_name in TABLES:
            self.named_tables.add(uri)
        recording, modified_ns = _identify(uri, root, prefix), status.st_mtime_ns
        self._add(Found(recording, uri, status.st_size, modified_ns, format_name, root, None, dataset))

    def _is_complex_shard(self, uri: bytes) -> bool:
        """Whether a file is a shard of a dataset whose waveforms have two parts, which the file alone does not tell."""
        if ShardName.parse(os.path.basename(uri).decode("ascii", "replace")) is None:
            return False
        folder = os.path.dirname(uri)
        if folder not in self._complex:
            try:
                self._complex[folder] = bool(load_dataset(os.fsdecode(folder)).metadata.get("is_complex"))
            except DatasetError:
                self._complex[folder] = False
        return self._complex[folder]

    def _reject(self, uri: bytes, root: bytes, prefix: bytes, reason: Reason, message: str) -> None:
        self.seen += 1
        self.rejects.setdefault(uri, Reject(_identify(uri, root, prefix), "match", reason, message))


def _once(found: Packed[Found], matcher: _Matcher) -> Packed[Found]:
    """Each file once: its own path before ways through links, of these the one with the first id."""
    once: dict[bytes, Found] = {}
    for item in found:
        real = os.path.realpath(item.uri)
        if real not in once or item.uri == real:
            once[real] = item
    if len(once) < len(found):
        matcher.left_out["files reached a second time through a link"] = len(found) - len(once)
    return Packed(sorted(once.values(), key=lambda item: item.recording))


def _without_tables(found: Packed[Found], matcher: _Matcher) -> Packed[Found]:
    """Leaves out tables that an input holds beside recordings of other formats: they tell about these."""
    others = {item.root for item in found if item.format not in TABLES}
    kept = Packed(
        item
        for item in found
        if item.format not in TABLES or item.root not in others or item.uri in matcher.named_tables
    )
    if len(kept) < len(found):
        matcher.left_out["tables beside recordings of other formats"] = len(found) - len(kept)
    return kept


def _entries(folder: bytes) -> list[os.DirEntry[bytes]]:
    try:
        return sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return []


def _is_folder(entry: os.DirEntry) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # such as a link to itself
        return False


def _identify(uri: bytes, root: bytes, prefix: bytes) -> bytes:
    return prefix + uri[len(root.rstrip(b"/")) + 1 :]


def _with_own_ids(found: Iterable[Found], rejects: Iterable[tuple[bytes, Reject]]) -> Iterator[Found]:
    """Sorted files, without those that a glob has matched twice; two with the same id are refused."""
    files = ((item.recording, item.uri, item) for item in found)
    others = ((reject.recording, uri, None) for uri, reject in rejects)
    before, before_uri = None, b""
    for recording, uri, item in heapq.merge(files, others, key=lambda each: each[0]):
        if recording == before and uri != before_uri:
            raise NoMatchError(
                f"{text(before_uri)} and {text(uri)} would both be recording {text(recording)}: give their "
                "common parent as input, or a name to each input, such as --input a=PATH b=PATH"
            )
        if recording != before and item is not None:
            yield item
        before, before_uri = recording, uri


def _hint(left_out: Counter[str], settings: ReadSettings) -> str:
    wanted = (
        READERS
        if settings.input_format == "auto"
        else {settings.input_format: READERS[settings.input_format]}
    )
    kinds = ", ".join(f"*{suffix}" for reader in wanted.values() for suffix in reader.suffixes)
    kinds += " (files of other names: give a glob, such as 'folder/**/*.bin', and --input-format)"
    counts = ", ".join(f"{count} {reason}" for reason, count in sorted(left_out.items()))
    return f": looked for {kinds}, left out {counts}" if counts else f": looked for {kinds}"

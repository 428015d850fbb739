"""The dataset on disk: where things lie, what they are called, and spectrabeam.json."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import uuid
from collections.abc import Mapping
from typing import Any

from .schema import FeatureSpec

FORMAT_VERSION = 1
METADATA = "spectrabeam.json"
_SHARD = re.compile(r"spectrabeam-([A-Za-z_][A-Za-z0-9_]*)-(\d{5,})\.tfrecord")


_REQUIRED = {
    "settings": dict,
    "splits": dict,
    "features": dict,
    "counts": dict,
    "axes": dict,
    "compression": str,
}


class DatasetError(ValueError):
    """A folder that is not what it should be; the message says what to do."""


@dataclasses.dataclass(frozen=True, order=True)
class ShardName:
    """A shard: its split and index. The index is never used again for other content."""

    split: str
    index: int

    def __str__(self) -> str:
        return f"{self.split}-{self.index:05d}"

    @property
    def file_name(self) -> str:
        """The file's name in the dataset; without a total, so that appending renames nothing."""
        return f"spectrabeam-{self}.tfrecord"

    @staticmethod
    def parse(file_name: str) -> ShardName | None:
        """The inverse of `file_name`, or None for any other file."""
        match = _SHARD.fullmatch(file_name)
        return ShardName(match[1], int(match[2])) if match else None


@dataclasses.dataclass(frozen=True)
class Layout:
    """Paths below a dataset folder."""

    root: str

    def _path(self, *parts: str) -> str:
        return os.path.join(self.root, *parts)

    @property
    def metadata(self) -> str:
        """Written last: its presence is the commit."""
        return self._path(METADATA)

    @property
    def ledger(self) -> str:
        """Every matched recording and what became of it."""
        return self._path("recordings.parquet")

    @property
    def rejects(self) -> str:
        """One JSON line a reject."""
        return self._path("rejects.jsonl")

    @property
    def runs(self) -> str:
        """One JSON line an attempt."""
        return self._path("runs.jsonl")

    @property
    def frontend(self) -> str:
        """The SavedModel."""
        return self._path("frontend")

    @property
    def work(self) -> str:
        """What makes resume possible."""
        return self._path(".spectrabeam")

    @property
    def plan(self) -> str:
        """Folder of the plan: one part a shard, the recordings, and a summary."""
        return os.path.join(self.work, "plan")

    @property
    def plan_summary(self) -> str:
        """Settings and shard list of the plan; written last in its folder."""
        return os.path.join(self.plan, "plan.json")

    @property
    def plan_recordings(self) -> str:
        """The ledger before anything was read."""
        return os.path.join(self.plan, "recordings.parquet")

    @property
    def plan_normalization(self) -> str:
        """The statistics by which features are normalised, where they are."""
        return os.path.join(self.plan, "normalization.npz")

    def plan_part(self, number: int) -> str:
        """The block references of the shard with that number."""
        return os.path.join(self.plan, f"{number:06d}.parquet")

    @property
    def sidecars(self) -> str:
        """Folder of the sidecars."""
        return os.path.join(self.work, "shards")

    def sidecar(self, shard: ShardName) -> str:
        """What a finished shard holds, and from which plan part and settings it was made."""
        return os.path.join(self.sidecars, f"{shard}.json")

    def shard_statistics(self, shard: ShardName) -> str:
        """Those of a finished shard's features."""
        return os.path.join(self.sidecars, f"{shard}.npz")

    @property
    def croissant(self) -> str:
        """What the dataset is, for catalogues."""
        return self._path("croissant.json")

    @property
    def statistics(self) -> str:
        """Of each feature, over the training split."""
        return self._path("statistics.npz")

    @property
    def temporary(self) -> str:
        """Files that are not complete yet; on the dataset's file system, so that renames are atomic."""
        return os.path.join(self.work, "tmp")

    @property
    def lock(self) -> str:
        """Held by the one writer."""
        return os.path.join(self.work, "lock")

    @property
    def outcome(self) -> str:
        """Why a finished run was not committed."""
        return os.path.join(self.work, "outcome.json")

    def shard(self, shard: ShardName) -> str:
        """The TFRecord file."""
        return self._path(shard.file_name)


@dataclasses.dataclass(frozen=True)
class Dataset:
    """A committed dataset, as readers see it.

    Attributes:
      layout: its paths.
      metadata: the whole of spectrabeam.json.
    """

    layout: Layout
    metadata: Mapping[str, Any]

    @property
    def compression(self) -> str:
        """none, gzip or zlib."""
        return self.metadata["compression"]

    @property
    def tensorflow_compression(self) -> str:
        """As `tf.data.TFRecordDataset` takes it."""
        return tensorflow_compression(self.compression)

    @property
    def features(self) -> dict[str, FeatureSpec]:
        """Every key of an example."""
        return {name: FeatureSpec.from_json(value) for name, value in self.metadata["features"].items()}

    @property
    def splits(self) -> dict[str, list[dict[str, Any]]]:
        """Split to its shards, each with file, examples, bytes and crc32c."""
        return {name: split["shards"] for name, split in self.metadata["splits"].items()}

    def files(self, split: str | None = None) -> list[str]:
        """Paths of the shards of one split, or of all, in the dataset's order."""
        if split is not None and split not in self.splits:
            raise DatasetError(f"{self.layout.root} has no split {split!r}, only {', '.join(self.splits)}")
        chosen = self.splits if split is None else {split: self.splits[split]}
        return [
            os.path.join(self.layout.root, shard["file"]) for shards in chosen.values() for shard in shards
        ]


def tensorflow_compression(name: str) -> str:
    """none, gzip or zlib as TensorFlow calls them."""
    return "" if name == "none" else name.upper()


def load_dataset(folder: str) -> Dataset:
    """Reads a dataset's metadata.

    Raises:
      DatasetError: the folder holds no committed dataset, or one of a later format.
    """
    layout = Layout(os.fspath(folder))
    try:
        metadata = read_json(layout.metadata)
    except FileNotFoundError:
        if not os.path.isdir(folder):
            cure = "there is no such folder"
        elif os.path.exists(layout.outcome):
            cure = f"its extraction ended without one: {read_json(layout.outcome).get('message')}"
        elif os.path.isdir(layout.work):
            cure = "its extraction has not finished: start the same command again"
        else:
            cure = f"it has no {METADATA}"
        raise DatasetError(f"{folder} is not a dataset: {cure}") from None
    except NotADirectoryError:
        raise DatasetError(f"{folder} is not a dataset but a file") from None
    except IsADirectoryError:
        raise DatasetError(f"{layout.metadata} is a folder: this is not a dataset") from None
    if not isinstance(metadata, dict) or "format_version" not in metadata:
        raise DatasetError(f"{layout.metadata} was not written by spectrabeam: this is not a dataset")
    version = metadata["format_version"]
    if version != FORMAT_VERSION or version is True:
        raise DatasetError(
            f"{layout.metadata} has format_version={version!r}, this program reads {FORMAT_VERSION}: "
            "install the version of spectrabeam that wrote it"
        )
    missing = [key for key, kind in _REQUIRED.items() if not isinstance(metadata.get(key), kind)]
    if missing or metadata["compression"] not in ("none", "gzip", "zlib"):
        raise DatasetError(
            f"{layout.metadata} is damaged ({', '.join(missing) or 'compression'}): extract again with --overwrite"
        )
    return Dataset(layout, metadata)


def read_json(path: str) -> Any:
    """The value in a JSON file.

    Raises:
      DatasetError: it is not JSON.
    """
    with open(path, "rb") as file:
        content = file.read()
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{path} is damaged: {error}") from error


def write_json(path: str, value: Any, folder: str | None = None) -> None:
    """Replaces a JSON file, see `replace_file` and `json_bytes`."""
    replace_file(path, json_bytes(value), folder)


def json_bytes(value: Any) -> bytes:
    """A value as JSON; the same value gives the same bytes."""
    options: dict[str, Any] = {"indent": 1, "sort_keys": True}
    try:
        content = json.dumps(value, ensure_ascii=False, **options).encode()
    except UnicodeEncodeError:  # paths that are not UTF-8: JSON's own escapes keep them
        content = json.dumps(value, **options).encode()
    return content + b"\n"


def replace_file(path: str, content: bytes, folder: str | None = None) -> None:
    """Replaces a file atomically and durably: a reader sees the old or the new one, never a part.

    Args:
      path: the file.
      content: all of it.
      folder: on the same file system, for the new file until it is complete; the file's own by default.
    """
    name = f"{os.path.basename(path)}.{uuid.uuid4().hex}.tmp"  # used by no other process on any machine
    temporary = os.path.join(folder or os.path.dirname(path), name)
    with open(temporary, "xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, path)
    sync_folder(os.path.dirname(path))


def sync_folder(folder: str) -> None:
    """Makes the names in a folder durable."""
    handle = os.open(folder or ".", os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

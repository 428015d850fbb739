"""Zarr stores, folders of version 2 and 3: each array of numbers is a recording, read by range."""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar

import numpy as np

from ...elements import Description
from ...rejects import Reason, RejectError
from ..array_shape import read_shape
from ..attributes import Value, merge_scopes, plain_value
from ..base import MissingExtraError, ReadSettings
from ..members import Member, count_bytes, describe_member, named, read_range, split_row
from ..samples import scaling
from ..whole import require_decodable
from .hdf5 import describe_selected
from .hdf5_members import missing_chunks
from .zarr_metadata import METADATA_NAMES, Node, count_chunks, find_arrays, parse_array, read_metadata

_KEPT_ARRAYS = 64
_MOST_SCALAR_CHUNK = 1024  # elements


class ZarrReader:
    """Folders x.zarr; members are named by their path within, such as run1/accel."""

    name: ClassVar[str] = "zarr"
    suffixes: ClassVar[tuple[str, ...]] = (".zarr",)
    needs_header: ClassVar[bool] = True
    takes_folder: ClassVar[bool] = True

    def __init__(self, settings: ReadSettings):
        try:
            import zarr  # noqa: F401
        except ImportError as error:
            raise MissingExtraError("Zarr", "zarr", "zarr") from error
        self._settings = settings
        self._arrays: OrderedDict[tuple, Any] = OrderedDict()
        self._lock = threading.Lock()

    @staticmethod
    def matches(head: bytes) -> bool:
        """Never: a folder has no content of its own."""
        return False

    def describe(self, file: BinaryIO | None, size: int) -> list[Description | RejectError]:
        """From the store's metadata, and the number of its chunks; coordinates are left out unless asked for."""
        assert file is not None
        root = _root(file)
        nodes, broken = find_arrays(root)
        entries: dict[str, Member | RejectError] = {**broken}
        hidden: dict[str, Member | RejectError] = {}
        scalars = self._scalars(root, nodes)
        for node in nodes:
            place = hidden if node.is_coordinate else entries
            if node.path not in scalars:
                place[node.path] = self._to_member(root, node, scalars)
        if "" in entries:  # the folder is the array
            entry = entries[""]
            if isinstance(entry, RejectError):
                raise entry
            return describe_member(self.name, entry, self._settings)
        return describe_selected(self.name, dict(sorted(entries.items())), self._settings, hidden)

    def _scalars(self, root: str, nodes: list[Node]) -> dict[str, Value]:
        """The numbers of arrays of one element, by path."""
        scalars: dict[str, Value] = {}
        for node in nodes:
            with contextlib.suppress(RejectError):
                layout = parse_array(node.metadata)
                if (
                    node.path
                    and math.prod(layout.shape) == 1
                    and math.prod(layout.chunks) <= _MOST_SCALAR_CHUNK
                ):
                    value = plain_value(self._open(os.path.join(root, node.path))[...])
                    if value is not None:
                        scalars[node.path] = value
        return scalars

    def _to_member(self, root: str, node: Node, scalars: dict[str, Value]) -> Member | RejectError:
        name = node.path or None
        try:
            layout = parse_array(node.metadata)
            require_decodable(count_bytes(layout.chunks, layout.dtype), self._settings.decode_limit)
            promised = math.prod(
                -(-count // chunk) for count, chunk in zip(layout.shape, layout.chunks, strict=True)
            )
            # writers leave out chunks that hold the fill value alone, so that strict has no say here
            warnings = missing_chunks(count_chunks(root, node.path), promised, strict=False)
        except RejectError as error:
            return named(error, name)
        return Member(
            name=name,
            shape=layout.shape,
            dtype=layout.dtype,
            locator=node.path,
            values=merge_scopes([*node.scopes[:1], *_beside(node.path, scalars), *node.scopes[1:]]),
            warnings=warnings,
        )

    def read(self, file: BinaryIO, locator: str, channel: int, start: int, out: np.ndarray) -> None:
        """Decodes the chunks that the range touches."""
        path, row = split_row(locator, self._settings)
        array = self._open(os.path.join(_root(file), path))
        shape = read_shape(array.shape, self._settings.array_axes)
        read_range(array, shape, row or channel, start, out, scaling(self._settings.scale, array.dtype))

    def _open(self, path: str) -> _Slices:
        key = path, *(_modified(os.path.join(path, name)) for name in METADATA_NAMES)
        with self._lock:
            if key in self._arrays:
                self._arrays.move_to_end(key)
                return self._arrays[key]
        parse_array(_metadata_of(path))  # nothing but what was checked is handed to the library
        array = _Slices(path)
        with self._lock:
            self._arrays[key] = array
            while len(self._arrays) > _KEPT_ARRAYS:
                self._arrays.popitem(last=False)
        return array


class _Slices:
    """An array whose damage is a reject."""

    def __init__(self, path: str):
        import zarr

        self._path = path
        with _reported(path):
            self._array: Any = zarr.open_array(path, mode="r")
        self.shape: tuple[int, ...] = self._array.shape
        self.dtype: np.dtype = self._array.dtype

    def __getitem__(self, index: Any) -> np.ndarray:
        with _reported(self._path):
            return np.asarray(self._array[index])


@contextlib.contextmanager
def _reported(path: str) -> Iterator[None]:
    """What zarr and its codecs say of damage, as a reject; errors of files pass: they bear a number."""
    try:
        yield
    except Exception as error:  # each codec raises what it likes, and zarr hands it on
        if isinstance(error, OSError) and error.errno is not None:
            raise
        what = " ".join(str(error).split())[:200] or type(error).__name__
        raise RejectError(Reason.CORRUPT, f"zarr cannot read {os.path.basename(path)}: {what}") from error


def _beside(path: str, scalars: dict[str, Value]) -> list[dict[str, Value]]:
    """The scalars of the groups around an array, the nearest group first."""
    scopes = []
    while path:
        path = path.rpartition("/")[0]
        scopes.append(
            {name.rpartition("/")[2]: scalars[name] for name in scalars if name.rpartition("/")[0] == path}
        )
    return scopes


def _root(file: BinaryIO) -> str:
    name = getattr(file, "name", None)
    if isinstance(name, (str, bytes)) and os.path.isdir(name):
        return os.fsdecode(name)
    raise RejectError(Reason.BAD_FORMAT, "a Zarr store is a folder, and this is none: unpack it first")


def _metadata_of(path: str) -> dict[str, Any]:
    metadata = read_metadata(path)
    if metadata is None:
        raise RejectError(Reason.VANISHED, f"{os.path.basename(path)} is no longer in the store")
    return metadata


def _modified(path: str) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return 0

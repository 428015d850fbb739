"""The metadata of Zarr stores, versions 2 and 3, read before anything is handed to the library.

Layouts: https://zarr-specs.readthedocs.io (v2 and v3 core).
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ...rejects import Reason, RejectError
from ..attributes import Value, plain_value
from ..members import NoSamplesError, named, require_numbers

METADATA_NAMES = ("zarr.json", ".zarray", ".zgroup")
_ATTRIBUTES_NAME = ".zattrs"
_MOST_BYTES = 16 << 20
_NUMBERS_3 = re.compile(r"u?int(8|16|32|64)|float(16|32|64)|complex(64|128)")
# Codecs that only compute. Others may do more: numcodecs' pickle runs code that a chunk brings along.
_CODECS = frozenset({
    "adler32", "astype", "bitround", "blosc", "bytes", "bz2", "crc32", "crc32c", "delta", "endian", "fixedscaleoffset",
    "fletcher32", "gzip", "jenkins_lookup3", "lz4", "lzma", "packbits", "pcodec", "quantize", "shuffle",
    "sharding_indexed", "transpose", "zfpy", "zlib", "zstd",
})  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Node:
    """An array in a store.

    Attributes:
      path: within the store, "" where the store is the array.
      metadata: as `read_metadata` gives it.
      scopes: the small values of the array and the groups around it, nearest first.
      is_coordinate: whether it only says where the samples of other arrays are.
    """

    path: str
    metadata: dict[str, Any]
    scopes: list[Mapping[str, Value]]
    is_coordinate: bool


@dataclasses.dataclass(frozen=True)
class Layout:
    """Shape and type of an array, and the shape of what it is stored in."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype


def find_arrays(root: str) -> tuple[list[Node], dict[str, RejectError]]:
    """All arrays of a store sorted by path, and what has damaged metadata; links to folders are not followed.

    Raises:
      RejectError: it is no store.
    """
    first = read_metadata(root)
    if first is None:
        raise RejectError(
            Reason.BAD_FORMAT, "the folder is no Zarr store: it has no zarr.json, .zgroup or .zarray"
        )
    nodes: list[Node] = []
    broken: dict[str, RejectError] = {}
    waiting: list[tuple[str, dict[str, Any], list[Mapping[str, Value]]]] = [("", first, [])]
    while waiting:
        path, metadata, outer = waiting.pop()
        scopes = [_attribute_values(metadata), *outer]
        if metadata["node_type"] == "array":
            nodes.append(Node(path, metadata, scopes, _is_coordinate(path, metadata)))
            continue
        for name in _folders(os.path.join(root, path)):
            inner = f"{path}/{name}" if path else name
            try:
                found = read_metadata(os.path.join(root, inner))
            except RejectError as error:
                broken[inner] = named(error, inner)
                continue
            if found is not None:
                waiting.append((inner, found, scopes))
    return sorted(nodes, key=lambda node: node.path), broken


def _folders(path: str) -> list[str]:
    with os.scandir(path) as children:
        return [
            child.name for child in children if child.is_dir(follow_symlinks=False) and _is_utf8(child.name)
        ]


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def read_metadata(path: str) -> dict[str, Any] | None:
    """The metadata of the array or group in a folder, with its `attributes`; None where it is neither.

    Raises:
      RejectError: what stands there is no metadata.
    """
    for name in METADATA_NAMES:
        metadata = _read_json(os.path.join(path, name))
        if metadata is None:
            continue
        if name != "zarr.json":
            metadata["node_type"] = "array" if name == ".zarray" else "group"
            metadata["attributes"] = _read_json(os.path.join(path, _ATTRIBUTES_NAME)) or {}
        elif metadata.get("node_type") not in ("array", "group"):
            raise RejectError(
                Reason.CORRUPT, f"zarr.json has node_type={str(metadata.get('node_type'))[:80]}"
            )
        if not isinstance(metadata.get("attributes"), dict):
            metadata["attributes"] = {}
        return metadata
    return None


def _read_json(path: str) -> dict[str, Any] | None:
    try:
        with open(path, "rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    name = os.path.basename(path)
    if len(content) > _MOST_BYTES:
        raise RejectError(Reason.TOO_LARGE, f"{name} has more than {_MOST_BYTES >> 20} MiB")
    try:
        parsed = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise RejectError(Reason.CORRUPT, f"{name} is no JSON: {str(error)[:200]}") from error
    if not isinstance(parsed, dict):
        raise RejectError(Reason.CORRUPT, f"{name} is no JSON object")
    return parsed


def _attribute_values(metadata: Mapping[str, Any]) -> dict[str, Value]:
    values = {}
    for name, value in metadata["attributes"].items():
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        value = plain_value(value)
        if value is not None:
            values[name] = value
    return values


def _is_coordinate(path: str, metadata: Mapping[str, Any]) -> bool:
    """Whether the array is named as its only dimension, as xarray names coordinates."""
    dimensions = metadata.get("dimension_names") or metadata["attributes"].get("_ARRAY_DIMENSIONS")
    return bool(path) and dimensions == [path.rpartition("/")[2]]


def parse_array(metadata: Mapping[str, Any]) -> Layout:
    """The layout of an array.

    Raises:
      RejectError: it holds no numbers, or takes a codec that is not known to be safe.
    """
    try:
        if metadata.get("zarr_format") == 3:
            dtype, chunks, codecs = _parse_3(metadata)
        else:
            dtype, chunks, codecs = _parse_2(metadata)
        shape = _sizes(metadata["shape"], 0)
        layout = Layout(shape, _sizes(chunks, 1), dtype)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        if isinstance(error, RejectError):
            raise
        raise RejectError(Reason.BAD_FORMAT, f"its metadata make no sense: {error!r}"[:300]) from error
    if len(layout.shape) != len(layout.chunks):
        raise RejectError(
            Reason.BAD_FORMAT, f"shape {layout.shape} and chunks {layout.chunks} differ in axes"
        )
    for codec in codecs:
        if codec not in _CODECS:
            raise RejectError(
                Reason.BAD_FORMAT,
                f"its codec {codec!r} is not among those that are known to be safe: {sorted(_CODECS)}",
            )
    return layout


def _sizes(sizes: Any, least: int) -> tuple[int, ...]:
    if any(isinstance(size, bool) or not isinstance(size, int) or size < least for size in sizes):
        raise ValueError(f"sizes {sizes}")
    return tuple(sizes)


def _parse_2(metadata: Mapping[str, Any]) -> tuple[np.dtype, Any, list[str]]:
    name = metadata["dtype"]
    if not isinstance(name, str):
        raise RejectError(
            Reason.BAD_FORMAT, "the array holds records: save each field as an array of its own"
        )
    dtype = np.dtype(name)
    require_numbers(dtype)
    codecs = [metadata.get("compressor"), *(metadata.get("filters") or [])]
    return dtype, metadata["chunks"], [codec["id"] for codec in codecs if codec is not None]


def _parse_3(metadata: Mapping[str, Any]) -> tuple[np.dtype, Any, list[str]]:
    name = metadata["data_type"]
    if not isinstance(name, str) or not _NUMBERS_3.fullmatch(name):
        raise NoSamplesError(
            Reason.BAD_FORMAT, f"the array holds {str(name)[:80]}, no numbers of 1 to 8 bytes"
        )
    grid = metadata["chunk_grid"]
    if grid["name"] != "regular" or metadata.get("storage_transformers"):
        raise RejectError(
            Reason.BAD_FORMAT, f"chunks that are not regular but {str(grid['name'])[:80]} are not read"
        )
    return np.dtype(name), grid["configuration"]["chunk_shape"], list(_codec_names(metadata["codecs"], 0))


def _codec_names(codecs: Any, depth: int) -> Iterator[str]:
    """The names of codecs and of those within them."""
    if depth > 4:
        raise ValueError("codecs within codecs within codecs")
    for codec in codecs:
        if isinstance(codec, str):
            yield codec.removeprefix("numcodecs.")
            continue
        yield codec["name"].removeprefix("numcodecs.")
        settings = codec.get("configuration") or {}
        for key in ("codecs", "index_codecs"):
            yield from _codec_names(settings.get(key, ()), depth + 1)


def count_chunks(root: str, path: str) -> int:
    """Files with samples of an array."""
    return sum(
        sum(name[0] != "." and name != "zarr.json" for name in names)
        for _, _, names in os.walk(os.path.join(root, path))
    )

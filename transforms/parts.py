"""A shard's part of the plan: its block references, as a small file and as a digest."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .dataset import ShardName
from .elements import Block, Origin, Source

SOURCE = pa.struct(
    [
        ("uri", pa.binary()),
        ("name", pa.binary()),
        ("format", pa.string()),
        ("size", pa.int64()),
        ("locator", pa.string()),
        ("overrides", pa.string()),
        ("frames", pa.int64()),
        ("sample_rate", pa.float64()),
        ("factors", pa.list_(pa.float64())),
    ]
)
ORIGIN = pa.struct([("recording", pa.binary()), ("channel", pa.int64()), ("start", pa.int64())])
_AT_ONCE = 512
_NOT_DIGESTED = ("uri", "locator")  # where it lies, not what it is


def schema(context: pa.StructType, vectors: pa.StructType) -> pa.Schema:
    """The columns of a part: one row a block, with the fields of `elements.Block`.

    Args:
      context: types of the small values by key.
      vectors: lists of float32 by key.
    """
    return pa.schema(
        [
            ("recording", pa.binary()),
            ("source", SOURCE),
            ("paired", SOURCE),
            ("sample_rate", pa.float64()),
            ("channels", pa.list_(pa.int32())),
            ("start", pa.int64()),
            ("end", pa.int64()),
            ("count", pa.int64()),
            ("label", pa.int64()),
            ("context", context),
            ("vectors", vectors),
            ("start_time_ns", pa.int64()),
            ("origin", ORIGIN),
        ]
    )


@dataclasses.dataclass(frozen=True)
class Part:
    """What one shard is to hold.

    Attributes:
      shard: its name.
      digest: of everything in the part that decides the shard's content.
      table: its blocks, one row each.
    """

    shard: ShardName
    digest: str
    table: pa.Table

    def blocks(self) -> Iterator[Block]:
        """In the order of the shard's records; few are objects at once."""
        for some in self.table.to_batches(_AT_ONCE):
            yield from map(_block, some.to_pylist())


def digest(shard: ShardName, table: pa.Table) -> str:
    """Names a part's content: the shard's name and every block but for where the files lie."""
    total = hashlib.blake2b(str(shard).encode(), digest_size=16)
    for name in table.column_names:
        _update(total, name, table.column(name).combine_chunks())
    return total.hexdigest()


def _update(total: Any, name: str, array: Any) -> None:
    """Adds an array to a digest: which values are null, then the values; lists and structs part by part."""
    total.update(name.encode() + b"\0")
    total.update(np.packbits(array.is_valid().to_numpy(zero_copy_only=False)).tobytes())
    kind = array.type
    if pa.types.is_struct(kind):
        for field, values in zip(kind, array.flatten(), strict=True):
            if field.name not in _NOT_DIGESTED:
                _update(total, field.name, values)
    elif pa.types.is_list(kind):
        total.update(
            array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False).astype("<i8").tobytes()
        )
        _update(total, "", array.flatten())
    elif pa.types.is_binary(kind) or pa.types.is_string(kind):
        values = array.cast(pa.binary()).fill_null(b"").to_pylist()
        total.update(np.array([len(value) for value in values], "<i8").tobytes())
        total.update(b"".join(values))
    else:
        dtype = "<f8" if pa.types.is_floating(kind) else "<i8"
        total.update(array.fill_null(0).to_numpy(zero_copy_only=False).astype(dtype).tobytes())


def write_part(path: str, shard: ShardName, table: pa.Table) -> str:
    """Writes a part and returns its digest."""
    value = digest(shard, table)
    metadata = {"split": shard.split, "index": shard.index, "digest": value}
    table = table.replace_schema_metadata({"spectrabeam": json.dumps(metadata)})
    empty = [
        field.name for field in table.schema if pa.types.is_struct(field.type) and not field.type.num_fields
    ]
    pq.write_table(table.drop_columns(empty), path, compression="zstd", compression_level=1)
    return value


def read_part(path: str) -> Part:
    """The inverse of `write_part`."""
    table = pq.read_table(path)
    metadata = json.loads(table.schema.metadata[b"spectrabeam"])
    return Part(ShardName(metadata["split"], metadata["index"]), metadata["digest"], table)


def _block(row: dict[str, Any]) -> Block:
    return Block(
        **row
        | {
            "source": _source(row["source"]),
            "paired": None if row["paired"] is None else _source(row["paired"]),
            "origin": None if row["origin"] is None else Origin(**row["origin"]),
            "channels": tuple(row["channels"]),
            "context": row.get("context") or {},
            "vectors": {key: tuple(values) for key, values in (row.get("vectors") or {}).items()},
        }
    )


def _source(value: dict[str, Any]) -> Source:
    return Source(**{**value, "factors": tuple(value["factors"] or ())})

"""A shard's part of the plan: its block references, as a small file and as a digest."""

from __future__ import annotations

import dataclasses
import hashlib
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .dataset import ShardName
from .elements import Block

SCHEMA = pa.schema(
    [
        ("recording", pa.binary()),
        ("uri", pa.binary()),
        ("format", pa.string()),
        ("size", pa.int64()),
        ("channels", pa.int32()),
        ("frames", pa.int64()),
        ("sample_rate", pa.float64()),
        ("channel", pa.int32()),
        ("start", pa.int64()),
        ("count", pa.int64()),
        ("label", pa.int64()),
    ]
)
_DIGESTED = ("recording", "size", "channels", "frames", "sample_rate", "channel", "start", "count", "label")


@dataclasses.dataclass(frozen=True)
class Part:
    """What one shard is to hold.

    Attributes:
      shard: its name.
      digest: of everything in the part that decides the shard's content.
      blocks: in the order of the shard's records.
    """

    shard: ShardName
    digest: str
    blocks: list[Block]


def digest(shard: ShardName, table: pa.Table) -> str:
    """Names a part's content: the shard's name and every block but for where the files lie."""
    total = hashlib.blake2b(str(shard).encode(), digest_size=16)
    for name in _DIGESTED:
        column = table.column(name)
        if column.type == pa.binary():
            values = column.to_pylist()
            total.update(np.array([len(value) for value in values], "<i8").tobytes())
            total.update(b"".join(values))
        elif column.type == pa.float64():
            total.update(column.to_numpy().astype("<f8").tobytes())
        else:
            total.update(column.fill_null(-1).to_numpy().astype("<i8").tobytes())
    return total.hexdigest()


def write_part(path: str, shard: ShardName, table: pa.Table) -> str:
    """Writes a part and returns its digest."""
    value = digest(shard, table)
    metadata = {"split": shard.split, "index": shard.index, "digest": value}
    table = table.replace_schema_metadata({"spectrabeam": json.dumps(metadata)})
    pq.write_table(table, path, compression="zstd", compression_level=1)
    return value


def read_part(path: str) -> Part:
    """The inverse of `write_part`."""
    table = pq.read_table(path)
    metadata = json.loads(table.schema.metadata[b"spectrabeam"])
    blocks = [Block(**row) for row in table.to_pylist()]
    return Part(ShardName(metadata["split"], metadata["index"]), metadata["digest"], blocks)

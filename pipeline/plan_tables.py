"""The plan as Arrow tables: what recordings share, and what each block has of its own."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..transforms import parts
from .context import Context
from .cut import NONE, Cuts
from .packed import by_chunks
from .recording import Recording
from .shards import PlannedShard

_OF_BLOCKS = ("channels", "start", "count", "label")


def part_table(sources: pa.Table, blocks: pa.Table) -> pa.Table:
    """Blocks with what their recordings share: the columns of `parts.schema`.

    Args:
      sources: see `source_table`.
      blocks: some rows of `block_table`.
    """
    shared = sources.take(blocks.column("owner"))
    columns = {}
    for field in parts.schema(pa.struct([]), pa.struct([])):
        if field.name in _OF_BLOCKS:
            columns[field.name] = blocks.column(field.name)
        elif field.name in shared.column_names:
            columns[field.name] = shared.column(field.name)
        else:
            columns[field.name] = pa.nulls(len(shared), field.type)
    return pa.table(columns)


def source_table(
    recordings: Sequence[Recording], cuts: Cuts, context: Context, sample_rate: float
) -> pa.Table:
    """What every block of a recording shares, one row a recording; columns that are all null are not there."""
    small, vectors = context.arrow_types()

    def rows(some: Sequence[Recording], first: int) -> pa.Table:
        places = slice(first, first + len(some))
        origins = [recording.origin and dataclasses.asdict(recording.origin) for recording in some]
        paired = [recording.paired for recording in some]
        columns = {
            "recording": pa.array([recording.id for recording in some], pa.binary()),
            "source": _source_array(some),
            "paired": _source_array(paired) if any(paired) else pa.nulls(len(some), parts.SOURCE),
            "sample_rate": pa.repeat(pa.scalar(sample_rate), len(some)),
            "end": pa.array(cuts.ends[places]),
            "context": _struct(small, context.values, places),
            "vectors": _struct(vectors, context.vectors, places),
            "start_time_ns": pa.array([recording.start_time_ns for recording in some], pa.int64()),
            "origin": pa.array(origins, parts.ORIGIN),
        }
        return pa.table(columns)

    table = by_chunks(rows, recordings)
    empty = [name for name in table.column_names if table.column(name).null_count == len(table)]
    return table.drop_columns(empty).combine_chunks()  # since parts take rows here and there


def _source_array(recordings: Sequence[Recording | None]) -> pa.Array:
    """What workers need to open each recording; null where there is none."""
    sources = [None if recording is None else recording.source() for recording in recordings]
    values = {
        field.name: [None if source is None else getattr(source, field.name) for source in sources]
        for field in parts.SOURCE
    }
    missing = np.array([source is None for source in sources], bool)
    return _struct(parts.SOURCE, values, slice(len(sources)), missing if missing.any() else None)


def _struct(
    kind: pa.StructType, values: Mapping[str, Sequence[Any]], rows: slice, missing: np.ndarray | None = None
) -> pa.Array:
    """Columns as one of structs, without a Python object a row."""
    if not kind.num_fields:
        return pa.array([{}] * (rows.stop - (rows.start or 0)), kind)
    arrays = [pa.array(values[field.name][rows], field.type) for field in kind]
    mask = None if missing is None else pa.array(missing)
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)


def block_table(cuts: Cuts) -> pa.Table:
    """Owner (row of the sources), channels, first sample, number of segments and class of each block."""
    return pa.table(
        {
            "owner": pa.array(cuts.owner),
            "channels": pa.array(cuts.channel_lists, pa.list_(pa.int32())).take(pa.array(cuts.channels)),
            "start": pa.array(cuts.starts),
            "count": pa.array(cuts.counts),
            "label": pa.array(cuts.label, mask=cuts.label == NONE),
        }
    )


def shard_names(owner: np.ndarray, shards: list[PlannedShard], recordings: int) -> pa.Array:
    """Names of each recording's shards, list<string> [recordings]."""
    numbers = np.repeat(np.arange(len(shards)), [shard.blocks for shard in shards]).astype(np.int64)
    pairs = np.unique(np.stack([owner, numbers], axis=1), axis=0)
    ends = np.searchsorted(pairs[:, 0], np.arange(recordings + 1)).astype(np.int32)
    names = pa.array([str(shard.name) for shard in shards], pa.string())
    return pa.ListArray.from_arrays(pa.array(ends), names.take(pa.array(pairs[:, 1])))

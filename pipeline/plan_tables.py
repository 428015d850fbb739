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
    names = parts.schema(pa.struct([]), pa.struct([])).names
    columns = [blocks.column(name) if name in _OF_BLOCKS else shared.column(name) for name in names]
    return pa.table(columns, names=names)


def source_table(
    recordings: Sequence[Recording], cuts: Cuts, context: Context, sample_rate: float
) -> pa.Table:
    """What every block of a recording shares, one row a recording."""
    small, vectors = context.arrow_types()
    count = len(recordings)
    paired = [recording.paired for recording in recordings]
    origins = [recording.origin and dataclasses.asdict(recording.origin) for recording in recordings]
    columns = {
        "recording": pa.array([recording.id for recording in recordings], pa.binary()),
        "source": _source_array(recordings),
        "paired": _source_array(paired) if any(paired) else pa.nulls(count, parts.SOURCE),
        "sample_rate": pa.repeat(pa.scalar(sample_rate), count),
        "end": pa.array(cuts.ends),
        "context": _struct(small, context.values, count),
        "vectors": _struct(vectors, context.vectors, count),
        "start_time_ns": pa.array([recording.start_time_ns for recording in recordings], pa.int64()),
        "origin": pa.array(origins, parts.ORIGIN),
    }
    return pa.table(columns)


def _source_array(recordings: Sequence[Recording | None]) -> pa.Array:
    """What workers need to open each recording; null where there is none."""
    sources = [None if recording is None else recording.source() for recording in recordings]
    values = {
        field.name: [None if source is None else getattr(source, field.name) for source in sources]
        for field in parts.SOURCE
    }
    missing = np.array([source is None for source in sources], bool)
    return _struct(parts.SOURCE, values, len(sources), missing if missing.any() else None)


def _struct(
    kind: pa.StructType, values: Mapping[str, Sequence[Any]], count: int, missing: np.ndarray | None = None
) -> pa.Array:
    """Columns as one of structs, without a Python object a row."""
    if not kind.num_fields:
        return pa.array([{}] * count, kind)
    arrays = [pa.array(values[field.name], field.type) for field in kind]
    mask = None if missing is None else pa.array(missing)
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)


def block_table(cuts: Cuts, lists: Sequence[list[tuple[int, ...]]]) -> pa.Table:
    """Owner (row of the sources), channels, first sample, number of segments and class of each block."""
    # one list of channels for many recordings, so blocks refer to few
    kinds = list(dict.fromkeys(channels for each in lists for channels in each))
    place = {channels: index for index, channels in enumerate(kinds)}
    first = np.cumsum([0, *(len(each) for each in lists)])[:-1]
    flat = np.array([place[channels] for each in lists for channels in each], np.int64)
    own = flat[first[cuts.owner] + cuts.series] if len(cuts.owner) else np.empty(0, np.int64)
    return pa.table(
        {
            "owner": pa.array(cuts.owner),
            "channels": pa.array(kinds, pa.list_(pa.int32())).take(pa.array(own)),
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

"""The ledger: every matched recording and what became of it."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..transforms.rejects import Reject, text
from .cut import Cuts
from .match import Found
from .packed import by_chunks
from .recording import Recording
from .splits import Assignment, show_group

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("uri", pa.string()),
        ("member", pa.string()),
        ("size", pa.int64()),
        ("modified", pa.timestamp("ns", "UTC")),
        ("format", pa.string()),
        ("dtype", pa.string()),
        ("sample_rate", pa.float64()),
        ("channels", pa.int32()),
        ("channel_names", pa.list_(pa.string())),
        ("unit", pa.string()),
        ("start_time", pa.timestamp("ns", "UTC")),
        ("frames_declared", pa.int64()),
        ("frames", pa.int64()),
        ("group", pa.string()),
        ("split", pa.string()),
        ("label", pa.string()),
        ("segments_planned", pa.int64()),
        ("segments_written", pa.int64()),
        ("segments_rejected", pa.int64()),
        ("shards", pa.list_(pa.string())),
        ("warnings", pa.list_(pa.string())),
    ]
)


def planned_ledger(
    rejects: Sequence[Reject],
    unread: Sequence[tuple[bytes, Found]],
    recordings: Sequence[Recording],
    dropped: Sequence[Recording],
    splits: Assignment,
    cuts: Cuts,
    shards: pa.Array,
) -> pa.Table:
    """The ledger before anything is read, sorted by id.

    Args:
      rejects: what was matched, and is no readable file.
      unread: id and file of recordings that headers do not let pass.
      recordings: those that are used.
      dropped: those that are not, for another reason.
      splits: of the used ones.
      cuts: of the used ones.
      shards: names of the shards of each used one, list<string> [recordings].
    """
    planned = np.bincount(cuts.owner, cuts.counts, len(recordings)).astype(np.int64)
    names = _split_names(len(recordings), splits, cuts)

    def usable(some: Sequence[Recording], first: int) -> pa.Table:
        places = slice(first, first + len(some))
        return _table(
            {
                **_columns(some),
                "group": [show_group(group) for group in splits.groups[places]],
                "split": names[places],
                "label": [_label(recording) for recording in some],
                "segments_planned": pa.array(planned[places]),
                "shards": shards[places],
            }
        )

    tables = [
        by_chunks(usable, recordings),
        by_chunks(lambda some, _: _table(_columns(some)), dropped),
        by_chunks(lambda some, _: _table(_file_columns(some)), unread),
        by_chunks(lambda some, _: _table({"id": [text(each.recording) for each in some]}), rejects),
    ]
    ledger = pa.concat_tables(tables)
    ids = ledger.column("id")
    is_sorted = pc.all(pc.less_equal(ids[:-1], ids[1:])).as_py()  # as it mostly is: sorting takes a copy
    return ledger if is_sorted is not False else ledger.sort_by("id")


def _split_names(count: int, splits: Assignment, cuts: Cuts) -> list[str | None]:
    """Each recording's split; several, comma-separated, where it is cut by time; None without a segment."""
    pairs = np.unique(np.stack([cuts.owner, cuts.split], axis=1), axis=0)
    names: list[str | None] = [None] * count
    for owner, split in pairs.tolist():
        before = names[owner]
        names[owner] = splits.names[split] if before is None else f"{before},{splits.names[split]}"
    return names


def _label(recording: Recording) -> str | None:
    if recording.intervals is not None:
        return ",".join(sorted({each.label for each in recording.intervals})) or None
    return recording.label


def _file_columns(found: Sequence[tuple[bytes, Found]]) -> dict[str, list]:
    return {
        "id": [text(name) for name, _ in found],
        "uri": [text(item.uri) for _, item in found],
        "size": [item.size for _, item in found],
        "modified": [item.modified_ns for _, item in found],
        "format": [item.format for _, item in found],
    }


def _columns(recordings: Sequence[Recording]) -> dict[str, list]:
    described = [recording.description for recording in recordings]
    return _file_columns([(recording.id, recording.found) for recording in recordings]) | {
        "member": [item.member for item in described],
        "format": [item.format for item in described],
        "dtype": [item.dtype for item in described],
        "sample_rate": [recording.sample_rate for recording in recordings],
        "channels": [item.channels for item in described],
        "channel_names": [list(item.channel_names) for item in described],
        "unit": [recording.unit for recording in recordings],
        "start_time": [recording.start_time_ns for recording in recordings],
        "frames_declared": [
            item.frames if item.frames_declared is None else item.frames_declared for item in described
        ],
        "frames": [item.frames for item in described],
        "warnings": [list(item.warnings) for item in described],
    }


def _table(columns: Mapping[str, Any]) -> pa.Table:
    """Rows of the ledger; numbers that are not given are 0, lists empty, the rest unknown."""
    rows = len(columns["id"])
    missing = {
        "segments_planned": 0,
        "segments_written": 0,
        "segments_rejected": 0,
        "channel_names": [],
        "shards": [],
        "warnings": [],
    }
    columns = {"group": columns["id"], **columns}
    arrays = [
        columns[field.name]
        if isinstance(columns.get(field.name), pa.Array)
        else pa.array(columns.get(field.name, [missing.get(field.name)] * rows), field.type)
        for field in SCHEMA
    ]
    return pa.table(arrays, schema=SCHEMA)


def completed(ledger: pa.Table, reject_lines: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Adds what was written and rejected of each recording."""
    lost: collections.Counter[str] = collections.Counter()
    for line in reject_lines:
        lost[line["recording"]] += line["segments"]
    names, segments = pa.array(list(lost), pa.string()), pa.array(list(lost.values()), pa.int64())
    places = pc.index_in(ledger.column("id"), names)  # null where nothing was lost
    rejected = pc.fill_null(segments.take(places), 0).to_numpy()
    written = ledger.column("segments_planned").to_numpy() - rejected
    for name, column in (("segments_written", written), ("segments_rejected", rejected)):
        ledger = ledger.set_column(ledger.schema.get_field_index(name), name, pa.array(column))
    return ledger

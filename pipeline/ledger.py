"""The ledger: every matched recording and what became of it."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..transforms.rejects import text
from .describe import Recording
from .match import Found, Matches

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("uri", pa.string()),
        ("size", pa.int64()),
        ("modified", pa.timestamp("ns", "UTC")),
        ("format", pa.string()),
        ("sample_rate", pa.float64()),
        ("channels", pa.int32()),
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
    matches: Matches,
    described: Sequence[Recording],
    recordings: Sequence[Recording],
    splits: Sequence[str],
    segments: np.ndarray,
    shards: pa.Array,
) -> pa.Table:
    """The ledger before anything is read, sorted by id.

    Args:
      matches: all that were matched.
      described: those whose header could be read.
      recordings: those that headers and labels let pass.
      splits: of each of them.
      segments: planned of each of them, int64 [recordings].
      shards: names of the shards of each of them, list<string> [recordings].
    """
    planned = segments.tolist()
    usable = _table(
        {
            **_columns(recordings),
            "split": [split if count else None for split, count in zip(splits, planned, strict=True)],
            "label": [recording.label for recording in recordings],
            "segments_planned": planned,
            "shards": shards,
        }
    )
    known = {recording.found.recording for recording in recordings}
    unwanted = [recording for recording in described if recording.found.recording not in known]
    known |= {recording.found.recording for recording in unwanted}
    unread = [item for item in matches.found if item.recording not in known]
    others = [_table(_columns(unwanted)), _table(_file_columns(unread))]
    no_files = _table({"id": [text(reject.recording) for reject in matches.rejects]})
    return pa.concat_tables([usable, *others, no_files]).sort_by("id").combine_chunks()


def _file_columns(found: Sequence[Found]) -> dict[str, list]:
    return {
        "id": [text(item.recording) for item in found],
        "uri": [text(item.uri) for item in found],
        "size": [item.size for item in found],
        "modified": [item.modified_ns for item in found],
        "format": [item.format for item in found],
    }


def _columns(recordings: Sequence[Recording]) -> dict[str, list]:
    described = [recording.description for recording in recordings]
    return _file_columns([recording.found for recording in recordings]) | {
        "format": [item.format for item in described],
        "sample_rate": [item.sample_rate for item in described],
        "channels": [item.channels for item in described],
        "frames_declared": [item.frames_declared for item in described],
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
    rejected = np.array([lost[name] for name in ledger.column("id").to_pylist()], np.int64)
    written = ledger.column("segments_planned").to_numpy() - rejected
    for name, column in (("segments_written", written), ("segments_rejected", rejected)):
        ledger = ledger.set_column(ledger.schema.get_field_index(name), name, pa.array(column))
    return ledger

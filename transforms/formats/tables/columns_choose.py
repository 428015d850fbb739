"""Which columns of a Parquet or Arrow file hold samples, times, and small values."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from ...rejects import Reason, RejectError
from ..attributes import MOST_ATTRIBUTES
from ..settings import ReadSettings
from .table_time import is_time_name

_INDEX = re.compile(r"__index_level_\d+__|Unnamed: 0|")  # row numbers that pandas adds


@dataclasses.dataclass(frozen=True)
class Columns:
    """Which columns are read.

    Attributes:
      lists: the one whose rows are recordings, or None.
      channels: plain ones that are the channels of one recording.
      time: with the times of those, or None.
      scalars: with small values of each row.
    """

    lists: str | None
    channels: tuple[str, ...] = ()
    time: str | None = None
    scalars: tuple[str, ...] = ()


def choose_columns(schema: Any, settings: ReadSettings) -> Columns:
    """Which columns are read, by their types and the settings.

    Raises:
      RejectError: none can be, several may be, or the one that is asked for is not there.
    """
    if len(set(schema.names)) < len(schema.names):
        raise RejectError(Reason.BAD_FORMAT, "two columns have one name: rename one of them")
    kinds = {field.name: _kind(field.type) for field in schema}
    listed = ", ".join(f"{field.name} ({field.type})" for field in list(schema)[:20])[:1000] or "(none)"
    scalars = [name for name, kind in kinds.items() if kind in ("number", "word", "time")]
    key = settings.waveform_key
    if key is not None:
        if key not in kinds:
            raise RejectError(Reason.NO_MEMBER, f"waveform_key={key}: there is no such column among {listed}")
        if kinds[key] not in ("list", "number"):
            raise _not_samples(key, schema.field(key).type)
        if kinds[key] == "number":
            return Columns(None, (key,), _find_time(kinds, settings, (key,)))
    else:
        lists = [name for name, kind in kinds.items() if kind == "list"]
        if len(lists) > 1 and "waveform" not in lists:
            raise RejectError(
                Reason.NO_MEMBER,
                f"several columns hold lists of numbers: set waveform_key to one of {', '.join(lists)}",
            )
        key = "waveform" if "waveform" in lists else lists[0] if lists else None
    if key is not None:
        return Columns(key, scalars=tuple(_first_of(scalars, settings)))
    if nested := [name for name, kind in kinds.items() if kind == "nested"]:
        raise _not_samples(nested[0], schema.field(nested[0]).type)
    for wanted in settings.csv_columns:
        if kinds.get(wanted) != "number":
            raise RejectError(
                Reason.NO_MEMBER, f"csv_columns={wanted}: no column of numbers has that name: {listed}"
            )
    numeric = [name for name, kind in kinds.items() if kind == "number" and not _INDEX.fullmatch(name)]
    time = _find_time(kinds, settings, ())
    channels = settings.csv_columns or tuple(name for name in numeric if name != time)
    if not channels:
        raise RejectError(
            Reason.BAD_FORMAT, f"no column of numbers or of lists of numbers; the columns are {listed}"
        )
    return Columns(None, tuple(channels), time)


def _first_of(scalars: list[str], settings: ReadSettings) -> list[str]:
    """As many as a description carries, those with rate and time first."""
    keys = (settings.rate_key or "sample_rate", settings.time_key)
    return sorted(scalars, key=lambda name: name not in keys)[:MOST_ATTRIBUTES]


def _find_time(kinds: dict[str, str], settings: ReadSettings, channels: tuple[str, ...]) -> str | None:
    wanted = settings.csv_time
    if wanted is not None and wanted.lower() != "none":
        if kinds.get(wanted) not in ("number", "time"):
            raise RejectError(
                Reason.NO_MEMBER, f"csv_time={wanted}: no column of times has that name: {', '.join(kinds)}"
            )
        return wanted
    if wanted is not None:
        return None
    candidates = [
        name
        for name, kind in kinds.items()
        if name not in channels
        and (
            (kind in ("number", "time") and is_time_name(name)) or (kind == "time" and _INDEX.fullmatch(name))
        )
    ]
    return candidates[0] if candidates else None


def _kind(kind: Any) -> str:
    """list (of numbers), number, word, time, nested, or other."""
    import pyarrow as pa

    types = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return "nested" if types.is_nested(kind.storage_type) else "other"
    if types.is_integer(kind) or types.is_floating(kind):
        return "number"
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        inner = _kind(kind.value_type)
        return "list" if inner == "number" else "nested" if inner in ("list", "nested") else "other"
    if types.is_timestamp(kind):
        return "time"
    if types.is_dictionary(kind):
        return "word" if _kind(kind.value_type) == "word" else "other"
    if (
        types.is_boolean(kind)
        or types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_binary(kind)
    ):
        return "word"
    return "other"


def _not_samples(name: str, kind: Any) -> RejectError:
    return RejectError(
        Reason.BAD_FORMAT,
        f"column {name} holds {str(kind)[:100]}, and samples are a number or a list of numbers a row: store each channel "
        "as a row or a column of its own",
    )

"""A manifest: which recordings, which parts of them, and what is known about each."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from ..transforms.formats.settings import check_scale
from ..transforms.rejects import Reason, RejectError
from .match import REMOTE
from .recording import Interval, Said
from .sidecars import factors_of
from .times import parse_time_ns

_PART = (
    "uri",
    "start",
    "end",
    "label",
)  # what the rows of one recording may differ in, where they are its labels


class ManifestError(ValueError):
    """A manifest that cannot be used; the message says where and why."""


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """One line of a manifest.

    Attributes:
      where: for messages.
      path, member: what `uri` names; member is None where it names the file.
      values: column to value, where there is one.
    """

    where: str
    path: str
    member: str | None
    values: Mapping[str, Any]


@dataclasses.dataclass(frozen=True)
class Manifest:
    """A manifest's rows, by the path that they name.

    Attributes:
      path: of the manifest.
      columns: its column names.
      rows: path to rows, in their order.
      in_seconds: whether start and end are in seconds, not samples.
      note: which of both was taken, where that was a guess.
    """

    path: str
    columns: tuple[str, ...]
    rows: Mapping[str, Sequence[Row]]
    in_seconds: bool
    note: str | None = None

    @property
    def folder(self) -> str:
        """Where it lies, absolute."""
        return os.path.dirname(os.path.abspath(self.path))


def load_manifest(path: str, times: str) -> Manifest:
    """Reads a CSV, JSONL or Parquet file.

    Args:
      path: of the file.
      times: what start and end are: samples, seconds, or auto: seconds where any has a decimal point.

    Raises:
      ManifestError: it cannot be read, has no column uri, or names a part twice.
    """
    try:
        table = _read_table(path)
    except OSError as error:
        raise ManifestError(f"manifest={path} cannot be read: {error.strerror or error}") from None
    except (pa.ArrowInvalid, pa.ArrowKeyError, UnicodeDecodeError, csv.Error) as error:
        raise ManifestError(f"manifest={path} cannot be read: {' '.join(str(error).split())}") from None
    columns = tuple(table.column_names)
    if "uri" not in columns:
        raise ManifestError(
            f"manifest={path} has no column uri, only {', '.join(columns) or 'none'}: name the recordings in it"
        )
    rows: dict[str, list[Row]] = defaultdict(list)
    bounds: list[Any] = []
    seen: dict[tuple, str] = {}
    for number, values in enumerate(table.to_pylist(), 1):
        values = {key: value for key, value in values.items() if not _is_missing(key, value)}
        where = f"{os.path.basename(path)}, row {number}"
        uri = str(values.get("uri", ""))
        if not uri:
            raise ManifestError(f"{where} has no uri: name its recording")
        if REMOTE.match(uri):
            raise ManifestError(f"{where}: uri={uri} is no local path: object stores cannot be read yet")
        row_path, separator, member = uri.partition("//")
        row = Row(where, os.path.normpath(row_path), member if separator else None, values)
        bounds += [values[key] for key in ("start", "end") if key in values]
        key = (row.path, row.member, *(str(values.get(name)) for name in ("channel", "start", "end", "id")))
        if key in seen:
            raise ManifestError(f"{where} names the same part of {uri} as {seen[key]}: leave one out")
        seen[key] = where
        rows[row.path].append(row)
    if not rows:
        raise ManifestError(f"manifest={path} has no rows")
    seconds = times == "seconds" or (times == "auto" and any(_has_point(value) for value in bounds))
    note = None
    if bounds and times == "auto":
        unit = (
            "seconds, since some have a decimal point"
            if seconds
            else "samples, since none has a decimal point"
        )
        note = f"start and end of the manifest are taken as {unit}: manifest_times says what they are"
    return Manifest(path, columns, rows, seconds, note)


def _is_missing(key: str, value: Any) -> bool:
    """Whether a cell is empty. NaN stands for that, but for bounds: an empty one would mean all samples."""
    is_nan = isinstance(value, float) and math.isnan(value) and key not in ("start", "end")
    return value is None or value == "" or is_nan


def _has_point(value: Any) -> bool:
    # a column of whole numbers with a gap in it is one of floats
    if isinstance(value, float):
        return not value.is_integer()
    return isinstance(value, str) and not value.strip().isdecimal()


def _read_table(path: str) -> pa.Table | _Rows:
    ending = os.path.splitext(path)[1].lower()
    if ending in (".jsonl", ".ndjson", ".json"):
        return _read_json_lines(path)
    if ending in (".parquet", ".pq"):
        return pq.read_table(path)
    if ending not in (".csv", ".tsv", ".txt"):
        raise ManifestError(f"manifest={path} is of no known kind: use .csv, .jsonl or .parquet")
    with open(path, encoding="utf-8-sig", newline="") as file:
        first = file.readline()
        quotes = first.count('"') + sum(line.count('"') for line in file)
    if quotes % 2:
        raise ManifestError(f"manifest={path} has a quote that is not closed: close or double it")
    delimiter = max(",;\t", key=first.count)
    names = [name.strip() for name in next(csv.reader([first], delimiter=delimiter), [])]
    if len(set(names)) < len(names):
        raise ManifestError(f"manifest={path} has two columns of one name: {', '.join(names)}")
    return pyarrow.csv.read_csv(
        path,
        read_options=pyarrow.csv.ReadOptions(column_names=names, skip_rows=1),
        parse_options=pyarrow.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
        # as text, since labels such as 007 are no numbers
        convert_options=pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string())),
    )


def _read_json_lines(path: str) -> _Rows:
    """Not by Arrow, which makes times of texts that look so."""
    rows = []
    with open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise ManifestError(f"manifest={path} cannot be read: line {number}: {error}") from None
            if not isinstance(row, dict):
                raise ManifestError(f"manifest={path} cannot be read: line {number} is no JSON object")
            rows.append(row)
    names = list(dict.fromkeys(name for row in rows for name in row))
    return _Rows(names, rows)


class _Rows:
    """Rows of JSON, as far as a table is needed."""

    def __init__(self, column_names: list[str], rows: list[dict[str, Any]]):
        self.column_names = column_names
        self._rows = rows

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows."""
        return self._rows


def said_of_all(rows: Sequence[Row]) -> Said:
    """What the rows of one recording say of it, where each is a label of a part.

    Raises:
      ManifestError: they say different things.
    """
    first = rows[0]
    for row in rows[1:]:
        for name in sorted({*first.values, *row.values} - {*_PART}):
            if first.values.get(name) != row.values.get(name):
                raise ManifestError(
                    f"{row.where}: {name}={row.values.get(name)!r}, and {first.values.get(name)!r} in {first.where}: with "
                    "manifest_rows=labels the rows of a recording differ in start, end and label alone"
                )
    return said(first)


def said(row: Row) -> Said:
    """What a row says of its recording.

    Raises:
      ManifestError: a value is not what its column holds.
    """
    values = row.values
    try:
        scale = None if "scale" not in values else _scale(values["scale"])
        labels = values.get("labels")
        return Said(
            sample_rate=_number(row, "sample_rate"),
            unit=_text(values.get("unit")),
            factors=factors_of(values.get("sensitivity")),
            channel=_text(values.get("channel")),
            start_time_ns=parse_time_ns(values.get("start_time")),
            label=_text(values.get("label")),
            labels=None if labels is None else tuple(_words(labels)),
            split=_text(values.get("split")),
            group=_text(values.get("group")),
            paired=_text(values.get("target")),
            overrides={} if scale is None else {"scale": scale},
            fields=values,
        )
    except ManifestError:
        raise
    except ValueError as error:
        raise ManifestError(f"{row.where}: {error}") from None


def _scale(value: Any) -> str | float:
    try:
        return check_scale(value)
    except ValueError as error:
        raise ValueError(f"scale: {error}") from None


def _text(value: Any) -> str | None:
    if value is None:
        return None
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _words(value: Any) -> Iterable[str]:
    if isinstance(value, (list, tuple)):
        return [str(each) for each in value]
    return [word.strip() for word in str(value).replace(";", "|").split("|") if word.strip()]


def _number(row: Row, name: str) -> float | None:
    value = row.values.get(name)
    if value is None:
        return None
    try:
        if isinstance(value, bool):
            raise TypeError
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ManifestError(f"{row.where}: {name}={value!r} is no number: correct it") from None


def region(row: Row, *, in_seconds: bool, sample_rate: float | None, frames: int) -> tuple[int, int]:
    """The samples [start, end) of a recording that a row means; seconds are rounded to the nearest sample.

    Raises:
      ManifestError: the numbers make no range.
      RejectError: the range is not in the recording.
    """
    bounds = []
    for name, default in (("start", 0), ("end", frames)):
        value = row.values.get(name)
        if value is None:
            bounds.append(default)
            continue
        try:
            if not abs(float(str(value))) < 1e15:
                raise ValueError
            number = Fraction(str(value).strip())
        except (ValueError, ZeroDivisionError):
            raise ManifestError(f"{row.where}: {name}={value!r} is no number of samples or seconds") from None
        if in_seconds:
            if sample_rate is None:
                raise ManifestError(
                    f"{row.where}: {name}={value} is in seconds, and nothing says the sample rate: set sample_rate"
                )
            if not 0 < sample_rate <= 1e12:
                raise RejectError(
                    Reason.RATE_INVALID, f"{row.where}: sample_rate={sample_rate:g} Hz: state the right one"
                )
            number *= Fraction(sample_rate)
        elif number.denominator != 1:
            raise ManifestError(
                f"{row.where}: {name}={value} is no whole number of samples: set manifest_times=seconds"
            )
        bounds.append(math.floor(number + Fraction(1, 2)))
    start, end = bounds
    if start < 0 or (end <= start and "end" in row.values):
        raise ManifestError(
            f"{row.where}: start={row.values.get('start', 0)} and end={row.values.get('end')} make no range: correct them"
        )
    if start >= frames:
        raise RejectError(
            Reason.EMPTY,
            f"{row.where} begins at sample {start}, and the recording has {frames}: correct the row",
        )
    return start, end


def intervals(
    rows: Sequence[Row], *, in_seconds: bool, sample_rate: float | None, frames: int
) -> tuple[Interval, ...]:
    """The labelled parts of a recording, sorted."""
    found = []
    for row in rows:
        label = _text(row.values.get("label"))
        if label is None:
            raise ManifestError(f"{row.where} has no label, and manifest_rows=labels gives each row one")
        try:
            start, end = region(row, in_seconds=in_seconds, sample_rate=sample_rate, frames=frames)
        except RejectError:
            continue  # beyond the end: nothing to label
        found.append(Interval(start, min(end, frames), label))
    merged: list[Interval] = []  # what two rows of one label cover counts once
    for each in sorted(found, key=lambda each: (each.label, each.start, each.end)):
        last = merged[-1] if merged else None
        if last is not None and last.label == each.label and each.start <= last.end:
            merged[-1] = Interval(last.start, max(last.end, each.end), each.label)
        else:
            merged.append(each)
    return tuple(sorted(merged, key=lambda each: (each.start, each.end, each.label)))

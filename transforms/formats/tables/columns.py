"""Parquet and Arrow files: a column of lists holds a recording a row; plain columns are the channels of one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, BinaryIO, ClassVar

import numpy as np

from ...elements import Description
from ...rejects import Reason, RejectError
from ..attributes import Value, find_rate, find_start, kept, merge_scopes, plain_value
from ..base import ReadSettings, choose_members, empty, short_read
from ..members import MOST_ROWS
from ..samples import scaling, store
from ..whole import DecodedCache, require_decodable
from .columns_choose import Columns, choose_columns
from .columns_file import ArrowGroups, Groups, ParquetGroups, arrow_errors, lengths_of, numbers_of
from .table_time import RowError, Stretch, UnitError, find_stretches, to_seconds

_TIMESTAMP_S = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}


class _ColumnReader:
    """What Parquet and Arrow files have in common: rows in groups, read group by group."""

    name: ClassVar[str]
    needs_header: ClassVar[bool] = True
    takes_folder: ClassVar[bool] = False
    _groups: ClassVar[type[Groups]]

    def __init__(self, settings: ReadSettings):
        self._settings = settings
        self._cache = DecodedCache()

    def describe(self, file: BinaryIO | None, size: int) -> list[Description | RejectError]:
        """One description a row where a column holds lists, else one, or one a stretch without a gap in time.

        Raises:
          RejectError: no column can be used, or no row and all for one cause.
        """
        assert file is not None
        if size == 0:
            raise empty("the file has 0 bytes")
        groups = self._groups(file, self._settings.decode_limit)
        columns = choose_columns(groups.schema, self._settings)
        if sum(groups.rows) == 0:
            raise empty("the table has no row")
        if columns.lists is None:
            return self._describe_table(groups, columns)
        if sum(groups.rows) > MOST_ROWS:
            raise RejectError(
                Reason.TOO_LARGE, f"the table has more than {MOST_ROWS} rows of lists: split it"
            )
        names = [str(row) for row in range(sum(groups.rows))]
        chosen = set(choose_members(names, self._settings.members))
        entries = [each for each in self._describe_rows(groups, columns) if each.member in chosen]
        rejects = [each for each in entries if isinstance(each, RejectError)]
        if (
            len(rejects) == len(entries) > 1 and len({each.reason for each in rejects}) == 1
        ):  # one line says it for all
            raise RejectError(rejects[0].reason, f"none of {len(entries)} rows can be used; {rejects[0]}")
        return entries

    def read(self, file: BinaryIO, locator: str, channel: int, start: int, out: np.ndarray) -> None:
        """Takes the range from a column of a group, which is decoded once."""
        where, first, frames = locator.split(" ")
        if start + len(out) > int(frames):
            raise short_read(start, len(out), max(0, int(frames) - start))
        first = int(first) + start
        if where != "rows":
            _copy(self._decode(file, int(where), None), first, out, self._settings.scale)
            return
        starts = self._cache.get(file, "starts", lambda: self._find_starts(file))
        done = 0
        while done < len(out):
            group = int(np.searchsorted(starts, first + done, "right")) - 1
            if group >= len(starts) - 1:
                raise short_read(start, len(out), done)
            part = out[done : done + int(starts[group + 1]) - first - done]
            _copy(
                self._decode(file, group, channel),
                first + done - int(starts[group]),
                part,
                self._settings.scale,
            )
            done += len(part)

    def _decode(self, file: BinaryIO, group: int, channel: int | None) -> np.ndarray:
        """The numbers of the column of lists, or of a channel, in one group."""

        def decode() -> np.ndarray:
            groups = self._groups(file, self._settings.decode_limit)
            columns = choose_columns(groups.schema, self._settings)
            name = columns.lists if channel is None else columns.channels[channel]
            assert name is not None
            parts = [numbers_of(batch.column(0)) for batch in groups.batches(group, [name])]
            return np.concatenate(parts) if parts else np.empty(0, np.float32)

        return self._cache.get(file, f"{group} {channel}", decode)

    def _find_starts(self, file: BinaryIO) -> np.ndarray:
        """The first row of each group, and the number of rows."""
        groups = self._groups(file, self._settings.decode_limit)
        return np.cumsum([0, *groups.rows])

    def _describe_rows(self, groups: Groups, columns: Columns) -> Iterator[Description | RejectError]:
        assert columns.lists is not None
        settings = self._settings
        dtype = np.dtype(groups.schema.field(columns.lists).type.value_type.to_pandas_dtype()).str
        shared, row = _metadata(groups.schema), 0
        for group in range(len(groups.rows)):
            first = 0
            for batch in groups.batches(group, [columns.lists, *columns.scalars]):
                lengths = lengths_of(batch.column(batch.schema.get_field_index(columns.lists)))
                scalars = {
                    name: _plain_values(batch.column(batch.schema.get_field_index(name)))
                    for name in columns.scalars
                }
                for index, frames in enumerate(lengths.tolist()):
                    if frames <= 0:
                        what = "is null" if frames < 0 else "holds no sample"
                        yield RejectError(Reason.EMPTY, f"row {row}: column {columns.lists} {what}", str(row))
                    else:
                        own = {
                            name: each
                            for name, column in scalars.items()
                            if (each := column[index]) is not None
                        }
                        values = merge_scopes((own, shared))
                        start_ns, warnings = find_start(values, settings.time_key)
                        yield Description(
                            format=self.name,
                            sample_rate=find_rate(values, settings.rate_key or "sample_rate"),
                            channels=1,
                            frames=frames,
                            dtype=dtype,
                            warnings=warnings,
                            member=str(row),
                            locator=f"{group} {first} {frames}",
                            start_time_ns=start_ns,
                            attributes=kept(values),
                        )
                        first += frames
                    row += 1

    def _describe_table(self, groups: Groups, columns: Columns) -> list[Description | RejectError]:
        settings, schema = self._settings, groups.schema
        for rows in groups.rows:  # of a number that only the footer tells
            require_decodable(8 * rows, settings.decode_limit)
        values = _metadata(schema)
        times, stretches, warnings = None, [Stretch(0, sum(groups.rows), None)], ()
        start_ns, time_warnings = find_start(values, settings.time_key)
        if columns.time is not None:
            times, resolution = _read_times(groups, columns.time, settings.decode_limit)
            try:
                stretches, warnings = find_stretches(*to_seconds(times, columns.time, resolution))
            except (RowError, UnitError) as error:
                where = f"row {error.row}: " if isinstance(error, RowError) else ""
                raise RejectError(
                    Reason.BAD_FORMAT,
                    f"{where}{error} (column {columns.time}): set csv_time=none and sample_rate to read the rows as evenly "
                    "spaced, or csv_time to another column",
                ) from error
        rate = find_rate(values, settings.rate_key or "sample_rate")
        dtypes = [np.dtype(schema.field(name).type.to_pandas_dtype()) for name in columns.channels]
        described = [
            Description(
                format=self.name,
                sample_rate=stretch.sample_rate or rate,
                channels=len(columns.channels),
                frames=stretch.frames,
                dtype=np.result_type(*dtypes).str,
                warnings=warnings + time_warnings,
                member=None if len(stretches) == 1 else f"row{stretch.first}",
                locator=f"rows {stretch.first} {stretch.frames}",
                channel_names=columns.channels,
                start_time_ns=int(times[stretch.first])
                if times is not None and times.dtype == np.int64
                else start_ns,
                attributes=kept(values),
            )
            for stretch in stretches
        ]
        if len(described) == 1:
            return list(described)
        chosen = set(choose_members([str(each.member) for each in described], settings.members))
        return [each for each in described if each.member in chosen]


class ParquetReader(_ColumnReader):
    """Parquet files, row group by row group."""

    name: ClassVar[str] = "parquet"
    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".pq")
    _groups: ClassVar[type[Groups]] = ParquetGroups

    @staticmethod
    def matches(head: bytes) -> bool:
        """By the magic."""
        return head[:4] == b"PAR1"


class ArrowReader(_ColumnReader):
    """Arrow IPC files, which Feather version 2 is too, record batch by record batch."""

    name: ClassVar[str] = "arrow"
    suffixes: ClassVar[tuple[str, ...]] = (".arrow", ".feather")
    _groups: ClassVar[type[Groups]] = ArrowGroups

    @staticmethod
    def matches(head: bytes) -> bool:
        """By the magic, with its padding."""
        return head[:8] == b"ARROW1\0\0"


def _metadata(schema: Any) -> dict[str, Value]:
    """What the file tells of all its rows, by key."""
    values: dict[str, Value] = {}
    for key, value in (schema.metadata or {}).items():
        text = plain_value(value)
        if text is not None and key not in (b"pandas", b"ARROW:schema"):
            values[key.decode("utf-8", "replace")] = text
    return values


def _plain_values(column: Any) -> list[Value | None]:
    """A column's values as text or numbers; times as ISO 8601 text."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        words = [_plain_word(each) for each in column.dictionary.to_pylist()]
        return [None if index is None else words[index] for index in column.indices.to_pylist()]
    if pa.types.is_timestamp(column.type):
        return [None if ns is None else str(np.datetime64(ns, "ns")) for ns in _to_ns(column).to_pylist()]
    return [_plain_word(each) for each in column.to_pylist()]


def _plain_word(value: Any) -> Value | None:
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:  # an image or the like
            return None
    return plain_value(value)


def _to_ns(column: Any) -> Any:
    """Times as int64 ns since 1970 UTC."""
    import pyarrow as pa

    with arrow_errors("a time is beyond the years 1678 to 2261", Reason.BAD_FORMAT):
        return column.cast(pa.timestamp("ns", column.type.tz)).cast(pa.int64())


def _read_times(groups: Groups, name: str, limit: int) -> tuple[np.ndarray, float]:
    """The times of all rows as `to_seconds` takes them, and the unit of their last digit."""
    import pyarrow as pa

    require_decodable(8 * sum(groups.rows), limit)
    kind = groups.schema.field(name).type
    parts = []
    for group in range(len(groups.rows)):
        for batch in groups.batches(group, [name]):
            column = batch.column(0)
            if pa.types.is_timestamp(kind):
                parts.append(_to_ns(column).fill_null(np.iinfo(np.int64).min).to_numpy(zero_copy_only=False))
            else:
                parts.append(numbers_of(column))
    if sum(map(len, parts)) != sum(groups.rows):
        raise RejectError(
            Reason.CORRUPT, f"the file promises {sum(groups.rows)} rows, {sum(map(len, parts))} are there"
        )
    times = np.concatenate(parts)
    if pa.types.is_timestamp(kind):
        return times, _TIMESTAMP_S[kind.unit]
    largest = np.abs(times[np.isfinite(times)]).max(initial=0)
    resolution = (
        1.0 if pa.types.is_integer(kind) else float(np.spacing(largest))
    )  # of the type that they have
    return times.astype(np.float64), resolution


def _copy(values: np.ndarray, first: int, out: np.ndarray, scale: str | float) -> None:
    found = values[first : first + len(out)]
    if len(found) < len(out):
        raise short_read(first, len(out), len(found))
    store(found, out, *scaling(scale, values.dtype))

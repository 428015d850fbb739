"""A text table found in its file and parsed whole, with the number of the line that is wrong."""

from __future__ import annotations

import dataclasses
import decimal
import re
from typing import Any, BinaryIO

import numpy as np

from ...rejects import Reason, RejectError
from ..base import empty
from ..settings import ReadSettings
from ..whole import require_decodable
from .text_fields import MISSING
from .text_layout import Layout, Line, find_layout
from .text_lines import Feed, iter_lines, line_break, table_end

_HEAD_LINES = 200
_HEAD_BYTES = 1 << 20
_TAIL_BYTES = 4096
_BLOCK_BYTES = 1 << 20
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x19]")
_UTF_16 = (b"\xff\xfe", b"\xfe\xff")
_CURE = "csv_skip_rows leaves out lines before a table, csv_skip_footer lines after it"


@dataclasses.dataclass(frozen=True)
class Table:
    """Where a table is in its file, and how it is read."""

    layout: Layout
    data: Line
    end: int
    newline: bytes


def find_table(file: BinaryIO, size: int, settings: ReadSettings) -> Table:
    """The layout by the first lines, and where the table ends."""
    if size == 0:
        raise empty("the file has 0 bytes")
    file.seek(0)
    head = file.read(_TAIL_BYTES)
    if head.startswith(_UTF_16) or _BINARY.search(head):
        what = "UTF-16 text: save it as UTF-8" if head.startswith(_UTF_16) else "binary data, no text table"
        raise RejectError(Reason.BAD_FORMAT, f"the file holds {what}")
    newline = line_break(head)
    end = table_end(file, size, settings.csv_skip_footer, newline)
    lines: list[Line] = []
    comment, num_bytes = None, 0
    for line in iter_lines(file, 0, end, 1, newline):
        if line.number <= settings.csv_skip_rows or not line.text.strip():
            continue
        if not lines and line.text.lstrip().startswith("#"):
            comment = line.text.strip()
            continue
        lines.append(line)
        num_bytes += len(line.text)
        if len(lines) == _HEAD_LINES or num_bytes > _HEAD_BYTES:
            break
    if not lines:
        skipped = f"csv_skip_rows={settings.csv_skip_rows} and csv_skip_footer={settings.csv_skip_footer}"
        raise empty(f"no line is left after blank lines, comments, {skipped} ({size} bytes)")
    layout = find_layout(lines, comment, settings)
    return Table(layout, layout.data, end, newline)


def parse_table(file: BinaryIO, table: Table, limit: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Samples float64 [rows, channels]; times [rows], float64 in the file's unit or int64 ns, or None.

    Raises:
      RejectError: a line does not parse, with its number, or the table is above decode_limit.
    """
    import pyarrow as pa
    from pyarrow import csv

    layout = table.layout
    wanted = layout.parsed
    types: dict[str, Any] = dict.fromkeys(map(str, wanted), pa.float64())
    if layout.iso is not None:
        types[str(layout.time)] = pa.timestamp("ns", "UTC" if layout.iso else None)
    place = {column: index for index, column in enumerate(wanted)}
    feed = Feed(file, table.data.offset, table.end, table.newline, layout)
    samples, rows = np.empty((0, len(layout.channels)), np.float64), 0
    times: list[np.ndarray] = []
    try:
        reader = csv.open_csv(
            pa.PythonFile(feed, mode="r"),
            read_options=csv.ReadOptions(
                column_names=[str(column) for column in range(layout.width)],
                block_size=_BLOCK_BYTES,
                use_threads=False,
            ),
            # in a single column a blank line is a value that is missing
            parse_options=csv.ParseOptions(delimiter=layout.delimiter, ignore_empty_lines=layout.width > 1),
            convert_options=csv.ConvertOptions(
                column_types=types,
                include_columns=[str(column) for column in wanted],
                null_values=sorted(MISSING),
                timestamp_parsers=[csv.ISO8601],
                check_utf8=False,
            ),
        )
        for batch in reader:
            needed = rows + batch.num_rows
            require_decodable(needed * 8 * (samples.shape[1] + 1), limit)
            if needed > len(samples):
                samples.resize((max(needed, len(samples) * 3 // 2), samples.shape[1]), refcheck=False)
            for index, column in enumerate(layout.channels):
                samples[rows:needed, index] = batch.column(place[column]).to_numpy(zero_copy_only=False)
            if layout.time is not None:
                times.append(_to_times(batch.column(place[layout.time])))
            rows = needed
    except pa.ArrowException as error:
        feed.stop()
        raise _find_fault(file, table, str(error)) from error
    finally:
        feed.stop()
    samples.resize((rows, samples.shape[1]), refcheck=False)
    return samples, np.concatenate(times) if times else None


def _find_fault(file: BinaryIO, table: Table, message: str) -> RejectError:
    """The first line that does not parse; the parser itself does not tell its number."""
    layout = table.layout
    wanted = layout.parsed
    for line in iter_lines(file, table.data.offset, table.end, table.data.number, table.newline):
        if layout.is_skipped(line.text):
            continue
        fields = layout.split(line.text) or [""]
        wrong = [
            column
            for column in wanted
            if len(fields) == layout.width and not layout.parses(fields[column], column)
        ]
        if len(fields) != layout.width:
            problem = f"{len(fields)} fields where the first lines have {layout.width}"
        elif wrong:
            kind = "time" if wrong[0] == layout.time and layout.iso is not None else "number"
            problem = f"{fields[wrong[0]][:40]!r} in {layout.name(wrong[0])} is no {kind}"
        else:
            continue
        return RejectError(
            Reason.BAD_FORMAT,
            f"line {line.number}: {problem} (delimiter {layout.delimiter!r}, decimal mark {layout.decimal!r}): "
            f"{line.text[:80]!r}: {_CURE}",
        )
    return RejectError(Reason.BAD_FORMAT, f"the table does not parse: {message[:200]}")


def line_number(file: BinaryIO, table: Table, row: int) -> int:
    """The number of the line that holds a row of data, from 0."""
    for line in iter_lines(file, table.data.offset, table.end, table.data.number, table.newline):
        if table.layout.is_skipped(line.text):
            continue
        if row == 0:
            return line.number
        row -= 1
    return table.data.number


def time_resolution(file: BinaryIO, table: Table) -> float:
    """One unit of the last digit of the times, as the last lines print them."""
    layout = table.layout
    assert layout.time is not None
    start = max(table.data.offset, table.end - _TAIL_BYTES)
    lines = list(iter_lines(file, start, table.end, 0, table.newline))
    if start > table.data.offset:
        lines = lines[1:]  # begins in the middle of a line
    smallest = []
    for line in lines:
        fields = layout.split(line.text)
        if len(fields) == layout.width and layout.parses(fields[layout.time], layout.time):
            smallest.append(_last_digit(fields[layout.time], layout))
    return min(filter(None, smallest), default=0.0)


def _to_times(column: Any) -> np.ndarray:
    """float64, NaN where missing; or int64 ns, the least integer where missing."""
    import pyarrow as pa

    if pa.types.is_timestamp(column.type):
        return column.to_numpy(zero_copy_only=False).astype("datetime64[ns]").view(np.int64)
    return column.to_numpy(zero_copy_only=False)


def _last_digit(field: str, layout: Layout) -> float:
    if layout.iso is not None:
        fraction = re.search(r":\d\d[.,](\d+)", field)
        return 10.0 ** -len(fraction[1]) if fraction else 1.0
    if field in MISSING:
        return 0.0
    exponent = decimal.Decimal(field.replace(layout.decimal, ".")).as_tuple().exponent
    return 10.0**exponent if isinstance(exponent, int) and -300 < exponent < 300 else 0.0

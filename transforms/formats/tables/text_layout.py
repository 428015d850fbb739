"""What a text table looks like, from its first lines: delimiter, decimal mark, header, columns."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence

from ...rejects import Reason, RejectError
from ..base import empty as no_samples
from ..settings import ReadSettings
from .table_time import is_time_name
from .text_fields import (
    BLANKS,
    MISSING,
    delimiter_of,
    has_zone,
    is_number,
    is_padded,
    is_time,
    is_value,
    split_fields,
)

_DELIMITERS = ("\t", ";", "|", ",", BLANKS)


@dataclasses.dataclass(frozen=True)
class Line:
    """One line of the file: its number from 1, where it begins, its text without the line break."""

    number: int
    offset: int
    text: str


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a table is read.

    Attributes:
      delimiter: one character; a space stands for any run of blanks.
      decimal: "." or ",".
      names: of all columns, or None where there is no header.
      width: number of columns.
      data: its first line.
      channels: columns that are read, in their order.
      time: the column with the times, or None.
      iso: whether times are ISO 8601; None where they are numbers, else whether they have a zone.
      warnings: what is odd about it.
    """

    delimiter: str
    decimal: str
    names: tuple[str, ...] | None
    width: int
    data: Line
    channels: tuple[int, ...]
    time: int | None
    iso: bool | None
    warnings: tuple[str, ...] = ()

    @property
    def parsed(self) -> list[int]:
        """The columns that are parsed, ascending: channels and time."""
        return sorted({*self.channels} if self.time is None else {*self.channels, self.time})

    def name(self, column: int) -> str:
        """A column, as messages call it."""
        return f"column {(self.names[column] if self.names else '') or column}"

    def split(self, text: str) -> list[str]:
        """The fields of a line."""
        return split_fields(text, self.delimiter)

    def is_skipped(self, text: str) -> bool:
        """Whether a line is blank and no row; in a single column it is a value that is missing."""
        return self.width > 1 and not (text.strip() if self.delimiter == BLANKS else text)

    def parses(self, field: str, column: int) -> bool:
        """Whether a field is what its column holds."""
        if column == self.time and self.iso is not None:
            return is_time(field)
        return field in MISSING or is_number(field, self.decimal)


def find_layout(lines: Sequence[Line], comment: str | None, settings: ReadSettings) -> Layout:
    """The layout of a table.

    Args:
      lines: the first ones that are neither blank nor comment, at least one.
      comment: the last comment line above them, which may hold the names of the columns.
      settings: csv_* override what is found.

    Raises:
      RejectError: there is no column of numbers, or not the column that is asked for.
    """
    delimiter, decimal = _find_marks(lines, settings)
    rows = [split_fields(line.text, delimiter) for line in lines]
    body = rows[1:] or rows
    width = Counter(map(len, body)).most_common(1)[0][0]
    body = [row for row in body if len(row) == width]
    numeric, empty = _column_kinds(body, width, decimal)
    names = _header_names(rows[0], width, numeric, empty, delimiter, decimal, lines[0])
    has_header = names is not None
    if comment is not None and not has_header:
        names = _comment_names(comment, width, delimiter, decimal)
    if has_header and len(lines) == 1:
        raise no_samples(f"a header is there, but no row follows it: {lines[0].text[:80]!r}")
    time = _find_time(names, width, body, decimal, settings)
    iso = _zone(body, time)
    numeric = [column for column in numeric if column not in empty or (names is not None and names[column])]
    channels = _find_channels(names, width, numeric, time, settings, rows)
    if not channels:
        raise RejectError(
            Reason.BAD_FORMAT,
            f"no column of numbers (delimiter {delimiter!r}, decimal mark {decimal!r}); line {lines[0].number} is "
            f"{lines[0].text[:80]!r}: set csv_delimiter, csv_decimal or csv_skip_rows",
        )
    warnings: tuple[str, ...] = ()
    if not settings.csv_columns:
        used = {*channels, time, *empty}
        rest = [column for column in range(width) if column not in used]
        if rest:
            shown = ", ".join((names[column] if names else "") or str(column) for column in rest[:10])
            warnings += (f"columns that are left out, since they hold no samples: {shown}",)
    if not has_header and width > 1 and rows[0] == [str(column) for column in range(width)]:
        warnings += (
            "the first row counts 0, 1, … and is taken as data: if it is a header, set csv_skip_rows",
        )
    return Layout(
        delimiter, decimal, names, width, lines[1 if has_header else 0], channels, time, iso, warnings
    )


def _find_marks(lines: Sequence[Line], settings: ReadSettings) -> tuple[str, str]:
    """Delimiter and decimal mark under which most of the fields are numbers."""
    given = delimiter_of(settings.csv_delimiter)
    delimiters = _DELIMITERS if given is None else (given,)
    decimals = (".", ",") if settings.csv_decimal is None else (settings.csv_decimal,)
    best: tuple[float, int] = (-1.0, 0)
    found = (delimiters[0], decimals[0])
    for delimiter in delimiters:
        rows = [split_fields(line.text, delimiter) for line in lines]
        for decimal in decimals:
            # the first row may be a header
            body = rows if all(is_value(field, decimal) for field in rows[0]) else rows[1:] or rows
            width = Counter(map(len, body)).most_common(1)[0][0]
            if decimal == delimiter or (
                width == 1 and decimal == "," and not _may_be_decimals(lines, settings)
            ):
                continue
            score = sum(_share(row, decimal) for row in body if len(row) == width) / len(body)
            longer = len(rows[0]) - width  # by a delimiter at the end of the rows, or of the header
            spare = rows[0][-1:] if longer == 1 else [row[-1] for row in body if len(row) == width]
            if longer and (abs(longer) > 1 or any(spare)):
                score /= 2
            if (round(score, 6), width) > best:
                best, found = (round(score, 6), width), (delimiter, decimal)
    return found


def _may_be_decimals(lines: Sequence[Line], settings: ReadSettings) -> bool:
    """Whether 1,5 in a single column can be meant as 1.5: a comma rather separates two columns."""
    if settings.csv_decimal is not None or settings.csv_delimiter is not None:
        return True
    first = lines[0].text
    if "," not in first and not is_number(first.strip(), "."):
        return True  # a header of one column
    return any(is_padded(part) for line in lines for part in line.text.split(",")[1:])


def _share(fields: list[str], decimal: str) -> float:
    """Which part of a line's fields are numbers, times or missing; 0,05 is hardly the two integers 0 and 05."""
    good = 0.0
    for field in fields:
        if is_number(field, decimal):
            good += 0.5 if is_padded(field) else 1.0
        elif field in MISSING or is_time(field):
            good += 1.0
    return good / max(1, len(fields))


def _column_kinds(body: Sequence[list[str]], width: int, decimal: str) -> tuple[list[int], set[int]]:
    """Columns most of whose fields are numbers, those without any field among them; and the latter."""
    numeric, empty = [], set()
    for column in range(width):
        fields = [row[column] for row in body if row[column] not in MISSING]
        numbers = sum(is_number(field, decimal) for field in fields)
        if 2 * numbers >= len(fields):
            numeric.append(column)
        if all(row[column] == "" for row in body):
            empty.add(column)
    return numeric, empty


def _header_names(
    fields: list[str],
    width: int,
    numeric: Sequence[int],
    empty: set[int],
    delimiter: str,
    decimal: str,
    line: Line,
) -> tuple[str, ...] | None:
    """The names of the columns in the first row, or None where it is data."""
    counted = len(fields) > 1 and fields == [
        "",
        *map(str, range(len(fields) - 1)),
    ]  # pandas, a frame without names
    words = [column for column, field in enumerate(fields) if not is_value(field, decimal)]
    numbers = set(numeric)
    only_words = bool(words) and len(words) == sum(map(bool, fields))
    if not (counted or only_words or any(column in numbers or column >= width for column in words)):
        return None
    if len(fields) == width + 1 and not fields[-1]:
        fields = fields[:-1]
    if len(fields) == width - 1 and width - 1 in empty:  # a delimiter at the end of the rows alone
        fields = [*fields, ""]
    if len(fields) != width:
        raise RejectError(
            Reason.BAD_FORMAT,
            f"line {line.number} has {len(fields)} fields, the lines after it have {width} (delimiter {delimiter!r}): "
            f"{line.text[:80]!r}: set csv_skip_rows to the number of lines before the header, or csv_delimiter",
        )
    return tuple(fields)


def _comment_names(comment: str, width: int, delimiter: str, decimal: str) -> tuple[str, ...] | None:
    """The names in the comment above the table, where numpy.savetxt writes them."""
    fields = split_fields(comment.lstrip("#").strip(), delimiter)
    if len(fields) == width and not any(is_value(field, decimal) for field in fields):
        return tuple(fields)
    return None


def _find_time(
    names: tuple[str, ...] | None, width: int, body: list[list[str]], decimal: str, settings: ReadSettings
) -> int | None:
    if settings.csv_time is not None:
        if settings.csv_time.lower() == "none":
            return None
        return _column(settings.csv_time, "csv_time", names, width)
    candidates = [column for column, name in enumerate(names or ()) if is_time_name(name)]
    for column in candidates:  # of a date and a clock in two columns neither will do
        if body and (
            is_number(body[0][column], decimal) or (len(body[0][column]) > 10 and is_time(body[0][column]))
        ):
            return column
    return candidates[0] if candidates else None


def _zone(body: list[list[str]], time: int | None) -> bool | None:
    if time is None:
        return None
    for row in body:
        zone = has_zone(row[time])
        if zone is not None:
            return zone
    return None


def _find_channels(
    names: tuple[str, ...] | None,
    width: int,
    numeric: list[int],
    time: int | None,
    settings: ReadSettings,
    rows: list[list[str]],
) -> tuple[int, ...]:
    if settings.csv_columns:
        chosen = tuple(_column(each, "csv_columns", names, width) for each in settings.csv_columns)
        if time in chosen:
            raise RejectError(
                Reason.NO_MEMBER,
                f"csv_columns={','.join(settings.csv_columns)} has the time column {time} among them: set csv_time=none",
            )
        return chosen
    found = [column for column in numeric if column != time]
    if names is not None and names[0] == "" and 0 in found and len(found) > 1:
        first = [row[0] for row in rows[1:3]]
        if first in (["0", "1"], ["1", "2"], ["0"], ["1"]):  # the row numbers that pandas and R write
            found.remove(0)
    return tuple(found)


def _column(wanted: str, setting: str, names: tuple[str, ...] | None, width: int) -> int:
    """The index of a column by its name or number.

    Raises:
      RejectError: there is none, or several.
    """
    found = [column for column, name in enumerate(names or ()) if name == wanted]
    if len(found) == 1:
        return found[0]
    if not found and wanted.isdecimal() and int(wanted) < width:
        return int(wanted)
    listed = ", ".join(names[:20]) if names is not None else f"0 to {width - 1}, without names"
    what = "several columns of that name" if found else "no such column"
    raise RejectError(Reason.NO_MEMBER, f"{setting}={wanted}: there is {what}; the columns are {listed}")

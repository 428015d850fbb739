"""Text tables (CSV, TSV): each column is a channel, a column of times gives the rate."""

from __future__ import annotations

import re
from typing import BinaryIO, ClassVar

import numpy as np

from ...elements import Description
from ...rejects import Reason, RejectError
from ..base import ReadSettings, choose_members, short_read
from ..samples import scaling, store
from ..whole import DecodedCache
from .table_time import RowError, Stretch, UnitError, find_stretches, to_seconds
from .text_fields import delimiter_of
from .text_layout import Layout
from .text_parse import Table, find_table, line_number, parse_table, time_resolution

_UNIT = re.compile(r"[\[(]\s*([^\])]{1,40}?)\s*[\])]\s*")


class TextReader:
    """Comma, tab, semicolon, bar or blank separated columns of numbers.

    Text cannot be read by range, so a table is decoded once and kept: 8 bytes a number, held against decode_limit.

    Raises:
      ValueError: csv_delimiter is no single character.
    """

    name: ClassVar[str] = "csv"
    suffixes: ClassVar[tuple[str, ...]] = (".csv", ".tsv")
    needs_header: ClassVar[bool] = True
    takes_folder: ClassVar[bool] = False

    def __init__(self, settings: ReadSettings):
        delimiter = delimiter_of(settings.csv_delimiter)
        if delimiter == "," == settings.csv_decimal:
            raise ValueError(
                "csv_delimiter and csv_decimal are both a comma: set one of them to another character"
            )
        self._settings = settings
        self._cache = DecodedCache()

    @staticmethod
    def matches(head: bytes) -> bool:
        """Never: a text table has nothing that tells it from other text."""
        return False

    def describe(self, file: BinaryIO | None, size: int) -> list[Description | RejectError]:
        """One recording, or one a contiguous stretch of time, named after its first row.

        Raises:
          RejectError: `empty` without a row of data; `bad_format` with the line number of what does not parse.
        """
        assert file is not None
        table = find_table(file, size, self._settings)
        samples, times = parse_table(file, table, self._settings.decode_limit)
        self._cache.get(file, "", lambda: samples)
        layout, settings = table.layout, self._settings
        stretches, warnings = [Stretch(0, len(samples), None)], layout.warnings
        if times is None:
            warnings += self._doubts(layout, samples)
        else:
            found, more = self._find_stretches(file, table, times)
            stretches, warnings = found, warnings + more
        names = tuple(layout.names[column] for column in layout.channels) if layout.names else ()
        described = [
            Description(
                format=self.name,
                sample_rate=stretch.sample_rate,
                channels=len(layout.channels),
                frames=stretch.frames,
                dtype="<f8",
                warnings=warnings,
                member=None if len(stretches) == 1 else f"row{stretch.first}",
                locator=f"{stretch.first} {stretch.frames}",
                channel_names=names,
                unit=_common_unit(names) if not isinstance(settings.scale, float) else None,
                start_time_ns=int(times[stretch.first])
                if times is not None and times.dtype == np.int64
                else None,
            )
            for stretch in stretches
        ]
        if len(described) == 1:
            return list(described)
        chosen = set(choose_members([str(each.member) for each in described], settings.members))
        return [each for each in described if each.member in chosen]

    def read(self, file: BinaryIO, locator: str, channel: int, start: int, out: np.ndarray) -> None:
        """Takes the range from the decoded table."""

        def decode() -> np.ndarray:
            table = find_table(file, file.seek(0, 2), self._settings)
            return parse_table(file, table, self._settings.decode_limit)[0]

        first, frames = map(int, locator.split(" "))
        samples = self._cache.get(file, "", decode)
        frames = min(frames, len(samples) - first)
        if start + len(out) > frames:
            raise short_read(start, len(out), max(0, frames - start))
        range_ = samples[first + start : first + start + len(out), channel]
        store(range_, out, *scaling(self._settings.scale, samples.dtype))

    def _find_stretches(
        self, file: BinaryIO, table: Table, times: np.ndarray
    ) -> tuple[list[Stretch], tuple[str, ...]]:
        layout = table.layout
        assert layout.time is not None
        name = layout.names[layout.time] if layout.names else ""
        try:
            return find_stretches(*to_seconds(times, name, time_resolution(file, table)))
        except RowError as error:
            raise RejectError(
                Reason.BAD_FORMAT,
                f"line {line_number(file, table, error.row)}: {error} ({layout.name(layout.time)}): set csv_time=none and "
                "sample_rate to read the rows as evenly spaced, or csv_time to another column",
            ) from error
        except UnitError as error:
            raise RejectError(Reason.BAD_FORMAT, f"{error}, or set csv_time=none and sample_rate") from error

    def _doubts(self, layout: Layout, samples: np.ndarray) -> tuple[str, ...]:
        """A first column that counts up evenly is more likely a time than a signal."""
        if self._settings.csv_time is not None or self._settings.csv_columns or len(samples) < 3:
            return ()
        steps = np.diff(samples[:1000, 0])
        if steps[0] > 0 and (np.abs(steps - steps[0]) <= 1e-3 * steps[0]).all():
            return (
                f"{layout.name(layout.channels[0])} counts up evenly: if it is the time, set csv_time to it",
            )
        return ()


def _common_unit(names: tuple[str, ...]) -> str | None:
    """The unit in brackets at the end of the names, where all have the same."""
    units = {match[1] if (match := re.search(_UNIT.pattern + "$", name)) else None for name in names}
    return units.pop() if len(units) == 1 else None

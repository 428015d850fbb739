"""Parquet and Arrow IPC files opened as groups of rows whose columns are read apart, in bounded memory."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import numpy as np

from ...rejects import Reason, RejectError
from ..whole import require_decodable

_BATCH_BYTES = 32 << 20
_MOST_BATCH_ROWS = 1 << 16
_OTHER_COLUMNS = (
    4  # the most that a row group may take, in units of the limit, with the columns that are not read
)


class ParquetGroups:
    """A Parquet file: its row groups.

    Args:
      file: stays open.
      limit: most decoded bytes of a column of a row group.

    Raises:
      RejectError: it is none.
    """

    def __init__(self, file: BinaryIO, limit: int):
        from pyarrow import parquet

        self._limit = limit
        with arrow_errors("no Parquet file", Reason.BAD_FORMAT):
            self._file: Any = parquet.ParquetFile(_python_file(file), pre_buffer=False)
            self.schema: Any = _readable(self._file.schema_arrow)
            # text that repeats is kept once, or a small file could become large
            words = [field.name for field in self.schema if _is_words(field.type)]
            if words:
                self._file = parquet.ParquetFile(_python_file(file), pre_buffer=False, read_dictionary=words)
            metadata = self._file.metadata
            self.rows = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        if min(self.rows, default=0) < 0:
            raise RejectError(Reason.BAD_FORMAT, f"no Parquet file: a row group of {min(self.rows)} rows")

    def batches(self, group: int, columns: Sequence[str]) -> Iterator[Any]:
        """Record batches with the columns, together all rows of a group.

        Raises:
          RejectError: the data is damaged, or above the limit.
        """
        with arrow_errors(f"row group {group} is damaged", Reason.CORRUPT):
            num_bytes = self._count_bytes(group, columns)
            require_decodable(num_bytes, self._limit)
            rows = max(1, min(_MOST_BATCH_ROWS, _BATCH_BYTES * self.rows[group] // max(1, num_bytes)))
            for batch in self._read(group, columns, rows):
                batch.validate(full=True)  # indices into dictionaries are used as they stand in the file
                yield batch

    def _read(self, group: int, columns: Sequence[str], rows: int) -> Iterator[Any]:
        return self._file.iter_batches(
            batch_size=rows, row_groups=[group], columns=list(columns), use_threads=False
        )

    def _count_bytes(self, group: int, columns: Sequence[str]) -> int:
        """Bytes of the numbers in a group, by the count of values that the footer tells."""
        row_group = self._file.metadata.row_group(group)
        if row_group.total_byte_size > _OTHER_COLUMNS * self._limit:
            require_decodable(row_group.total_byte_size, self._limit)
        # A damaged footer makes `RowGroupMetaData.column` end the process, but reading a row an error (pyarrow 25).
        next(self._read(group, columns, 1), None)
        paths = [self._file.schema.column(index).path for index in range(len(self._file.schema))]
        return sum(
            8 * row_group.column(index).num_values
            for index, path in enumerate(paths)
            if path in columns or path.split(".")[0] in columns
        )


class ArrowGroups:
    """An Arrow IPC file (Feather version 2): its record batches.

    Args:
      file: stays open.
      limit: most decoded bytes of the columns of a record batch.

    Raises:
      RejectError: it is none.
    """

    def __init__(self, file: BinaryIO, limit: int):
        self._source = file
        self._limit = limit
        file.seek(0)
        if file.read(4) == b"FEA1":
            raise RejectError(
                Reason.BAD_FORMAT,
                "the file is Feather version 1, which is no longer read: write it as version 2",
            )
        with arrow_errors("no Arrow IPC file", Reason.BAD_FORMAT):
            reader = self._open(None)
            self.schema: Any = _readable(reader.schema)
            self._groups: int = reader.num_record_batches
        self._rows: list[int] | None = None

    @property
    def rows(self) -> list[int]:
        """Rows of each record batch."""
        if self._rows is None:
            columns = [self.schema.field(0).name] if len(self.schema) else []
            self._rows = [
                sum(batch.num_rows for batch in self.batches(group, columns)) for group in range(self._groups)
            ]
        return self._rows

    def batches(self, group: int, columns: Sequence[str]) -> Iterator[Any]:
        """The record batch, with the columns.

        Raises:
          RejectError: the data is damaged, or above the limit.
        """
        indices = sorted(self.schema.get_field_index(name) for name in columns)
        with arrow_errors(f"record batch {group} is damaged", Reason.CORRUPT):
            batch = self._open(indices).get_batch(group)
            batch.validate(full=True)  # offsets are used as they stand in the file
            require_decodable(batch.nbytes, self._limit)
        yield batch

    def _open(self, indices: list[int] | None) -> Any:
        from pyarrow import ipc

        options = ipc.IpcReadOptions(included_fields=indices, use_threads=False)
        return ipc.open_file(_python_file(self._source), options=options)


Groups = ParquetGroups | ArrowGroups


@contextlib.contextmanager
def arrow_errors(what: str, reason: Reason) -> Iterator[None]:
    """Arrow's complaints about a file as rejects; what the file itself raises passes.

    Raises:
      RejectError: Arrow does not understand the file.
    """
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, UnicodeDecodeError) as error:  # the latter from damaged names
        raise RejectError(reason, f"{what}: {_one_line(error)}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        raise RejectError(reason, f"{what}: {_one_line(error)}") from error  # Arrow's own kind of IOError


def numbers_of(column: Any) -> np.ndarray:
    """A column, or the values of a column of lists one after the other, with NaN for null; null lists count nothing."""
    import pyarrow as pa

    values = column if not pa.types.is_nested(column.type) else column.flatten()
    return values.to_numpy(zero_copy_only=False)


def lengths_of(column: Any) -> np.ndarray:
    """Values in each list of a column, -1 where it is null, int64 [rows]."""
    import pyarrow.compute as pc

    return pc.fill_null(pc.list_value_length(column), -1).to_numpy(zero_copy_only=False).astype(np.int64)


def _readable(schema: Any) -> Any:
    """A schema whose names and types are text, or the error that Arrow would raise later."""
    for field in schema:
        _ = field.name, str(field.type)
    return schema


def _is_words(kind: Any) -> bool:
    import pyarrow as pa

    return pa.types.is_string(kind) or pa.types.is_binary(kind)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


class _Handle:
    """A file that Arrow does not close."""

    closed = False

    def __init__(self, file: BinaryIO):
        self.read, self.seek, self.tell = file.read, file.seek, file.tell

    def close(self) -> None:
        """Nothing: the file is its opener's."""

    def readable(self) -> bool:
        """Yes."""
        return True

    def seekable(self) -> bool:
        """Yes."""
        return True

    def writable(self) -> bool:
        """No."""
        return False


def _python_file(file: BinaryIO) -> Any:
    import pyarrow as pa

    file.seek(0)
    return pa.PythonFile(_Handle(file), mode="r")

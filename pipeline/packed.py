"""Long lists of records, packed, and tables made of them: those of a large archive go to a temporary file."""

from __future__ import annotations

import contextlib
import dataclasses
import heapq
import io
import itertools
import operator
import pickle
import tempfile
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, overload

import pyarrow as pa

Item = TypeVar("Item")

_CHUNK = 512
_RUN = 32 * _CHUNK  # records that are sorted at once
_FASTEST = 1
_IN_MEMORY = 1 << 20  # bytes of a list, packed


class SpillError(Exception):
    """The temporary folder cannot hold what planning puts there."""

    exit_code = 1


@contextlib.contextmanager
def _spilling() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SpillError(
            f"planning cannot write to the temporary folder {tempfile.gettempdir()}: {error.strerror or error}: "
            "free room there, or set TMPDIR to a folder that has some"
        ) from error


class _Reducers(dict):
    """How dataclasses are pickled: as the arguments that make them, in half the time that pickle takes by itself.

    So every field is an argument, in its order, and none is keyword-only.
    """

    def __missing__(self, kind: type) -> Callable[[Any], Any]:
        if not dataclasses.is_dataclass(kind):
            raise KeyError(kind)
        names = [field.name for field in dataclasses.fields(kind)]
        values = operator.attrgetter(*names)
        single = len(names) == 1
        self[kind] = reduce = lambda item: (kind, (values(item),) if single else values(item))
        return reduce


_REDUCERS = _Reducers()


class Packed(Sequence[Item]):
    """Immutable records in the order in which they were added. Going through them in order is fast.

    As Python objects they would take kilobytes each.
    """

    def __init__(self, items: Iterable[Item] = ()):
        self._file = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115, closed in __del__
        self._ends = array("q", [0])  # of the chunks in the file
        self._last: list[Item] = []  # not packed yet
        self._read: tuple[int, list[Item]] = (-1, [])
        self.extend(items)

    def append(self, item: Item) -> None:
        """Adds one at the end."""
        self._last.append(item)
        if len(self._last) == _CHUNK:
            with _spilling():
                self._file.seek(self._ends[-1])
                self._ends.append(self._ends[-1] + self._file.write(_pack(self._last)))
            self._last = []

    def extend(self, items: Iterable[Item]) -> None:
        """Adds several at the end."""
        for item in items:
            self.append(item)

    def sorted(self, key: Callable[[Item], Any]) -> Packed[Item]:
        """The same in the order of their keys; equal ones stay in their order."""
        places = range(0, len(self), _RUN)
        runs = Packed(
            itertools.chain.from_iterable(sorted(self[first : first + _RUN], key=key) for first in places)
        )
        if len(places) < 2:
            return runs
        return Packed(heapq.merge(*(runs._run(first) for first in places), key=key))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(operator.eq, self, other))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Packed({self[:20]}{' …' if len(self) > 20 else ''})"

    def __len__(self) -> int:
        return (len(self._ends) - 1) * _CHUNK + len(self._last)

    def __iter__(self) -> Iterator[Item]:
        for chunk in range(len(self._ends) - 1):
            yield from self._chunk(chunk)
        yield from self._last

    @overload
    def __getitem__(self, place: int) -> Item: ...
    @overload
    def __getitem__(self, place: slice) -> list[Item]: ...
    def __getitem__(self, place: int | slice) -> Item | list[Item]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        chunk, within = divmod(range(len(self))[place], _CHUNK)
        if chunk == len(self._ends) - 1:
            return self._last[within]
        if self._read[0] != chunk:
            self._read = chunk, self._chunk(chunk)
        return self._read[1][within]

    def __del__(self) -> None:
        self._file.close()

    def _run(self, first: int) -> Iterator[Item]:
        for start in range(first, min(first + _RUN, len(self)), _CHUNK):
            yield from self[start : start + _CHUNK]

    def _chunk(self, number: int) -> list[Item]:
        begin, end = self._ends[number : number + 2]
        self._file.seek(begin)
        return _unpack(self._file.read(end - begin))


def chunks(items: Iterable[Item], size: int = _CHUNK) -> Iterator[list[Item]]:
    """Runs of `size` items, the last one shorter."""
    iterator = iter(items)
    while chunk := list(itertools.islice(iterator, size)):
        yield chunk


def by_chunks(rows: Callable[[list[Item], int], pa.Table], items: Iterable[Item]) -> pa.Table:
    """A table made of few items at a time, by a function of those and the place of their first one.

    It lies in a temporary file, of which the system keeps in memory what it has room for.
    """
    first = 0
    schema = rows([], 0).schema
    with tempfile.TemporaryFile() as file:
        path = (
            f"/dev/fd/{file.fileno()}"  # it has no name, so nothing is left of it when the process is killed
        )
        with _spilling(), pa.OSFile(path, "wb") as sink, pa.ipc.new_stream(sink, schema) as writer:
            for some in chunks(items):
                writer.write_table(rows(some, first))
                first += len(some)
        return pa.ipc.open_stream(pa.memory_map(path)).read_all()


def _pack(items: list[Any]) -> bytes:
    stream = io.BytesIO()
    pickler = pickle.Pickler(stream, pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = _REDUCERS
    pickler.dump(items)
    return zlib.compress(stream.getbuffer(), _FASTEST)


def _unpack(chunk: bytes) -> list[Any]:
    return pickle.loads(zlib.decompress(chunk))

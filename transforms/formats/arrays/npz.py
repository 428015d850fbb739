"""NPZ: several arrays of numpy in a zip archive; those that are not compressed are read by range."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import struct
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO, ClassVar

import numpy as np

from ...elements import Description
from ...rejects import Reason, RejectError
from ..array_shape import read_shape
from ..attributes import Value, plain_value
from ..base import ReadSettings
from ..members import Member, describe_member, named, read_range, require_numbers, select, split_row
from ..samples import scaling
from ..whole import DecodedCache, require_decodable
from .npy import HEAD_BYTES, parse_header, read_up_to
from .stored import StoredArray, from_locator, read_stored

_ENTRY_HEADER = struct.Struct("<4s5HIIIHH")  # as it stands before each entry's bytes
_DEFLATE_RATIO = 1032  # no deflated byte gives more
_PIECE_BYTES = 1 << 20
_VALUE_KINDS = "biufUS"


class NpzReader:
    """Files of `numpy.savez` and `savez_compressed`; arrays of one element are attributes of the others."""

    name: ClassVar[str] = "npz"
    suffixes: ClassVar[tuple[str, ...]] = (".npz",)
    needs_header: ClassVar[bool] = True
    takes_folder: ClassVar[bool] = False

    def __init__(self, settings: ReadSettings):
        self._settings = settings
        self._decoded = DecodedCache()

    @staticmethod
    def matches(head: bytes) -> bool:
        """A zip archive whose first entry is an NPY file."""
        if not head.startswith(b"PK\x03\x04") or len(head) < _ENTRY_HEADER.size:
            return False
        length = _ENTRY_HEADER.unpack_from(head)[9]
        return head[_ENTRY_HEADER.size : _ENTRY_HEADER.size + length].endswith(b".npy")

    def describe(self, file: BinaryIO | None, size: int) -> list[Description | RejectError]:
        """From the archive's directory and each array's header."""
        assert file is not None
        if size == 0:
            raise RejectError(Reason.EMPTY, "the file has 0 bytes")
        entries: dict[str, Member | RejectError] = {}
        values: dict[str, Value] = {}
        archive = _open(file)
        for entry in archive.infolist():
            name = entry.filename.removesuffix(".npy")
            if name == entry.filename:
                continue
            try:
                head = _read_entry(archive, entry, HEAD_BYTES)
                array = parse_header(head, entry.file_size)
                value = _single_value(array, head)
                if value is None:
                    entries[name] = self._member(name, array, file, entry, size)
                else:
                    values[name] = value
            except RejectError as error:
                entries[name] = named(error, name)
        described: list[Description | RejectError] = []
        for member in select(entries, self._settings):
            if isinstance(member, RejectError):
                described.append(member)
            else:
                member = dataclasses.replace(member, values=values)
                described += describe_member(self.name, member, self._settings)
        return described

    def _member(
        self, name: str, array: StoredArray, file: BinaryIO, entry: zipfile.ZipInfo, size: int
    ) -> Member:
        require_numbers(array.dtype)
        if array.num_bytes > entry.file_size - array.offset:
            raise RejectError(
                Reason.TRUNCATED,
                f"the header promises an array of shape {array.shape}, but {entry.file_size} bytes are in the archive",
            )
        if entry.compress_type == zipfile.ZIP_STORED:
            offset = _data_offset(file, entry)
            if offset + entry.file_size > size:
                raise RejectError(
                    Reason.TRUNCATED, "the archive's directory points beyond the end of the file"
                )
            array = StoredArray(offset + array.offset, array.dtype, array.shape, array.fortran)
            locator = "@" + array.to_locator()
        else:
            require_decodable(array.num_bytes, self._settings.decode_limit)
            if entry.file_size > entry.compress_size * _DEFLATE_RATIO:
                raise RejectError(
                    Reason.CORRUPT,
                    f"{entry.compress_size} bytes cannot hold {entry.file_size}, as the archive's directory says",
                )
            locator = f"z{entry.header_offset}:{entry.filename}"
        return Member(name, array.shape, array.dtype, locator)

    def read(self, file: BinaryIO, locator: str, channel: int, start: int, out: np.ndarray) -> None:
        """By range where the array is stored as it is, else from the decoded array."""
        locator, row = split_row(locator, self._settings)
        other = row or channel
        if locator[0] == "@":
            array = from_locator(locator[1:])
            shape = read_shape(array.shape, self._settings.array_axes)
            read_stored(file, array, shape, other, start, out, scaling(self._settings.scale, array.dtype))
            return
        decoded = self._decoded.get(file, locator, lambda: self._decode(file, locator[1:]))
        shape = read_shape(decoded.shape, self._settings.array_axes)
        read_range(decoded, shape, other, start, out, scaling(self._settings.scale, decoded.dtype))

    def _decode(self, file: BinaryIO, locator: str) -> np.ndarray:
        offset, _, filename = locator.partition(":")
        archive = _open(file)
        entry = next(
            (e for e in archive.infolist() if (str(e.header_offset), e.filename) == (offset, filename)), None
        )
        if entry is None:
            raise RejectError(Reason.CORRUPT, f"the archive no longer holds {filename} where it did")
        array = parse_header(_read_entry(archive, entry, HEAD_BYTES), entry.file_size)
        require_decodable(array.num_bytes, self._settings.decode_limit)
        content = np.empty(array.num_bytes, np.uint8)
        with _reported(), archive.open(entry) as stream:
            stream.read(array.offset)
            done = 0
            while done < len(content):
                piece = stream.read(min(_PIECE_BYTES, len(content) - done))
                if not piece:
                    raise RejectError(
                        Reason.CORRUPT,
                        f"{filename} gives {done} bytes of the {len(content)} that its header promises",
                    )
                content[done : done + len(piece)] = np.frombuffer(piece, np.uint8)
                done += len(piece)
            stream.read(1)  # at the end the checksum is compared
        decoded = content.view(array.dtype)
        return decoded.reshape(array.shape, order="F" if array.fortran else "C")


@contextlib.contextmanager
def _reported() -> Iterator[None]:
    """What zipfile and zlib say of damaged archives, as rejects; errors of the file itself pass."""
    try:
        yield
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise RejectError(Reason.CORRUPT, f"the archive is damaged: {error}") from error
    except RuntimeError as error:  # a password, or a compression that is not known
        raise RejectError(Reason.BAD_FORMAT, f"the archive cannot be read: {error}") from error


def _open(file: BinaryIO) -> zipfile.ZipFile:
    file.seek(0)
    cut = file.read(4) == b"PK\x03\x04"
    try:
        return zipfile.ZipFile(file)
    except zipfile.BadZipFile as error:
        if cut and "not a zip file" in str(error):
            raise RejectError(
                Reason.TRUNCATED,
                "the archive's directory, which stands at its end, is missing: the file is cut short",
            ) from error
        raise RejectError(Reason.BAD_FORMAT, f"it is no readable zip archive: {error}") from error
    # fields of the directory that point nowhere end in these
    except (NotImplementedError, ValueError, struct.error, OverflowError, UnicodeDecodeError) as error:
        raise RejectError(Reason.BAD_FORMAT, f"it is no readable zip archive: {error}") from error


def _read_entry(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, count: int) -> bytes:
    """The first `count` bytes of an entry."""
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise RejectError(
            Reason.BAD_FORMAT,
            f"compression {entry.compress_type} of the archive is not supported: numpy writes stored and deflated ones",
        )
    with _reported(), archive.open(entry) as stream:
        return read_up_to(stream, count)  # type: ignore[arg-type]


def _data_offset(file: BinaryIO, entry: zipfile.ZipInfo) -> int:
    """Where the bytes of an entry begin."""
    file.seek(entry.header_offset)
    header = read_up_to(file, _ENTRY_HEADER.size)
    if len(header) < _ENTRY_HEADER.size:
        raise RejectError(Reason.TRUNCATED, "the archive's directory points beyond the end of the file")
    fields = _ENTRY_HEADER.unpack(header)
    return entry.header_offset + _ENTRY_HEADER.size + fields[9] + fields[10]


def _single_value(array: StoredArray, head: bytes) -> Value | None:
    """The number or text of an array of one element, or None where it is another array."""
    if math.prod(array.shape) != 1 or array.dtype.kind not in _VALUE_KINDS:
        return None
    element = head[array.offset : array.offset + array.dtype.itemsize]
    if not element or len(element) < array.dtype.itemsize:
        return None
    return plain_value(np.frombuffer(element, array.dtype))

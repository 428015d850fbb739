"""MAT: variables of MATLAB 4, 5 to 7, and 7.3, which is HDF5."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from typing import Any, BinaryIO, ClassVar

import numpy as np

from ...elements import Description
from ...rejects import Reason, RejectError
from ..array_shape import read_shape
from ..attributes import MOST_CHARACTERS, Value
from ..base import ReadSettings
from ..members import Member, NoSamplesError, named, read_range, split_row
from ..samples import scaling
from ..whole import DecodedCache, require_decodable
from .hdf5 import Hdf5Arrays, describe_hdf5, describe_selected
from .hdf5_files import open_hdf5, reported
from .hdf5_members import Found, list_children, to_member
from .hdf5_source import find_signature
from .hdf5_values import is_scalar, scalar_value
from .mat5 import iter_variables_5, load_compressed
from .mat_variables import Compressed, Variable, iter_variables_4, whole_value
from .npy import read_up_to
from .stored import frames_present

_TRANSPOSED = "T"
_OTHERS_73 = {"char": "text", "logical": "logical array", "cell": "cell array", "function_handle": "function"}
_MARK_5, _MARK_73 = b"MATLAB 5.0 MAT-file", b"MATLAB 7.3 MAT-file"


class MatReader:
    """Files of MATLAB, and those that GNU Octave and scipy write; a variable is a recording."""

    name: ClassVar[str] = "mat"
    suffixes: ClassVar[tuple[str, ...]] = (".mat",)
    needs_header: ClassVar[bool] = True
    takes_folder: ClassVar[bool] = False

    def __init__(self, settings: ReadSettings):
        self._settings = settings
        self._arrays = Hdf5Arrays(settings)
        self._decoded = DecodedCache()

    @staticmethod
    def matches(head: bytes) -> bool:
        """By the text that MATLAB begins its files with; version 4 has none and is known by name only."""
        return head.startswith(_MARK_5) or (head.startswith(_MARK_73) and find_signature(head) is not None)

    def describe(self, file: BinaryIO | None, size: int) -> list[Description | RejectError]:
        """From the variables' headers. Single numbers and short texts are attributes of all recordings."""
        assert file is not None
        if size == 0:
            raise RejectError(Reason.EMPTY, "the file has 0 bytes")
        file.seek(0)
        head = read_up_to(file, min(size, 4096))
        if find_signature(head) is not None:
            if head.startswith(b"MATLAB"):
                return self._describe_73(file, size)
            return describe_hdf5(file, size, self.name, self._settings)
        if head.startswith(_MARK_73):
            raise RejectError(
                Reason.TRUNCATED, f"MATLAB 7.3 begins, but no HDF5 follows: the file has {size} bytes"
            )
        # a MATLAB 4 file has a zero byte among its first four, a later one has not
        variables = (iter_variables_4 if b"\0" in head[:4] else iter_variables_5)(file, size)
        if b"\0" not in head[:4] and not head.startswith(b"MATLAB") and head[126:128] not in (b"IM", b"MI"):
            raise RejectError(
                Reason.BAD_FORMAT, "it begins neither as a MATLAB 5 or 7.3 file nor as a MATLAB 4 one"
            )
        values: dict[str, Value] = {}
        entries: dict[str, Member | RejectError] = {}
        for variable in variables:
            entries.pop(variable.name, None)  # of two with one name the later counts, as in MATLAB
            if variable.value is not None:
                values[variable.name] = variable.value
            else:
                values.pop(variable.name, None)
                entries[variable.name] = self._to_member(variable, size, values)
        return describe_selected(self.name, entries, self._settings)

    def _to_member(self, variable: Variable, size: int, values: dict[str, Value]) -> Member | RejectError:
        array = variable.array
        try:
            if array is None:
                return _no_numbers(variable.name, variable.kind or "variable")
            where, frames = variable.compressed, None
            locator = "@" + array.to_locator()
            if variable.cut:
                message = f"{variable.cut} compressed bytes are missing: the file is cut short"
                return RejectError(Reason.TRUNCATED, message, variable.name)
            if array.shape == (0, 0):
                return _nothing(variable.name)
            if math.prod(array.shape) == 1:
                return _no_numbers(variable.name, "single number")
            if where is not None:
                require_decodable(where.inflated, self._settings.decode_limit)
                locator = f"z{where.offset} {where.num_bytes} {where.inflated} {where.order}"
            elif 0 not in array.shape:
                frames = frames_present(array, size, self._settings)
        except RejectError as error:
            return named(error, variable.name)
        return Member(
            name=variable.name,
            shape=array.shape,
            dtype=array.sample_dtype,
            locator=locator,
            values=values,
            frames_present=frames,
        )

    def _describe_73(self, file: Any, size: int) -> list[Description | RejectError]:

        values: dict[str, Value] = {}
        variables: dict[str, tuple[Any, str]] = {}
        entries: dict[str, Member | RejectError] = {}
        with open_hdf5(file) as opened:
            for name, item in list_children(opened, ""):
                if name.startswith("#"):  # what cells and objects refer to
                    continue
                if isinstance(item, RejectError):
                    entries[name] = item
                    continue
                kind = _kind_73(item, name)
                value = _value_73(item, kind, file)
                if value is None:
                    variables[name] = item, kind
                else:
                    values[name] = value
            for name, (item, kind) in variables.items():
                if kind == "empty" or (kind == "numbers" and item.shape == (0, 0)):
                    entries[name] = _nothing(name)
                elif kind != "numbers":
                    entries[name] = _no_numbers(name, kind)
                else:
                    found = Found(name, item, [values])
                    member = to_member(found, size, self._settings, transposed=True)
                    if isinstance(member, Member):
                        member = dataclasses.replace(member, locator=_TRANSPOSED + member.locator)
                    entries[name] = member
            return describe_selected(self.name, entries, self._settings)

    def read(self, file: BinaryIO, locator: str, channel: int, start: int, out: np.ndarray) -> None:
        """By range, but for compressed variables of MATLAB 7, which are decoded whole."""
        settings = self._settings
        locator, row = split_row(locator, settings)
        other = row or channel
        if locator[0] == "z":
            decoded = self._decoded.get(file, locator, lambda: _load(file, locator[1:], settings))
            shape = read_shape(decoded.shape, settings.array_axes)
            read_range(decoded, shape, other, start, out, scaling(settings.scale, decoded.dtype))
        else:
            transposed = locator.startswith(_TRANSPOSED)
            place = locator.removeprefix(_TRANSPOSED)
            self._arrays.read(file, place, other, start, out, transposed=transposed)


def _no_numbers(name: str, kind: str) -> RejectError:
    return NoSamplesError(
        Reason.BAD_FORMAT,
        f"{name} is no array of numbers but a {kind}: save what it holds as a variable of its own",
        name,
    )


def _nothing(name: str) -> RejectError:
    """[], which programs leave behind: no recording that lost its samples."""
    return NoSamplesError(Reason.EMPTY, f"{name} is []: no sample", name)


def _load(file: BinaryIO, locator: str, settings: ReadSettings) -> np.ndarray:
    offset, num_bytes, inflated, order = locator.split(" ")
    require_decodable(int(inflated), settings.decode_limit)
    return load_compressed(file, Compressed(int(offset), int(num_bytes), int(inflated), order))


def _kind_73(item: Any, name: str) -> str:
    """What a variable of MATLAB 7.3 is, in a user's words; "numbers" or "empty" where it may be samples."""
    import h5py

    with reported(name):
        if isinstance(item, h5py.Group):
            return "sparse array" if "MATLAB_sparse" in item.attrs else "struct"
        kind = item.attrs.get("MATLAB_class", b"")
        kind = kind.decode("ascii", "replace") if isinstance(kind, bytes) else str(kind)
        if kind in _OTHERS_73:
            return _OTHERS_73[kind]
        return "empty" if item.shape is None or item.attrs.get("MATLAB_empty", 0) else "numbers"


def _value_73(item: Any, kind: str, file: BinaryIO) -> Value | None:
    """The number, or the text of one row, that a variable of MATLAB 7.3 is; else None."""
    if kind in ("numbers", "logical array"):
        return whole_value(scalar_value(item, file)) if is_scalar(item) else None
    if kind == "text" and item.dtype == np.uint16 and item.ndim == 2 and item.shape[1] == 1:
        with contextlib.suppress(RejectError), reported(item.name):
            if item.shape[0] <= MOST_CHARACTERS and "MATLAB_empty" not in item.attrs:
                return item[:].astype("<u2").tobytes().decode("utf-16-le", "replace")
    return None

"""Arrays in a file as its recordings: which are taken, how they are described, how a range is cut out."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..elements import Description
from ..rejects import Reason, RejectError
from .array_shape import ArrayShape, read_shape
from .attributes import Value, find_rate, find_start, kept
from .base import choose_members, short_read
from .samples import store
from .settings import ReadSettings

PIECE_BYTES = 4 << 20
MOST_ROWS = 1 << 20  # a description takes about 1 KiB


@dataclasses.dataclass(frozen=True)
class Member:
    """An array of numbers in a file.

    Attributes:
      name: within the file; None where the array is all of it.
      shape: as its writer saw it.
      dtype: of the samples.
      locator: what the reader finds it by.
      values: what the file tells of it, the nearest first.
      warnings: what is odd about it.
      frames_present: samples per channel that are there, where the file is cut short.
      is_complex: whether a sample is a complex number, though dtype may be a pair of numbers.
    """

    name: str | None
    shape: tuple[int, ...]
    dtype: np.dtype
    locator: str
    values: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    frames_present: int | None = None
    is_complex: bool = False


class NoSamplesError(RejectError):
    """What stands in a file beside the samples, such as records or texts: told of only where it is asked for."""


def named(error: RejectError, name: str | None) -> RejectError:
    """The same reject, of a member."""
    error.member = name
    return error


def require_numbers(dtype: np.dtype) -> None:
    """Holds a type against those that samples have: i1 to i8, u1 to u8, f2 to f8, c8, c16.

    Raises:
      NoSamplesError: it is another.
    """
    if (dtype.kind in "iuf" and dtype.itemsize <= 8) or (dtype.kind == "c" and dtype.itemsize <= 16):
        return
    if dtype.hasobject:
        what = "pickled objects, which are never loaded since that runs code: save it again as an array of numbers"
    elif dtype.kind == "V":
        what = f"records ({str(dtype)[:80]}): save each field as an array of its own"
    else:
        what = f"{dtype.str}, no numbers of 1 to 8 bytes: save it as integers or floats"
    raise NoSamplesError(Reason.BAD_FORMAT, f"the array holds {what}")


def select(
    entries: Mapping[str, Any],
    settings: ReadSettings,
    hidden: Mapping[str, Any] | None = None,
) -> list[Any]:
    """The entries of a file to describe, in the file's order: those that fit `members`, else all with samples.

    Args:
      entries: by name, members or, for what cannot be used, a `RejectError`.
      settings: `members` decides.
      hidden: further entries, which are taken only where a pattern asks for them.

    Raises:
      RejectError: `no_member` where nothing fits or nothing is there.
    """
    everything = {**entries, **(hidden or {})}
    if settings.members:
        return [everything[name] for name in choose_members(list(everything), settings.members)]
    samples = [entry for entry in entries.values() if not isinstance(entry, NoSamplesError)]
    if not everything:
        raise RejectError(Reason.NO_MEMBER, "the file holds no array of numbers with more than one element")
    return samples or list(everything.values())


def describe_member(
    format_name: str, member: Member, settings: ReadSettings
) -> list[Description | RejectError]:
    """One description a recording: the array, or with array_axes=recording,time each of its rows."""
    if 0 in member.shape:
        return [RejectError(Reason.EMPTY, f"the array has shape {member.shape}: no sample", member.name)]
    try:
        shape = read_shape(member.shape, settings.array_axes)
        if shape.recordings > MOST_ROWS:
            raise RejectError(
                Reason.TOO_LARGE,
                f"an array of shape {member.shape} has more than {MOST_ROWS} recordings: split it, "
                "or check array_axes",
            )
    except RejectError as error:
        return [named(error, member.name)]
    frames = shape.frames if member.frames_present is None else member.frames_present
    warnings = member.warnings
    if frames != shape.frames:
        warnings = (f"the header promises {shape.frames} frames, {frames} are there", *warnings)
    start_ns, time_warnings = find_start(member.values, settings.time_key)
    attributes = kept(member.values)
    unit = member.values.get("unit", member.values.get("units"))
    by_row = settings.array_axes == "recording,time"
    rows: Sequence[int | None] = range(shape.recordings) if shape.recordings > 1 else [None]
    return [
        Description(
            format=format_name,
            sample_rate=find_rate(member.values, settings.rate_key),
            channels=shape.channels,
            frames=frames,
            dtype=member.dtype.str,
            frames_declared=shape.frames if frames != shape.frames else None,
            warnings=warnings + time_warnings,
            member=member.name
            if row is None
            else str(row)
            if member.name is None
            else f"{member.name}/{row}",
            locator=f"{member.locator}#{row or 0}" if by_row else member.locator,
            is_complex=member.is_complex or member.dtype.kind == "c",
            unit=unit if isinstance(unit, str) and unit else None,
            start_time_ns=start_ns,
            attributes=attributes,
        )
        for row in rows
    ]


def split_row(locator: str, settings: ReadSettings) -> tuple[str, int]:
    """(locator of the array, row) of a description's locator."""
    if settings.array_axes != "recording,time":
        return locator, 0
    array, _, row = locator.rpartition("#")
    return array, int(row)


def as_complex(pairs: np.ndarray) -> np.ndarray:
    """Records of a real and an imaginary part as complex numbers; other arrays as they are."""
    names = pairs.dtype.names
    if names is None:
        return pairs
    whole = np.empty(
        pairs.shape, np.complex64 if pairs.dtype[0] in (np.float16, np.float32) else np.complex128
    )
    whole.real, whole.imag = pairs[names[0]], pairs[names[1]]  # 1j × infinity would spoil the real part
    return whole


def is_complex_pair(dtype: np.dtype) -> bool:
    """Whether a record is a complex number under another name, as MATLAB writes it."""
    names = tuple(dtype.names or ())
    if tuple(name.lower() for name in names) not in (("real", "imag"), ("r", "i"), ("re", "im")):
        return False
    real, imaginary = (dtype[name] for name in names)
    return real == imaginary and real.kind in "iuf" and real.itemsize <= 8


def read_range(
    array: Any,
    shape: ArrayShape,
    other: int,
    start: int,
    out: np.ndarray,
    scaling: tuple[float, float],
    *,
    transposed: bool = False,
) -> None:
    """Fills `out` [samples] from anything that is sliced as a numpy array, by pieces of 4 MiB.

    Args:
      array: with `shape`, and a slice gives the numbers.
      shape: how it is read.
      other: index on the axis of channels or recordings.
      start: first sample.
      out: as `Reader.read` has it.
      scaling: (offset, factor).
      transposed: whether the axes are stored in the reverse order of `shape`.

    Raises:
      RejectError: the range is not there.
    """
    if start + len(out) > shape.frames:
        raise short_read(start, len(out), max(0, shape.frames - start))
    index: list[int | slice] = [0] * len(array.shape)
    last = len(index) - 1
    if shape.other_axis is not None:
        index[last - shape.other_axis if transposed else shape.other_axis] = other
    time_axis = shape.time_axis
    if time_axis is not None and transposed:
        time_axis = last - time_axis
    piece = max(1, PIECE_BYTES // max(1, array.dtype.itemsize))
    for first in range(0, len(out), piece):
        part = out[first : first + piece]
        if time_axis is not None:
            index[time_axis] = slice(start + first, start + first + len(part))
        store(as_complex(np.asarray(array[tuple(index)]).reshape(-1)), part, *scaling)


def count_bytes(shape: tuple[int, ...], dtype: np.dtype) -> int:
    """Bytes of an array; exact, however large a header's numbers are."""
    return math.prod(shape) * dtype.itemsize

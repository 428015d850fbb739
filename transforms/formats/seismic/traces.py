"""What the seismological formats share: names of traces, and calls of ObsPy."""

from __future__ import annotations

import collections
import io
import threading
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...rejects import Reason, RejectError
from ..base import MissingExtraError

COUNTS = "counts"
_LOCK = (
    threading.Lock()
)  # catching warnings is not safe in several threads; ObsPy holds the GIL most of the time


def trace_id(network: str, station: str, location: str, channel: str) -> str:
    """The name of a trace as ObsPy and the FDSN write it.

    >>> trace_id("BW", "BGLD", "", "EHE")
    'BW.BGLD..EHE'
    """
    return ".".join((network, station, location, channel))


def member_names(ids: Sequence[str], starts: Sequence[int]) -> list[str]:
    """Names that are unique: the trace's id, with its start where several have it.

    >>> member_names(["A", "B", "B"], [0, 0, 1_500_000_000])
    ['A', 'B@1970-01-01T00:00:00.000000Z', 'B@1970-01-01T00:00:01.500000Z']
    """
    several = collections.Counter(ids)
    taken: collections.Counter[str] = collections.Counter()
    names = []
    for each, start in zip(ids, starts, strict=True):
        name = f"{each}@{np.datetime64(start, 'ns').astype('M8[us]')}Z" if several[each] > 1 else each
        taken[name] += 1
        names.append(name if taken[name] == 1 else f"{name}#{taken[name]}")
    return names


def as_counts(scale: str | float, dtype: np.dtype) -> str | None:
    """The unit of samples that a digitizer wrote as integers."""
    return COUNTS if dtype.kind in "iu" and scale in ("auto", "none") else None


def require_obspy(what: str) -> Any:
    """The package.

    Raises:
      MissingExtraError: it is not installed.
    """
    try:
        import obspy
    except ImportError as error:
        raise MissingExtraError(what, "obspy", "seismic") from error
    return obspy


def read_traces(content: bytes, format_name: str, what: str, **more: Any) -> tuple[list[Any], list[str]]:
    """ObsPy's traces of a file's bytes, and what ObsPy warned of, a line each.

    Never by name: ObsPy takes names for glob patterns and addresses, and unpacks archives.

    Raises:
      MissingExtraError: ObsPy is not installed.
      RejectError: ObsPy does not understand the bytes.
    """
    obspy = require_obspy(what)
    with _LOCK, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            stream = obspy.read(io.BytesIO(content), format=format_name, check_compression=False, **more)
        except Exception as error:  # ObsPy raises plain Exception, and whatever its parsers stumble over
            reason = Reason.BAD_FORMAT if more.get("headonly") else Reason.CORRUPT
            raise RejectError(reason, f"ObsPy cannot read it as {what}: {_one_line(error)}") from error
    return list(stream), [_one_line(each.message) for each in caught if "obspy" in each.filename]


def _one_line(message: object) -> str:
    return " ".join(str(message).split())[:300] or type(message).__name__

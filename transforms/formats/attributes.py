"""Small values that a file tells of its recordings: kept for labels, searched for the rate and the time."""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

Value = str | int | float

MOST_ATTRIBUTES = 64
MOST_CHARACTERS = 1000
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?))?\s*(Z|UTC|[+-]\d\d:?\d\d)?",
    re.IGNORECASE,
)
_MOST_S = 9_223_372_036  # nanoseconds since 1970 are kept in 64 bits
_YEARS = (1678, 2261)


def plain_value(value: Any) -> Value | None:
    """A scalar, or an array of one element, as text or number; None for what is neither.

    >>> plain_value(np.array([[1797]], np.uint16))
    1797
    """
    if isinstance(value, np.ndarray):
        if value.size != 1:
            return None
        value = value.reshape(-1)[0]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, str):
        return value.rstrip("\0") if len(value) <= MOST_CHARACTERS else None
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return None  # the ledger keeps 64 bits
    return value if isinstance(value, (int, float)) else None


def merge_scopes(scopes: Iterable[Mapping[str, Value]]) -> dict[str, Value]:
    """All values by name; of two with one name the first scope's counts, so the nearest comes first."""
    merged: dict[str, Value] = {}
    for scope in scopes:
        for name, value in scope.items():
            merged.setdefault(name, value)
    return merged


def kept(values: Mapping[str, Value]) -> dict[str, Value]:
    """The first `MOST_ATTRIBUTES` of them, which is what a description carries."""
    return dict(list(values.items())[:MOST_ATTRIBUTES])


def find_value(values: Mapping[str, Value], key: str | None) -> Value | None:
    """The value under a name, or under the first that fits it as a glob."""
    if key is None:
        return None
    if key in values:
        return values[key]
    return next((value for name, value in values.items() if fnmatch.fnmatchcase(name, key)), None)


def find_rate(values: Mapping[str, Value], key: str | None) -> float | None:
    """The sample rate in Hz, as it stands there, or None where it does not or is no number."""
    value = find_value(values, key)
    try:
        return None if value is None else float(value)
    except (ValueError, OverflowError):
        return None


def find_start(values: Mapping[str, Value], key: str | None) -> tuple[int | None, tuple[str, ...]]:
    """Time of the first sample, ns since 1970 UTC, and a warning where what stands there is no time."""
    value = find_value(values, key)
    if value is None:
        return None, ()
    time_ns = parse_time(value)
    if time_ns is not None:
        return time_ns, ()
    return None, (f"time_key={key}: {str(value)[:40]!r} is neither ISO 8601 text nor seconds since 1970",)


def parse_time(value: Value) -> int | None:
    """Nanoseconds since 1970 UTC of ISO 8601 text (UTC where it has no zone) or seconds since 1970.

    >>> parse_time("1970-01-01T01:00:00.5+01:00")
    500000000
    """
    if isinstance(value, str):
        match = _TIME.fullmatch(value.strip())
        if match:
            return _parse_iso(*match.groups())
        try:
            value = float(value)
        except ValueError:
            return None
    if not abs(value) <= _MOST_S:  # neither is NaN
        return None
    whole = math.floor(value)  # apart from the fraction, so that its digits stay
    return whole * 10**9 + round((value - whole) * 10**9)


def _parse_iso(day: str, clock: str | None, zone: str | None) -> int | None:
    if not _YEARS[0] <= int(day[:4]) <= _YEARS[1]:
        return None
    try:
        time = np.datetime64(f"{day}T{(clock or '00:00').replace(',', '.')}", "ns")
    except ValueError:  # no such day or hour
        return None
    east_s = 0
    if zone and zone[0] in "+-":
        digits = zone[1:].replace(":", "")
        east_s = (int(digits[:2]) * 3600 + int(digits[2:]) * 60) * (-1 if zone[0] == "-" else 1)
    return int(time.astype(np.int64)) - east_s * 10**9

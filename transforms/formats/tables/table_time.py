"""The time column of a table: its name, the sample rate that it gives, and the gaps in it."""

from __future__ import annotations

import dataclasses
import re

import numpy as np

_UNITS_S = {
    "s": 1.0, "sec": 1.0, "secs": 1.0, "second": 1.0, "seconds": 1.0,
    "ms": 1e-3, "msec": 1e-3, "millis": 1e-3, "milliseconds": 1e-3,
    "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "usec": 1e-6, "micros": 1e-6, "microseconds": 1e-6,
    "ns": 1e-9, "nsec": 1e-9, "nanos": 1e-9, "nanoseconds": 1e-9,
    "min": 60.0, "h": 3600.0,
}  # fmt: skip
_NAME = re.compile(
    r"(t|(?:elapsed|relative|rel)?[ _]?time|time[ _]?stamp|date(?:[ _/]?time)?|time[ _]elapsed|elapsed)"
    r"\s*(?:[\[(<{]\s*([^\])>}]*?)\s*[\])>}]|[ _.,/-]+(\w+))?",
    re.IGNORECASE,
)
_LARGEST_S = 1e10  # 300 years: seconds since 1970 are below, milliseconds above
_COARSE = 1 / 20
_WINDOW = 100
_JITTER = _JITTER_SHARE = 0.05
_MOST_BREAKS_SHARE = 0.1
_EXACT = 1e-9  # of a rate: below what any clock keeps
_MANY_ROWS = 20
_PERIOD_COST = 2  # a short period counts only where the rate takes two digits more


class RowError(ValueError):
    """The time of one row cannot be right.

    Args:
      row: from 0, of the table's data.
      message: what is wrong.
    """

    def __init__(self, row: int, message: str):
        super().__init__(message)
        self.row = row


class UnitError(ValueError):
    """What one unit of a time column is, cannot be told."""


@dataclasses.dataclass(frozen=True)
class Stretch:
    """Rows without a gap in time.

    Attributes:
      first: row, from 0.
      frames: how many rows.
      sample_rate: Hz, or None where there is one row only.
    """

    first: int
    frames: int
    sample_rate: float | None


def is_time_name(name: str) -> bool:
    """Whether a column of that name holds times.

    >>> [is_time_name(name) for name in ("Time (ms)", "time_s", "T [°C]", "timer")]
    [True, True, False, False]
    """
    match = _NAME.fullmatch(name.strip())
    if match is None:
        return False
    bracket, suffix = match[2], match[3]
    if suffix is not None or (match[1].lower() == "t" and bracket is not None):
        return _unit(suffix or bracket or "") is not None
    return True


def _seconds_per_unit(name: str) -> float | None:
    """What one unit of a time column is by its name, or None where the name tells no unit."""
    match = _NAME.fullmatch(name.strip())
    text = (
        (match[2] or match[3] or "")
        if match
        else (re.findall(r"[\[(]\s*([^\])]*?)\s*[\])]", name) or [""])[-1]
    )
    if not text:
        return None
    unit = _unit(text)
    if unit is None:
        raise UnitError(
            f"the unit {text!r} of time column {name!r} is none of s, ms, us, ns, min, h: rename it"
        )
    return unit


def _unit(text: str) -> float | None:
    return _UNITS_S.get(text.strip().lower())


def to_seconds(times: np.ndarray, name: str, resolution: float) -> tuple[np.ndarray, float]:
    """Times since the first, float64 s, NaN where missing, and one unit of their last digit in seconds.

    Args:
      times: float64 [rows] in the unit that the name tells, or int64 ns with the least integer where missing.
      name: of the column.
      resolution: one unit of the last digit as printed, of ISO 8601 times in seconds.

    Raises:
      UnitError: the name tells a unit that is not known, or none and the numbers are too large for seconds.
    """
    if times.dtype == np.int64:
        missing = times == np.iinfo(np.int64).min
        return np.where(missing, np.nan, (times - times[0]) * 1e-9), resolution
    unit = _seconds_per_unit(name)
    largest = float(np.abs(times[np.isfinite(times)]).max(initial=0))
    if unit is None and largest > _LARGEST_S:
        raise UnitError(
            f"the times in column {name or 'of numbers'} are too large for seconds: write the unit into its header, such "
            "as time_ms or time [ns]"
        )
    unit = unit or 1.0
    # the difference comes first, since it is exact
    return (times - times[0]) * unit, max(resolution, float(np.spacing(largest))) * unit


def find_stretches(times_s: np.ndarray, resolution_s: float) -> tuple[list[Stretch], tuple[str, ...]]:
    """Rows cut where time jumps, each stretch with its rate, and what is odd about the times.

    The median step is the period; a step that is off by more than half of it begins a new stretch. The rate is
    (rows − 1) / (last − first) over all stretches; a stretch that does not fit it has its own. It is
    brought to the rate or period of fewest decimal digits within the error that the printed digits leave.

    Args:
      times_s: float64 [rows].
      resolution_s: one unit of the last printed digit, 0 where times are exact.

    Raises:
      RowError: time is missing, stands still or runs backwards, or there is no common step.
    """
    missing = np.flatnonzero(~np.isfinite(times_s))
    if len(missing):
        raise RowError(int(missing[0]), "its time is missing")
    if len(times_s) == 1:
        return [Stretch(0, 1, None)], ()
    steps = np.diff(times_s)
    wrong = np.flatnonzero(steps <= 0)
    if len(wrong):
        before, after = (float(times_s[row]) for row in (wrong[0], wrong[0] + 1))
        what = "stands still at" if before == after else f"runs backwards from {before:.12g} s to"
        raise RowError(int(wrong[0]) + 1, f"time {what} {after:.12g} s")
    rounding = max(resolution_s, 8 * float(np.spacing(np.abs(times_s).max())))
    period, slack = _period(times_s, steps, rounding)
    off = np.abs(steps - period)
    breaks = off > period * (0.5 + 1e-6) + slack
    firsts = np.concatenate(([0], np.flatnonzero(breaks) + 1))
    if len(firsts) > 10 and len(firsts) > len(times_s) * _MOST_BREAKS_SHARE:
        raise RowError(
            int(firsts[1]),
            f"time has no common step: {len(firsts) - 1} of {len(steps)} are far from {period:.6g} s",
        )
    counts = np.diff(np.concatenate((firsts, [len(times_s)])))
    off = off[~breaks]
    even = len(steps) >= _MANY_ROWS and bool(
        (off <= rounding / 1e3 + 8 * np.spacing(np.abs(times_s).max())).all()
    )
    warnings = _jitter(off, period, rounding)
    stretches, error = _rates(times_s, firsts, counts, period, 0.0 if even else rounding)
    if error > 1e-3 and len(steps) >= _MANY_ROWS and not even:
        warnings += (f"time is printed so coarsely that the rate is known to ±{100 * error:.2g} % only",)
    return stretches, warnings


def _period(times_s: np.ndarray, steps: np.ndarray, rounding: float) -> tuple[float, float]:
    """The median step, and by how much rounding alone may move a step."""
    period = float(np.median(steps))
    if rounding <= _COARSE * period:
        return period, rounding
    # steps of 1, 1, 2, 1 … units: over a longer way their rounding averages out
    window = min(_WINDOW, max(1, len(steps) // 4))
    period = float(np.median(times_s[window:] - times_s[:-window])) / window
    units = period / rounding
    return period, (0.0 if abs(units - round(units)) <= 1 / _WINDOW else rounding)


def _jitter(off: np.ndarray, period: float, rounding: float) -> tuple[str, ...]:
    if not len(off):
        return ()
    loose = off > max(_JITTER * period, rounding * 1.001)
    share = float(loose.mean())
    if share <= _JITTER_SHARE:
        return ()
    return (
        f"{100 * share:.2g} % of the steps in time are off by more than {100 * _JITTER:.0f} % from {period:.6g} s, "
        f"up to {100 * float(off.max()) / period:.2g} %",
    )


def _rates(
    times_s: np.ndarray, firsts: np.ndarray, counts: np.ndarray, period: float, rounding: float
) -> tuple[list[Stretch], float]:
    """The stretches with their rates, and the relative error of the common one."""
    durations = times_s[firsts + counts - 1] - times_s[firsts]
    long = counts > 1
    if not long.any():
        return [Stretch(int(first), 1, None) for first in firsts], 0.0
    common = float((counts[long] - 1).sum() / durations[long].sum())
    error = max(_EXACT, rounding * int(long.sum()) / float(durations[long].sum()))
    snapped = snap_rate(common, error)
    stretches = []
    for first, count, duration in zip(firsts.tolist(), counts.tolist(), durations.tolist(), strict=True):
        rate = snapped
        if count > 1:
            own = (count - 1) / duration
            if abs(own - common) > common * (_EXACT + max(rounding, period / 2) / duration):  # another clock
                rate = snap_rate(own, max(_EXACT, rounding / duration))
        stretches.append(Stretch(first, count, rate))
    return stretches, error


def snap_rate(rate: float, error: float) -> float:
    """The rate, or one over the period, of fewest decimal digits that is within the relative error.

    >>> snap_rate(44100.3, 1e-5), snap_rate(3333.3332, 1e-6), snap_rate(99.8712345678, 1e-9)
    (44100.0, 3333.3333333333335, 99.8712345678)
    """
    for digits in range(7):
        candidates = [float(f"{rate:.{digits}e}")]
        if digits >= _PERIOD_COST:
            candidates.append(1 / float(f"{1 / rate:.{digits - _PERIOD_COST}e}"))
        for candidate in candidates:
            if abs(candidate - rate) <= error * rate:
                return candidate
    return rate

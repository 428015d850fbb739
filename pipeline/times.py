"""Times of day, as people write them, to nanoseconds since 1970."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal, InvalidOperation
from typing import Any

_MOST_SECONDS = 9 * 10**9  # what 64 bits of nanoseconds hold; milliseconds are above
_DATE = re.compile(r"(19|20)\d\d(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])")
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def parse_time_ns(value: Any) -> int | None:
    """Nanoseconds since 1970 UTC, of ISO 8601 text (UTC where it names no zone) or of seconds since then.

    >>> parse_time_ns("1970-01-01T00:00:01.5Z")
    1500000000

    Raises:
      ValueError: it is neither.
    """
    if value is None or value == "":
        return None
    if isinstance(value, datetime.datetime):
        return _of_datetime(value)
    if isinstance(value, bool):
        raise ValueError(f"{value} is no time: write ISO 8601, such as 2024-05-01T12:00:00Z")
    try:
        seconds = Decimal(str(value))
        if seconds.is_finite():
            if _DATE.fullmatch(str(value).removesuffix(".0")):
                raise ValueError(
                    f"{value} is no time in seconds since 1970: write ISO 8601, such as 2024-05-01T12:00:00Z"
                )
            return _of_seconds(seconds)
    except InvalidOperation:
        pass
    try:
        text, ns = _with_micros(str(value).strip())
        return _of_datetime(datetime.datetime.fromisoformat(text)) + ns
    except ValueError:
        raise ValueError(f"{value!r} is no time: write ISO 8601, such as 2024-05-01T12:00:00Z") from None


def _of_seconds(seconds: Decimal) -> int:
    if abs(seconds) >= _MOST_SECONDS:
        raise ValueError(
            f"{seconds} is no time in seconds since 1970: write ISO 8601, such as 2024-05-01T12:00:00Z"
        )
    return int((seconds * 10**9).to_integral_value())


def _with_micros(text: str) -> tuple[str, int]:
    """As Python 3.10 reads it, with +00:00 for Z and six digits of the second; and the nanoseconds after these."""
    text = text.removesuffix("Z") + "+00:00" if text.endswith("Z") else text
    head, point, rest = text.partition(".")
    digits = rest[: len(rest) - len(rest.lstrip("0123456789"))]
    if not (point and digits):
        return text, 0
    return f"{head}.{digits[:6]:0<6}{rest[len(digits) :]}", int(f"{digits[6:9]:0<3}")


def _of_datetime(value: datetime.datetime) -> int:
    if value.tzinfo is None:
        value = value.replace(tzinfo=datetime.timezone.utc)
    elapsed = value - _EPOCH
    if abs(elapsed.days) * 86_400 >= _MOST_SECONDS:
        raise ValueError(f"{value} is too far from 1970 for 64 bits of nanoseconds: correct it")
    return (
        (elapsed.days * 86_400 + elapsed.seconds) * 10**9
        + elapsed.microseconds * 1000
        + getattr(value, "nanosecond", 0)
    )


def to_iso(time_ns: int) -> str:
    """ISO 8601 in UTC, with nine digits of the second."""
    seconds, ns = divmod(time_ns, 10**9)
    return f"{(_EPOCH + datetime.timedelta(seconds=seconds)).strftime('%Y-%m-%dT%H:%M:%S')}.{ns:09d}Z"

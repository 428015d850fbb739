"""Times of day as people write them, against the standard library and by hand."""

import datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrabeam.pipeline.times import parse_time_ns, to_iso

UTC = datetime.timezone.utc
NOON = 1_714_564_800  # 2024-05-01T12:00:00Z, by date -u -d


@pytest.mark.parametrize(
    ("value", "ns"),
    [
        ("2024-05-01T12:00:00Z", NOON * 10**9),
        ("2024-05-01T12:00:00", NOON * 10**9),
        ("2024-05-01 12:00:00", NOON * 10**9),
        (" 2024-05-01T12:00:00Z ", NOON * 10**9),
        ("2024-05-01T14:00:00+02:00", NOON * 10**9),
        ("2024-05-01T12:00", NOON * 10**9),
        ("2024-05-01", (NOON - 43_200) * 10**9),
        ("2024-05-01T12:00:00.5Z", NOON * 10**9 + 500_000_000),
        ("2024-05-01T12:00:00.123456+00:00", NOON * 10**9 + 123_456_000),
        ("1969-12-31T23:59:59.5Z", -500_000_000),
        (NOON, NOON * 10**9),
        (str(NOON), NOON * 10**9),
        (f"{NOON}.123456789", NOON * 10**9 + 123_456_789),
        (NOON + 0.25, NOON * 10**9 + 250_000_000),
        (-1, -(10**9)),
        (datetime.datetime(2024, 5, 1, 12, tzinfo=UTC), NOON * 10**9),
        (datetime.datetime(2024, 5, 1, 12), NOON * 10**9),
        (None, None),
        ("", None),
    ],
)
def test_time_is_nanoseconds_since_1970(value, ns):
    assert parse_time_ns(value) == ns


def test_all_nine_digits_of_a_second_count():
    assert parse_time_ns("2024-05-01T12:00:00.123456789Z") == NOON * 10**9 + 123_456_789


def test_a_day_of_a_parquet_file_is_its_midnight():
    assert parse_time_ns(datetime.date(2024, 5, 1)) == (NOON - 43_200) * 10**9


@pytest.mark.parametrize(
    "value", ["noon", "2024-13-01", "12:00", True, "nan", "inf", "2024-05-01T12:00:00X", [1]]
)
def test_what_is_no_time_is_refused(value):
    with pytest.raises(ValueError, match="is no time: write ISO 8601, such as 2024-05-01T12:00:00Z"):
        parse_time_ns(value)


@pytest.mark.parametrize(
    "value", [NOON * 1000, str(NOON * 10**9), 20240501, "20240501", 20240501.0, 9 * 10**9, -9 * 10**9]
)
def test_numbers_that_are_milliseconds_or_dates_or_do_not_fit_are_refused(value):
    with pytest.raises(
        ValueError, match="is no time in seconds since 1970: write ISO 8601, such as 2024-05-01T"
    ):
        parse_time_ns(value)
    assert parse_time_ns(9 * 10**9 - 1) == (9 * 10**9 - 1) * 10**9


moments = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1))


@given(moments, st.integers(-14 * 60, 14 * 60))
def test_iso_text_with_a_zone_is_read_exactly(moment, offset):
    zoned = moment.replace(tzinfo=datetime.timezone(datetime.timedelta(minutes=offset)))
    elapsed = zoned - datetime.datetime(1970, 1, 1, tzinfo=UTC)
    expected = elapsed // datetime.timedelta(microseconds=1) * 1000
    assert parse_time_ns(zoned.isoformat()) == expected
    assert parse_time_ns(zoned) == expected
    assert parse_time_ns(Decimal(expected).scaleb(-9)) == expected


@given(moments, st.integers(0, 999_999_999))
def test_iso_text_comes_back(moment, ns):
    whole = moment.replace(microsecond=0, tzinfo=UTC)
    time_ns = int(whole.timestamp()) * 10**9 + ns
    assert to_iso(time_ns) == whole.strftime("%Y-%m-%dT%H:%M:%S") + f".{ns:09d}Z"

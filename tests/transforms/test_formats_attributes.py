"""Small values of files: what becomes an attribute, a rate, a time."""

import numpy as np
import pytest

from spectrabeam.transforms.formats.attributes import (
    MOST_ATTRIBUTES,
    find_rate,
    find_start,
    find_value,
    kept,
    merge_scopes,
    parse_time,
    plain_value,
)


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.float32(0.5), 0.5),
        (np.array([[7]], ">i2"), 7),
        (np.bool_(True), 1),
        (b"g\xff", "g\ufffd"),
        (np.array([b"abc\0"]), "abc"),
        ("x" * 1000, "x" * 1000),
        ("x" * 1001, None),
        (np.arange(2), None),
        (1j, None),
        (None, None),
        (2**63, None),
        (-(2**63), -(2**63)),
        ({"a": 1}, None),
    ],
)
def test_single_numbers_and_short_texts_are_plain_values(value, plain):
    assert plain_value(value) == plain
    assert type(plain_value(value)) in (int, float, str, type(None))


def test_the_nearest_scope_counts_and_at_most_64_are_kept():
    assert merge_scopes([{"a": 1}, {"a": 2, "b": 3}]) == {"a": 1, "b": 3}
    assert list(kept({str(number): number for number in range(100)})) == [
        str(number) for number in range(MOST_ATTRIBUTES)
    ]


def test_values_are_found_by_name_and_else_by_glob():
    values = {"X1_fs": 5, "*": 6}
    assert (find_value(values, "*"), find_value(values, "X*_fs"), find_value(values, "fs")) == (6, 5, None)
    assert find_value(values, None) is None


@pytest.mark.parametrize(
    ("value", "rate"),
    [(5, 5.0), ("12e3", 12000.0), ("fast", None), (-1, -1.0), (10**400, None), ("nan", "nan")],
)
def test_rates_are_numbers_or_texts_of_numbers_as_they_stand(value, rate):
    found = find_rate({"fs": value}, "fs")
    assert found == rate or str(found) == rate


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2024-02-29", 1709164800 * 10**9),
        ("2024-02-29T12:34:56", 1709210096 * 10**9),
        ("2024-02-29 12:34", 1709210040 * 10**9),
        ("2024-02-29T12:34:56.123456789Z", 1709210096123456789),
        ("2024-02-29T12:34:56,5+01:30", (1709210096 - 5400) * 10**9 + 5 * 10**8),
        ("2024-02-29T12:34:56 -0030", (1709210096 + 1800) * 10**9),
        (" 1709210096.25 ", 1709210096250000000),
        (1709210096, 1709210096 * 10**9),
        (-1.5, -1_500_000_000),
        ("2023-02-29", None),
        ("1500-01-01", None),
        ("2500-01-01", None),
        ("29.2.2024", None),
        (float("inf"), None),
        (1e18, None),
        (10**400, None),
    ],
)
def test_times_are_nanoseconds_since_1970(value, expected):
    assert parse_time(value) == expected


def test_what_is_no_time_is_told():
    assert find_start({"t": "soon"}, "t") == (
        None, ("time_key=t: 'soon' is neither ISO 8601 text nor seconds since 1970",),
    )  # fmt: skip
    assert find_start({}, "t") == (None, ())

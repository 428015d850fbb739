"""Numbers and names as people read them."""

import pytest

from spectrabeam.pipeline.words import counted, printable


@pytest.mark.parametrize(
    ("number", "expected"), [(0, "0 groups"), (1, "1 group"), (2, "2 groups"), (12_345, "12,345 groups")]
)
def test_only_one_is_singular(number, expected):
    assert counted(number, "group") == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a b.raw", "a b.raw"),
        ("ü🎵", "ü🎵"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\nb\tc", "a\\nb\\tc"),
        ("'\"", "'\""),
    ],
)
def test_what_a_terminal_obeys_is_shown_as_an_escape(name, expected):
    assert printable(name) == expected

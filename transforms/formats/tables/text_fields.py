"""Fields of a text table: how a line is cut into them, and what they can be."""

from __future__ import annotations

import csv
import re

BLANKS = " "  # as a delimiter: any run of spaces and tabs
_WORDS = ("nan", "inf", "infinity", "null", "none", "na", "n/a", "#n/a")
MISSING = frozenset(
    {"", "NaN", "-NaN", "+NaN", "Na"}
    | {
        sign + case(word)
        for word in _WORDS
        for sign in ("", "-", "+")
        for case in (str.lower, str.upper, str.capitalize)
    }
)
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_PADDED = re.compile(r"[+-]?0\d+")
_ISO = re.compile(
    r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?\s?(Z|[+-]\d\d(?::?\d\d)?)?)?", re.ASCII
)
_NAMED_DELIMITERS = {
    "\\t": "\t",
    "tab": "\t",
    "space": BLANKS,
    "whitespace": BLANKS,
    "comma": ",",
    "semicolon": ";",
}


def delimiter_of(setting: str | None) -> str | None:
    """The character that csv_delimiter means.

    Raises:
      ValueError: it is not one.
    """
    if setting is None:
        return None
    delimiter = _NAMED_DELIMITERS.get(setting.lower(), setting)
    if len(delimiter) != 1 or delimiter in "\"'\r\n.#+-" or delimiter.isalnum() or ord(delimiter) > 126:
        raise ValueError(
            f"csv_delimiter={setting!r} must be one character such as ; or tab, or whitespace for any blanks"
        )
    return delimiter


def split_fields(text: str, delimiter: str) -> list[str]:
    """The fields of a line without blanks around them; quotes are taken off."""
    if delimiter == BLANKS:
        text = text.replace("\t", " ").strip()
    try:
        return [
            field.strip()
            for field in next(csv.reader([text], delimiter=delimiter, skipinitialspace=True), [])
        ]
    except csv.Error:  # a stray carriage return, a field of 128 KiB
        return [text]


def is_number(field: str, decimal: str) -> bool:
    """Whether a field is a number with that decimal mark."""
    if decimal != ".":
        if "." in field:
            return False
        field = field.replace(decimal, ".")
    return _NUMBER.fullmatch(field) is not None


def is_padded(field: str) -> bool:
    """Whether a field looks like the digits after a decimal mark rather than like an integer."""
    return _PADDED.fullmatch(field) is not None


def is_time(field: str) -> bool:
    """Whether a field is an ISO 8601 date, with or without a clock."""
    return _ISO.fullmatch(field) is not None


def has_zone(field: str) -> bool | None:
    """Whether a field that is ISO 8601 tells its zone; None for other fields."""
    match = _ISO.fullmatch(field)
    return None if match is None else match[1] is not None


def is_value(field: str, decimal: str) -> bool:
    """Whether a field is data: a number, a time, or missing."""
    return field in MISSING or is_number(field, decimal) or is_time(field)

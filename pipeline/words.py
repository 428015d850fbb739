"""Numbers and names as people read them."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """The number and its noun.

    >>> counted(1, "recording"), counted(2000, "recording")
    ('1 recording', '2,000 recordings')
    """
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def printable(name: str) -> str:
    """A name without anything that a terminal obeys."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in name)

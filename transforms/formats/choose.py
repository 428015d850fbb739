"""Which reader a file gets: by content first, by name second."""

from __future__ import annotations

import os

from .base import Reader, ReadSettings
from .raw import RawReader
from .wav import WavReader

READERS: dict[str, type[Reader]] = {reader.name: reader for reader in (RawReader, WavReader)}
HEAD_BYTES = 64


def format_by_name(name: bytes, settings: ReadSettings) -> str | None:
    """The format that a file's name stands for, or None. Opens nothing."""
    suffix = os.path.splitext(name)[1].decode("ascii", "replace").lower()
    for format_name, reader in READERS.items():
        if suffix in reader.suffixes and settings.input_format in ("auto", format_name):
            return format_name
    return None


class Readers:
    """The readers of a run, each made when first needed."""

    def __init__(self, settings: ReadSettings):
        self._settings = settings
        self._made: dict[str, Reader] = {}

    def get(self, format_name: str) -> Reader:
        """The reader of that name.

        Raises:
          ValueError: a setting that the format needs is missing.
        """
        if format_name not in self._made:
            self._made[format_name] = READERS[format_name](self._settings)
        return self._made[format_name]


def format_by_content(head: bytes) -> str | None:
    """The format that a file's first HEAD_BYTES bytes show, or None."""
    for format_name, reader in READERS.items():
        if reader.matches(head):
            return format_name
    return None

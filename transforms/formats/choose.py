"""Which reader a file gets: by content first, by name second; and how readers are added."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
from collections.abc import Iterable
from typing import BinaryIO

from ..elements import Source
from ..files import open_source
from .aiff import AiffReader
from .au import AuReader
from .audio import FlacReader, OggReader
from .base import Reader, ReadSettings
from .caf import CafReader
from .columns import ArrowReader, ParquetReader
from .hdf5 import Hdf5Reader
from .mat import MatReader
from .mp3 import Mp3Reader
from .mseed import MseedReader
from .npy import NpyReader
from .npz import NpzReader
from .physionet import WfdbReader
from .raw import RawReader
from .sac import SacReader
from .segy import SegyReader
from .seismic_text import Gse2Reader, SlistReader
from .tdms import TdmsReader
from .text import TextReader
from .tfrecord import TfrecordReader
from .wav import WavReader
from .zarr_store import ZarrReader

HEAD_BYTES = 4096
READERS: dict[str, type[Reader]] = {}


def register(reader: type[Reader]) -> type[Reader]:
    """Adds a reader, so that files of its format are found, recognised and read; can decorate its class."""
    READERS[reader.name] = reader
    return reader


# In the order in which content is looked at: what begins with a signature before what only looks plausible.
for _reader in (
    RawReader,
    WavReader,
    FlacReader,
    OggReader,
    AiffReader,
    CafReader,
    AuReader,
    NpyReader,
    NpzReader,
    MatReader,
    Hdf5Reader,
    ZarrReader,
    ParquetReader,
    ArrowReader,
    TdmsReader,
    TfrecordReader,
    MseedReader,
    Gse2Reader,
    SlistReader,
    SegyReader,
    SacReader,
    WfdbReader,
    Mp3Reader,
    TextReader,
):
    register(_reader)

# Tables are often about recordings: beside those of other formats they are none themselves.
TABLES = frozenset({TextReader.name, ParquetReader.name, ArrowReader.name})


def load_plugins(modules: Iterable[str]) -> None:
    """Imports modules that register readers.

    Raises:
      ValueError: a module cannot be imported.
    """
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            raise ValueError(f"plugins: {module} cannot be imported: {error}") from error


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
        load_plugins(settings.plugins)
        self._settings = settings
        self._made: dict[tuple[str, str], Reader] = {}

    def get(self, format_name: str, overrides: str = "") -> Reader:
        """The reader of that name.

        Args:
          format_name: as in `input_format`.
          overrides: settings of single recordings, as JSON, or "".

        Raises:
          ValueError: a setting that the format needs is missing.
        """
        key = (format_name, overrides)
        if key not in self._made:
            settings = self._settings
            if overrides:
                settings = dataclasses.replace(settings, **json.loads(overrides))  # type: ignore[type-var]
            self._made[key] = READERS[format_name](settings)
        return self._made[key]


def format_by_content(head: bytes) -> str | None:
    """The format that a file's first HEAD_BYTES bytes show, or None."""
    for format_name, reader in READERS.items():
        if reader.matches(head):
            return format_name
    return None


def open_recording(source: Source) -> BinaryIO:
    """A source's local file or folder.

    Raises:
      OSError, RejectError: see `files.open_local`.
    """
    return open_source(source.uri, is_folder=READERS[source.format].takes_folder)

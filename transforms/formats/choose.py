"""Which reader a file gets: by content first, by name second; and how readers are added."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO, cast

from ..elements import Source
from ..files import open_source
from .arrays.hdf5 import Hdf5Reader
from .arrays.mat import MatReader
from .arrays.npy import NpyReader
from .arrays.npz import NpzReader
from .arrays.zarr_store import ZarrReader
from .audio.aiff import AiffReader
from .audio.au import AuReader
from .audio.caf import CafReader
from .audio.mp3 import Mp3Reader
from .audio.streams import FlacReader, OggReader
from .audio.wav import WavReader
from .base import Reader, ReadSettings
from .iq import IqReader
from .measurement.physionet import WfdbReader
from .measurement.tdms import TdmsReader
from .raw import RawReader
from .seismic.mseed import MseedReader
from .seismic.sac import SacReader
from .seismic.segy import SegyReader
from .seismic.seismic_text import Gse2Reader, SlistReader
from .tables.columns import ArrowReader, ParquetReader
from .tables.text import TextReader
from .tables.tfrecord import TfrecordReader

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
            raise ValueError(
                f"plugins: {module} cannot be imported: {error}; it must be installed, or its folder be in PYTHONPATH"
            ) from error


def format_by_name(name: bytes, settings: ReadSettings) -> str | None:
    """The format that a file's name stands for, or None. Opens nothing."""
    suffix = os.path.splitext(name)[1].decode("ascii", "replace").lower()
    for format_name, reader in READERS.items():
        if suffix in reader.suffixes and settings.input_format in ("auto", format_name):
            return format_name
    return None


def is_folder_recording(name: bytes) -> bool:
    """Whether a folder is one recording, as its name says."""
    suffix = os.path.splitext(name)[1].decode("ascii", "replace").lower()
    return any(suffix in reader.suffixes for reader in READERS.values() if reader.takes_folder)


class Readers:
    """The readers of a run, each made when first needed."""

    def __init__(self, settings: ReadSettings):
        load_plugins(settings.plugins)
        self._settings = settings
        self._made: dict[tuple[str, str], Reader] = {}

    def get(self, format_name: str, overrides: str | Mapping[str, Any] = "") -> Reader:
        """The reader of that name.

        Args:
          format_name: as in `input_format`.
          overrides: settings of single recordings, also as JSON, or "".

        Raises:
          ValueError: a setting that the format needs is missing.
        """
        if not isinstance(overrides, str):
            overrides = json.dumps(overrides, sort_keys=True) if overrides else ""
        key = (format_name, overrides)
        if key not in self._made:
            settings = self._settings
            if overrides:
                settings = dataclasses.replace(settings, **json.loads(overrides))  # type: ignore[type-var]
            reader = READERS[format_name](settings)
            self._made[key] = cast(Reader, IqReader(reader)) if settings.iq else reader
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

"""Files of many formats that hold the same samples."""

from __future__ import annotations

import io
from pathlib import Path

import h5py
import numpy as np
import soundfile


def write(path: Path, content: bytes | bytearray) -> Path:
    """A file of these bytes, in a folder that is made where it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def encode(format: str, subtype: str, samples: np.ndarray, rate: int = 16000) -> bytes:
    """An audio file by soundfile."""
    file = io.BytesIO()
    soundfile.write(file, samples, rate, format=format, subtype=subtype)
    return file.getvalue()


def patch(content: bytes, position: int, new: bytes) -> bytes:
    """The content with other bytes from a position on."""
    return content[:position] + new + content[position + len(new) :]


def flac_total(content: bytes, total: int) -> bytes:
    """A FLAC stream with another number of samples in its header; 0 is: not known."""
    return patch(content, 21, (int.from_bytes(content[21:26], "big") >> 36 << 36 | total).to_bytes(5, "big"))


def flac_header(rate: int = 16000) -> bytes:
    """A FLAC stream without any frame."""
    header = encode("FLAC", "PCM_16", np.zeros(100, np.int16), rate)[:42]
    return flac_total(patch(header, 4, bytes([header[4] | 0x80])), 0)  # no other metadata follows


def npy(values: np.ndarray, *, allow_pickle: bool = False) -> bytes:
    """A file of numpy.save."""
    file = io.BytesIO()
    np.save(file, values, allow_pickle=allow_pickle)
    return file.getvalue()


def hdf5(**datasets: np.ndarray) -> bytes:
    """An HDF5 file of these datasets; names are taken as they are, with / for groups."""
    file = io.BytesIO()
    with h5py.File(file, "w") as opened:
        for name, values in datasets.items():
            opened.create_dataset(name, data=values)
    return file.getvalue()


def mat73(**variables: np.ndarray) -> bytes:
    """As MATLAB writes it with -v7.3: HDF5 after 512 bytes of its own, axes reversed, the class as an attribute."""
    file = io.BytesIO()
    kinds = {"f8": "double", "f4": "single", "i2": "int16"}
    with h5py.File(file, "w", userblock_size=512) as opened:
        for name, values in variables.items():
            values = np.atleast_2d(values)
            stored = opened.create_dataset(name, data=values.T)
            stored.attrs["MATLAB_class"] = np.bytes_(kinds[values.dtype.str[1:]])
    head = b"MATLAB 7.3 MAT-file, Platform: GLNXA64, Created on: Mon Jan  1 00:00:00 2024 HDF5 schema 1.00 ."
    return patch(file.getvalue(), 0, head.ljust(124) + b"\x00\x02IM")

"""Small values in HDF5 files: attributes, and datasets of one element."""

from __future__ import annotations

import contextlib
import math
from typing import Any, BinaryIO

import numpy as np

from ...rejects import RejectError
from ..attributes import MOST_CHARACTERS, Value, plain_value
from .hdf5_files import reported
from .npy import read_up_to

_PLUMBING = frozenset(
    {"CLASS", "NAME", "_NCProperties", "_nc3_strict", "_Netcdf4Dimid", "_Netcdf4Coordinates", "H5PATH"}
)


def is_utf8(name: str | bytes) -> bool:
    """Whether h5py could decode a name: others it leaves as bytes, or puts surrogates into them."""
    return isinstance(name, str) and name.encode("utf-8", "replace").decode() == name


def is_scalar(dataset: Any) -> bool:
    """Whether it has exactly one element."""
    return dataset.shape is not None and math.prod(dataset.shape) == 1


def scalar_value(dataset: Any, file: BinaryIO) -> Value | None:
    """The number or text of a dataset of one element, or None where it is neither or cannot be read.

    Args:
      dataset: of h5py.
      file: it is in.
    """
    with contextlib.suppress(RejectError), reported("a number"):
        if elsewhere(dataset) is None and _is_small(dataset.dtype) and _has_short_text(dataset, file):
            return plain_value(np.asarray(dataset[()]))
    return None


def _has_short_text(dataset: Any, file: BinaryIO) -> bool:
    """Whether text of any length is short: HDF5 fills memory of the length that is noted, up to 4 GiB, to read it."""
    import h5py

    text = h5py.check_string_dtype(dataset.dtype)
    if text is None or text.length is not None:
        return True
    offset = None if dataset.chunks is not None else dataset.id.get_offset()
    if offset is None:
        return False
    file.seek(offset)
    return int.from_bytes(read_up_to(file, 4), "little") <= 4 * MOST_CHARACTERS


def attribute_values(item: Any) -> dict[str, Value]:
    """The attributes of a group or dataset that are single numbers or texts, sorted by name."""
    values = {}
    with contextlib.suppress(RejectError), reported("attributes"):
        for name in sorted(name for name in item.attrs if is_utf8(name)):
            if name in _PLUMBING or name.startswith("MATLAB_"):
                continue
            with contextlib.suppress(RejectError), reported(name):
                attribute = item.attrs.get_id(name)
                if (
                    attribute.shape is None
                    or math.prod(attribute.shape) != 1
                    or not _is_small(attribute.dtype)
                ):
                    continue
                value = item.attrs[name]
                value = plain_value(value if isinstance(value, str) else np.asarray(value))
                if value is not None:
                    values[name] = value
    return values


def _is_small(dtype: np.dtype) -> bool:
    import h5py

    text = h5py.check_string_dtype(dtype)
    return (text is not None and (text.length or 0) <= 4 * MOST_CHARACTERS) or dtype.kind in "biuf"


def elsewhere(dataset: Any) -> str | None:
    """Where a dataset's samples are, if not in the file."""
    if dataset.is_virtual:
        return "is virtual: its samples are in other files"
    if dataset.id.get_create_plist().get_external_count():
        return "has its samples in external files"
    return None

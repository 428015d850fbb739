"""What an HDF5 file holds: its datasets and the small values around them, without following it elsewhere."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..rejects import Reason, RejectError
from .attributes import MOST_CHARACTERS, Value, merge_scopes, plain_value
from .hdf5_files import filter_codes, may_burst, reported
from .members import Member, count_bytes, is_complex_pair, require_numbers
from .settings import ReadSettings
from .stored import StoredArray
from .whole import require_decodable

_PLUMBING = frozenset(
    {"CLASS", "NAME", "_NCProperties", "_nc3_strict", "_Netcdf4Dimid", "_Netcdf4Coordinates", "H5PATH"}
)
_LEAST_SHARE = (
    1000  # of the chunks one in as many must be there, so that a header cannot promise years of zeros
)


@dataclasses.dataclass
class Found:
    """A dataset and the small values around it, nearest first."""

    path: str
    dataset: Any
    scopes: list[Mapping[str, Value]]

    @property
    def values(self) -> dict[str, Value]:
        """All of them by name."""
        return merge_scopes([attribute_values(self.dataset), *self.scopes])


def find_datasets(file: Any) -> list[Found]:
    """All datasets with more than one element, or none, sorted by path.

    Only hard links are followed, and each object is visited once: others may lead out of the file or around.
    """
    import h5py

    found: list[Found] = []
    visited: set[Any] = set()
    waiting: list[tuple[str, Any, list[Mapping[str, Value]]]] = [("", file, [])]
    while waiting:
        prefix, group, outer = waiting.pop()
        datasets, groups, scalars = [], [], {}
        for name, item in list_children(group):
            with reported(prefix + name):
                address = h5py.h5o.get_info(item.id).addr
            if address in visited:
                continue
            visited.add(address)
            if isinstance(item, h5py.Group):
                groups.append((name, item))
            elif is_scalar(item):
                value = scalar_value(item)
                if value is not None:
                    scalars[name] = value
            elif item.shape is not None:
                datasets.append((name, item))
        scopes = [{**attribute_values(group), **scalars}, *outer]
        found += [Found(prefix + name, dataset, scopes) for name, dataset in datasets]
        waiting += [(f"{prefix}{name}/", each, scopes) for name, each in reversed(groups)]
    return sorted(found, key=lambda each: each.path)


def list_children(group: Any) -> list[tuple[str, Any]]:
    """(name, group or dataset) of all hard links with a name in UTF-8, sorted."""
    import h5py

    children = []
    with reported(group.name or "/"):
        for name in sorted(group):
            if name.isascii() or _is_utf8(name):
                link = group.get(name, getlink=True)
                item = group[name] if isinstance(link, h5py.HardLink) else None
                if isinstance(item, (h5py.Group, h5py.Dataset)):
                    children.append((name, item))
    return children


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:  # h5py puts surrogates for what it cannot decode
        return False
    return True


def is_scalar(dataset: Any) -> bool:
    """Whether it has exactly one element."""
    return dataset.shape is not None and math.prod(dataset.shape) == 1


def scalar_value(dataset: Any) -> Value | None:
    """The number or text of a dataset of one element, or None where it is neither or cannot be read."""
    with contextlib.suppress(RejectError), reported(dataset.name):
        if _elsewhere(dataset) is None and _is_small(dataset.dtype):
            return plain_value(np.asarray(dataset[()]))
    return None


def attribute_values(item: Any) -> dict[str, Value]:
    """The attributes of a group or dataset that are single numbers or texts, sorted by name."""
    values = {}
    with contextlib.suppress(RejectError), reported(item.name or "/"):
        for name in sorted(item.attrs):
            if name in _PLUMBING or name.startswith("MATLAB_") or not (name.isascii() or _is_utf8(name)):
                continue
            with contextlib.suppress(RejectError), reported(item.name or "/"):
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


def _elsewhere(dataset: Any) -> str | None:
    """Where a dataset's samples are, if not in the file."""
    if dataset.is_virtual:
        return "is virtual: its samples are in other files"
    if dataset.id.get_create_plist().get_external_count():
        return "has its samples in external files"
    return None


def to_member(
    found: Found, size: int, settings: ReadSettings, *, transposed: bool = False
) -> Member | RejectError:
    """A dataset as a member, or why it cannot be one.

    Args:
      found: the dataset.
      size: bytes of the file.
      settings: decode_limit, strict.
      transposed: whether the axes are stored in reverse, as MATLAB does.
    """
    try:
        with reported(found.path):
            return _to_member(found, size, settings, transposed)
    except RejectError as error:
        return RejectError(error.reason, str(error), found.path)


def _to_member(found: Found, size: int, settings: ReadSettings, transposed: bool) -> Member:
    dataset = found.dataset
    elsewhere = _elsewhere(dataset)
    if elsewhere:
        raise RejectError(
            Reason.BAD_FORMAT, f"{found.path} {elsewhere}, which are not opened: copy them into one"
        )
    pair = is_complex_pair(dataset.dtype)
    if not pair:
        require_numbers(dataset.dtype)
    shape = dataset.shape[::-1] if transposed else dataset.shape
    warnings: tuple[str, ...] = ()
    locator = "d" + found.path
    if 0 in shape:
        pass
    elif dataset.chunks is None:
        stored = _stored_array(dataset, shape, transposed, size)
        if stored is not None:
            locator = "@" + stored.to_locator()
    else:
        warnings = _check_chunked(found.path, dataset, settings)
        if may_burst(dataset, settings.decode_limit):
            locator = "c" + found.path
    return Member(
        name=found.path,
        shape=shape,
        dtype=dataset.dtype,
        locator=locator,
        values=found.values,
        warnings=warnings,
        is_complex=pair,
    )


def _stored_array(dataset: Any, shape: tuple[int, ...], transposed: bool, size: int) -> StoredArray | None:
    """Where a dataset lies that is neither chunked nor filtered; None where only HDF5 can tell."""
    import h5py

    if dataset.id.get_create_plist().get_layout() != h5py.h5d.CONTIGUOUS:
        return None
    offset = dataset.id.get_offset()
    if offset is None:
        raise RejectError(Reason.EMPTY, "no sample was ever written into it")
    if offset + count_bytes(shape, dataset.dtype) > size:
        raise RejectError(Reason.TRUNCATED, f"its samples reach beyond the end of the file, {size} bytes")
    dtype = dataset.dtype
    if is_complex_pair(dtype):
        real = dtype[0]
        if (
            real.kind != "f"
            or real.itemsize < 4
            or dtype.itemsize != 2 * real.itemsize
            or dtype.fields is None
        ):
            return None
        if [place[1] for place in dtype.fields.values()] != [0, real.itemsize]:
            return None
        dtype = np.dtype(f"{real.str[0]}c{dtype.itemsize}")
    elif dataset.id.get_type() != h5py.h5t.py_create(np.dtype(dtype.str)):  # padded bits, enumerations
        return None
    return StoredArray(offset, dtype, shape, fortran=transposed)


def _check_chunked(path: str, dataset: Any, settings: ReadSettings) -> tuple[str, ...]:
    """Warnings of a chunked dataset that can be read.

    Raises:
      RejectError: it cannot.
    """
    import h5py

    for code, name in filter_codes(dataset).items():
        if not h5py.h5z.filter_avail(code):
            raise RejectError(
                Reason.BAD_FORMAT,
                f"{path} is compressed with the filter {name or 'without a name'} ({code}), which this HDF5 does not "
                "have: rewrite it with gzip, for example with h5repack",
            )
    require_decodable(count_bytes(dataset.chunks, dataset.dtype), settings.decode_limit)
    there = dataset.id.get_num_chunks()
    promised = math.prod(
        -(-count // chunk) for count, chunk in zip(dataset.shape, dataset.chunks, strict=True)
    )
    return missing_chunks(there, promised, strict=settings.strict)


def missing_chunks(there: int, promised: int, *, strict: bool) -> tuple[str, ...]:
    """Warnings where chunks were never written; readers of such formats put a fill value for them.

    Raises:
      RejectError: strict, or as good as all are missing.
    """
    if there >= promised:
        return ()
    message = f"{promised - there} of {promised} chunks were never written"
    if there == 0:
        raise RejectError(Reason.EMPTY, message)
    if strict or there * _LEAST_SHARE < promised:
        raise RejectError(Reason.TRUNCATED, f"{message}, and would be the fill value")
    return (f"{message}, and are the fill value",)

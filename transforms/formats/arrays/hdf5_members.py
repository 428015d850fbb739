"""What an HDF5 file holds: its datasets and the small values around them, without following it elsewhere."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np

from ...rejects import Reason, RejectError
from ..attributes import Value, merge_scopes
from ..members import Member, count_bytes, is_complex_pair, named, require_numbers
from ..settings import ReadSettings
from ..whole import require_decodable
from .hdf5_chunks import DECODED_HERE, DEFLATE, FLETCHER32, list_filters
from .hdf5_files import reported
from .hdf5_values import attribute_values, elsewhere, is_scalar, is_utf8, scalar_value
from .stored import StoredArray

_LEAST_SHARE = 1000  # one chunk in as many must be there, so that no header promises years of zeros
_CRASHING_FILTERS = frozenset({5, 6})  # n-bit and scale-offset
_CHECKSUM_BYTES = 4
_DEFLATE_RATIO = 1032  # no deflated byte gives more


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


def find_datasets(opened: Any, file: BinaryIO) -> tuple[list[Found], dict[str, RejectError]]:
    """All datasets that have not exactly one element, sorted by path; and what cannot be opened, by path.

    Only hard links are followed, and each object is visited once: others may lead out of the file or around.

    Args:
      opened: the file, of h5py.
      file: the same.
    """
    import h5py

    found: list[Found] = []
    broken: dict[str, RejectError] = {}
    visited: set[Any] = set()
    waiting: list[tuple[str, Any, list[Mapping[str, Value]]]] = [("", opened, [])]
    while waiting:
        prefix, group, outer = waiting.pop()
        datasets, groups, scalars = [], [], {}
        for name, item in list_children(group, prefix):
            if isinstance(item, RejectError):
                broken[prefix + name] = item
                continue
            address = h5py.h5o.get_info(item.id).addr
            if address in visited:
                continue
            visited.add(address)
            if isinstance(item, h5py.Group):
                groups.append((name, item))
            elif is_scalar(item):
                value = scalar_value(item, file)
                if value is not None:
                    scalars[name] = value
            elif item.shape is not None:
                datasets.append((name, item))
        scopes = [{**attribute_values(group), **scalars}, *outer]
        found += [Found(prefix + name, dataset, scopes) for name, dataset in datasets]
        waiting += [(f"{prefix}{name}/", each, scopes) for name, each in reversed(groups)]
    return sorted(found, key=lambda each: each.path), broken


def list_children(group: Any, prefix: str) -> list[tuple[str, Any]]:
    """(name, group or dataset) of all hard links with a name in UTF-8, sorted; a `RejectError` for a damaged one.

    Args:
      group: of h5py.
      prefix: its path, with a slash at the end unless it is the root.

    Raises:
      RejectError: the group itself is damaged.
    """
    import h5py

    with reported(prefix or "/"):
        names = sorted(name for name in group if is_utf8(name))
    children = []
    for name in names:
        try:
            with reported(prefix + name):
                link = group.get(name, getlink=True)
                item = group[name] if isinstance(link, h5py.HardLink) else None
                if isinstance(item, (h5py.Group, h5py.Dataset)):
                    h5py.h5o.get_info(item.id)  # so that damage shows here
                    if isinstance(item, h5py.Dataset):
                        _ = item.shape, item.dtype
                    children.append((name, item))
        except RejectError as error:
            children.append((name, named(error, prefix + name)))
    return children


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
        return named(error, found.path)


def _to_member(found: Found, size: int, settings: ReadSettings, transposed: bool) -> Member:
    dataset = found.dataset
    place = elsewhere(dataset)
    if place:
        raise RejectError(
            Reason.BAD_FORMAT, f"{found.path} {place}, which are not opened: copy them into one"
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
        if _lies_plainly(dataset) and {code for code, _, _ in list_filters(dataset)} <= DECODED_HERE:
            locator = "k" + found.path
        else:
            _require_safe_chunks(dataset, settings)
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
    if not _lies_plainly(dataset):
        return None
    if dtype.names:
        real = dtype[0]
        packed = dtype.itemsize == 2 * real.itemsize and dtype.fields and dtype.fields[dtype.names[0]][1] == 0
        if real.kind != "f" or real.itemsize < 4 or not packed:
            return None
        dtype = np.dtype(f"{real.str[0]}c{dtype.itemsize}")
    return StoredArray(offset, dtype, shape, fortran=transposed)


def _lies_plainly(dataset: Any) -> bool:
    """Whether the numbers in the file are as numpy has them: no padded bits, no enumeration."""
    import h5py

    dtype = dataset.dtype
    plain = dtype if dtype.names else np.dtype(dtype.str)
    return dataset.id.get_type() == h5py.h5t.py_create(plain)


def _require_safe_chunks(dataset: Any, settings: ReadSettings) -> None:
    """Holds chunks that only HDF5 can decode against what makes it crash or fill the memory.

    Raises:
      RejectError: one might.
    """
    sizes: list[int] = []
    dataset.id.chunk_iter(lambda chunk: sizes.append(chunk.size))
    codes = {code for code, _, _ in list_filters(dataset)}
    if FLETCHER32 in codes and min(sizes) <= _CHECKSUM_BYTES:
        raise RejectError(Reason.CORRUPT, f"a chunk has {min(sizes)} bytes, no more than its checksum")
    if DEFLATE in codes:
        require_decodable(max(sizes) * _DEFLATE_RATIO, settings.decode_limit)


def _check_chunked(path: str, dataset: Any, settings: ReadSettings) -> tuple[str, ...]:
    """Warnings of a chunked dataset that can be read.

    Raises:
      RejectError: it cannot.
    """
    import h5py

    for code, _, name in list_filters(dataset):
        if code in _CRASHING_FILTERS:
            raise RejectError(
                Reason.BAD_FORMAT,
                f"{path} is packed with {name} ({code}), whose decoder in HDF5 crashes on damaged files: "
                "rewrite it with h5repack -f GZIP=4",
            )
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

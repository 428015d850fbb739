"""Array containers read through the readers' interface and compared with numpy."""

from __future__ import annotations

import io

import numpy as np

from spectrabeam.transforms.elements import Description
from spectrabeam.transforms.formats.base import ReadSettings
from spectrabeam.transforms.rejects import RejectError

NUMBERS = [
    order + kind
    for order in "<>"
    for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
]


def samples(dtype, shape, seed=0):
    """Numbers over much of the type's range, [shape]."""
    dtype, random = np.dtype(dtype), np.random.default_rng(seed)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return random.integers(limits.min, limits.max, shape, dtype.newbyteorder("="), endpoint=True).astype(
            dtype
        )
    values = random.standard_normal(shape) * 100
    if dtype.kind == "c":
        values = values + 1j * random.standard_normal(shape)
    return values.astype(dtype)


def as_read(values):
    """What a reader gives for stored numbers: rounded to float32 or complex64 once."""
    return np.asarray(values).astype(np.complex64 if np.asarray(values).dtype.kind == "c" else np.float32)


def listed(reader, file):
    """All that `describe` gives: by member, in its order."""
    file = io.BytesIO(file) if isinstance(file, bytes) else file
    size = file.seek(0, 2)
    return {each.member: each for each in reader.describe(file, size)}


def only(reader, file):
    """The only description."""
    (described,) = listed(reader, file).values()
    assert isinstance(described, Description), described
    return described


def read(reader, file, described, channel=0, start=0, count=None, dtype=None):
    """Samples of a description, [count]."""
    file = io.BytesIO(file) if isinstance(file, bytes) else file
    count = described.frames - start if count is None else count
    dtype = dtype or (np.complex64 if described.is_complex else np.float32)
    out = np.full(count, 77, dtype)
    reader.read(file, described.locator, channel, start, out)
    return out


def assert_channels(reader, file, described, expected, steps=3):
    """Every channel and some ranges are those of `expected` [channels, frames]."""
    expected = np.atleast_2d(expected)
    assert (described.channels, described.frames) == expected.shape
    for channel, signal in enumerate(as_read(expected)):
        np.testing.assert_array_equal(read(reader, file, described, channel), signal)
        for start in range(0, len(signal), max(1, len(signal) // steps)):
            count = min(7, len(signal) - start)
            part = read(reader, file, described, channel, start, count)
            np.testing.assert_array_equal(part, signal[start : start + count])


def refused(reader, file):
    """The reason why a file, or its only member, cannot be used, and the message."""
    try:
        (error,) = listed(reader, file).values()
    except RejectError as raised:
        error = raised
    assert isinstance(error, RejectError), error
    assert "\n" not in str(error)
    return error.reason, str(error)


def settings(**given):
    return ReadSettings(**given)

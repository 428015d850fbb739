"""Pairs of channels as complex samples, whatever the format."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import BinaryIO

import numpy as np

from ..elements import Description
from ..rejects import Reason, RejectError
from .base import Reader
from .samples import complex_samples


class IqReader:
    """A reader of real channels, seen as one of complex ones: channel c is channel 2c + j · channel 2c+1 of the file."""

    def __init__(self, reader: Reader):
        self.name, self.suffixes = reader.name, reader.suffixes
        self.needs_header, self.takes_folder = reader.needs_header, reader.takes_folder
        self.matches = reader.matches
        self._reader = reader

    def describe(self, file: BinaryIO | None, size: int) -> Iterable[Description | RejectError]:
        """See `Reader.describe`."""
        return map(_paired, self._reader.describe(file, size))

    def read(self, file: BinaryIO, locator: str, channel: int, start: int, out: np.ndarray) -> None:
        """See `Reader.read`."""
        if out.dtype.kind != "c":
            raise complex_samples("I and Q")
        part = np.empty(len(out), np.float32)
        for offset, side in ((0, out.real), (1, out.imag)):
            self._reader.read(file, locator, 2 * channel + offset, start, part)
            side[:] = part


def _paired(description: Description | RejectError) -> Description | RejectError:
    if isinstance(description, RejectError):
        return description
    if description.is_complex:
        return RejectError(
            Reason.CHANNEL_MISMATCH,
            f"iq makes complex samples of pairs of channels, and these are complex already ({description.dtype}): "
            "leave iq out",
            description.member,
        )
    if description.channels % 2:
        return RejectError(
            Reason.CHANNEL_MISMATCH,
            f"iq makes complex samples of pairs of channels, and there are {description.channels}: "
            "leave iq out, or state the right number of channels (raw_channels=2 for headerless files)",
            description.member,
        )
    return dataclasses.replace(
        description,
        channels=description.channels // 2,
        channel_names=pair_names(description.channel_names),
        is_complex=True,
    )


def pair_names(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names of channels to those of their pairs.

    >>> pair_names(("I0", "Q0", "I1", "Q1"))
    ('I0/Q0', 'I1/Q1')
    """
    return tuple(f"{real}/{imaginary}" for real, imaginary in zip(names[::2], names[1::2], strict=True))

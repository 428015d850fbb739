"""What a reader is, its settings, and how one is chosen."""

from __future__ import annotations

from typing import Any, BinaryIO, ClassVar, Literal, Protocol

import numpy as np
import pydantic

from ..declare import setting, settings_group
from ..elements import Description
from ..rejects import Reason, RejectError


def _check_dtype(name: str | None) -> str | None:
    if name is None:
        return None
    try:
        dtype = np.dtype(name)
    except TypeError:
        raise ValueError(
            f"{name!r} is not a numpy type: write byte order, kind and bytes, such as <f4"
        ) from None
    if dtype.kind not in "iuf" or dtype.itemsize > 8:
        raise ValueError(f"{name!r} is no real number of 1 to 8 bytes: use i1 … i8, u1 … u8, f2, f4 or f8")
    if dtype.itemsize > 1 and name[0] not in "<>":
        raise ValueError(
            f"{name!r} says no byte order: write <{dtype.str[1:]} (little) or >{dtype.str[1:]} (big)"
        )
    return dtype.str


def _check_scale(scale: Any) -> Any:
    if scale in ("auto", "pcm", "none"):
        return scale
    try:
        factor = float(scale)
    except (TypeError, ValueError):
        raise ValueError(f"{scale!r} is neither auto, pcm, none nor a factor such as 0.001") from None
    if isinstance(scale, bool) or not 1e-30 <= abs(factor) <= 1e30:
        raise ValueError(f"{scale!r} must be a factor between 1e-30 and 1e30 in size")
    return factor


@settings_group
class ReadSettings:
    """How files are turned into samples."""

    input_format: Literal["auto", "raw", "wav"] = setting("auto", "auto goes by content, then by name")
    raw_dtype: str | None = setting(
        None,
        "sample type of headerless files with its byte order, such as <f4, >i2 or u1; no default",
        metavar="DTYPE",
    )
    raw_channels: int = setting(1, "interleaved channels of headerless files", ge=1, le=65535)
    raw_header_bytes: int = setting(0, "bytes to skip at the start of headerless files", ge=0)
    partial_frame: Literal["reject", "drop"] = setting(
        "reject", "headerless files whose size is no whole number of frames: reject them, or drop the rest"
    )
    sample_rate: float | None = setting(
        None, "Hz; needed for headerless files, expected of the others", gt=0, le=1e12
    )
    scale: str | float = setting(
        "auto",
        "auto: audio containers to [-1, 1), everything else as stored; pcm: integers by their full scale; "
        "none: as stored; or a factor",
        metavar="auto|pcm|none|FACTOR",
    )

    _dtype = pydantic.field_validator("raw_dtype")(_check_dtype)
    _scale = pydantic.field_validator("scale", mode="before")(_check_scale)


class Reader(Protocol):
    """Reads one format. Bound to the settings, otherwise stateless: one instance serves every file and thread.

    Attributes:
      name: as in `input_format` and the ledger.
      suffixes: file name endings, lower case, that stand for the format where content does not tell.
      needs_header: whether `describe` has to open the file; if not it is given None.
    """

    name: ClassVar[str]
    suffixes: ClassVar[tuple[str, ...]]
    needs_header: ClassVar[bool]

    def __init__(self, settings: ReadSettings): ...

    @staticmethod
    def matches(head: bytes) -> bool:
        """Whether a file with these first 64 bytes is of this format."""
        ...

    def describe(self, file: BinaryIO | None, size: int) -> Description:
        """What a file of `size` bytes holds.

        Raises:
          RejectError: the file cannot be used.
        """
        ...

    def read(self, file: BinaryIO, channel: int, start: int, out: np.ndarray) -> None:
        """Fills `out` [samples] from sample `start` of `channel`.

        A float32 `out` gets samples in the unit of the scale setting, an int16 one gets them as stored.

        Raises:
          RejectError: the range is not there, or the samples are not what `out` asks for.
        """
        ...


def not_int16(stored: str) -> RejectError:
    """Samples that are not 16-bit integers cannot be kept as int16 as they came."""
    return RejectError(
        Reason.DTYPE_MISMATCH,
        f"samples are stored as {stored}, and keep_waveform=int16 keeps 16-bit integers as they came: "
        "set keep_waveform=float32",
    )


def short_read(start: int, wanted: int, found: int) -> RejectError:
    """The file ended before the range did, though its size is the planned one."""
    return RejectError(
        Reason.TRUNCATED,
        f"only {found} of {wanted} samples could be read from sample {start}: the file is cut short",
    )

"""How files are turned into samples: the settings that readers obey."""

from __future__ import annotations

import re
from typing import Any, Literal

import numpy as np
import pydantic

from ..declare import Size, Words, setting, settings_group

ARRAY_AXES = ("time,channel", "channel,time", "recording,time")


def _check_dtype(name: str | None) -> str | None:
    if name is None:
        return None
    try:
        dtype = np.dtype(name)
    except TypeError:
        raise ValueError(
            f"{name!r} is not a numpy type: write byte order, kind and bytes, such as <f4"
        ) from None
    if dtype.kind not in "iufc" or dtype.itemsize > (16 if dtype.kind == "c" else 8):
        raise ValueError(
            f"{name!r} is no number of 1 to 8 bytes: use i1 … i8, u1 … u8, f2, f4, f8, or c8 and c16 for complex"
        )
    if dtype.itemsize > 1 and name[0] not in "<>":
        raise ValueError(
            f"{name!r} says no byte order: write <{dtype.str[1:]} (little) or >{dtype.str[1:]} (big)"
        )
    return dtype.str


def check_scale(scale: Any) -> Any:
    """A scale setting, checked: auto, pcm, none or a factor.

    Raises:
      ValueError: it is none of them.
    """
    if scale in ("auto", "pcm", "none"):
        return scale
    try:
        factor = float(scale)
    except (TypeError, ValueError):
        raise ValueError(f"{scale!r} is neither auto, pcm, none nor a factor such as 0.001") from None
    if isinstance(scale, bool) or not 1e-30 <= abs(factor) <= 1e30:
        raise ValueError(f"{scale!r} must be a factor between 1e-30 and 1e30 in size")
    return factor


def _check_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    for pattern in patterns:
        if pattern.startswith("re:"):
            try:
                re.compile(pattern[3:])
            except re.error as error:
                raise ValueError(f"{pattern[3:]!r} is no regular expression: {error}") from None
    return patterns


@settings_group
class ReadSettings:
    """How files are turned into samples."""

    input_format: str = setting(
        "auto", "auto goes by content, then by name; or the name of one format", metavar="auto|raw|wav|…"
    )
    plugins: Words = setting((), "Python modules that register further readers", metavar="MODULE,…")
    sample_rate: float | None = setting(
        None, "Hz, of the dataset; what files that do not say theirs are taken to have", gt=0, le=1e12
    )
    scale: str | float = setting(
        "auto",
        "auto: audio containers to [-1, 1), everything else as stored; pcm: integers by their full scale; "
        "none: as stored; or what stored numbers are multiplied with",
        metavar="auto|pcm|none|FACTOR",
    )
    unit: str | None = setting(
        None, "of the samples, such as g or Pa, where the files do not say it", metavar="UNIT"
    )
    sensitivity: float | None = setting(
        None,
        "what samples are divided by to have the unit, such as 100 for 100 mV/g, with unit g and samples in mV",
    )
    strict: bool = setting(
        False, "reject files that are cut short or oddly sized, instead of using what is there"
    )
    raw_dtype: str | None = setting(
        None,
        "sample type of headerless files with its byte order, such as <f4, >i2, u1 or <c8; no default",
        metavar="DTYPE",
    )
    raw_channels: int = setting(1, "channels of headerless files", ge=1, le=65535)
    raw_layout: Literal["interleaved", "planar"] = setting(
        "interleaved", "channels of headerless files: sample by sample, or one after the other"
    )
    raw_header_bytes: int = setting(0, "bytes to skip at the start of headerless files", ge=0)
    raw_footer_bytes: int = setting(0, "bytes to leave out at the end of headerless files", ge=0)
    partial_frame: Literal["reject", "drop"] = setting(
        "reject", "headerless files whose size is no whole number of frames: reject them, or drop the rest"
    )
    iq: bool = setting(False, "pairs of channels are the real (I) and imaginary part (Q) of complex samples")
    members: Words = setting(
        (),
        "which members of container files to take: globs such as *_DE_time, or re:REGEX",
        metavar="PATTERN,…",
    )
    array_axes: Literal["time,channel", "channel,time", "recording,time"] | None = setting(
        None, "what the axes of 2-D arrays are"
    )
    waveform_key: str | None = setting(
        None, "key or column that holds the samples, in TFRecord and Parquet files", metavar="NAME"
    )
    rate_key: str | None = setting(
        None, "attribute, variable, key or column that holds the sample rate in Hz", metavar="NAME"
    )
    time_key: str | None = setting(
        None, "attribute, key or column that holds the time of the first sample", metavar="NAME"
    )
    tfrecord_dtype: str | None = setting(
        None, "sample type of TFRecord waveforms that are stored as bytes, such as <i2", metavar="DTYPE"
    )
    csv_columns: Words = setting(
        (),
        "columns of tables to read, by name or number from 0; all of numbers but the time column if not given",
        metavar="NAME,…",
    )
    csv_time: str | None = setting(
        None,
        "column of a table with the time of each row; found by its name if not given; none: there is none",
        metavar="NAME",
    )
    csv_delimiter: str | None = setting(
        None,
        "between columns of a text table, or tab or whitespace; detected if not given",
        metavar="CHARACTER",
    )
    csv_decimal: Literal[".", ","] | None = setting(None, "decimal mark; detected if not given")
    csv_skip_rows: int = setting(0, "lines to skip before the header of a text table", ge=0)
    csv_skip_footer: int = setting(0, "lines to leave out at the end of a text table", ge=0)
    decode_limit: Size = setting(
        1 << 30, "most bytes of a recording that its format lets be read only whole", ge=1, metavar="SIZE"
    )

    _dtype = pydantic.field_validator("raw_dtype", "tfrecord_dtype")(_check_dtype)
    _scale = pydantic.field_validator("scale", mode="before")(check_scale)
    _patterns = pydantic.field_validator("members")(_check_patterns)

    @pydantic.field_validator("sensitivity")
    @classmethod
    def _no_zero(cls, value: float | None) -> float | None:
        if value == 0:
            raise ValueError("0 cannot be divided by")
        return value

    @pydantic.model_validator(mode="after")
    def _check_iq(self) -> ReadSettings:
        if self.iq and self.raw_dtype is not None and np.dtype(self.raw_dtype).kind == "c":
            raise ValueError(f"iq: raw_dtype={self.raw_dtype} is complex already")
        return self

"""The nouns of the pipeline, immutable. Positions are integers, in samples."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np


@dataclasses.dataclass(frozen=True)
class Description:
    """What a reader sees in one recording, from its header or its size.

    Attributes:
      format: name of the reader.
      sample_rate: Hz, or None where the file does not say it.
      channels: number of channels.
      frames: samples per channel that can be read.
      dtype: the stored sample type, such as "<f4" or "PCM_16".
      frames_declared: samples per channel that the header promises, where that is another number.
      warnings: what is odd about the recording, though it is used.
      member: its name within a file that can hold several; None where the file is the recording.
      locator: what `Reader.read` needs to find it again; its form is the reader's own affair.
      is_complex: whether a sample is a complex number.
      channel_names: of each channel, or () where they have none.
      unit: of the samples as the reader gives them, such as "g" or "counts", or None where the file does not say.
      start_time_ns: time of the first sample, nanoseconds since 1970 UTC, or None.
      attributes: small values that the file tells of the recording, by name.
    """

    format: str
    sample_rate: float | None
    channels: int
    frames: int
    dtype: str
    frames_declared: int | None = None
    warnings: tuple[str, ...] = ()
    member: str | None = None
    locator: str = ""
    is_complex: bool = False
    channel_names: tuple[str, ...] = ()
    unit: str | None = None
    start_time_ns: int | None = None
    attributes: Mapping[str, str | int | float] = dataclasses.field(default_factory=dict, hash=False)


@dataclasses.dataclass(frozen=True)
class Block:
    """A run of `count` consecutive segments of one channel that are read together.

    Attributes:
      recording: the recording's id, bytes as on disk.
      uri: where to open it.
      format: name of its reader.
      size: bytes of the file when it was planned.
      channels: number of channels in the recording.
      frames: samples per channel in the recording.
      sample_rate: Hz.
      channel: index of the channel.
      start: first sample of the first segment.
      count: number of segments.
      label: class index, or None.
    """

    recording: bytes
    uri: bytes
    format: str
    size: int
    channels: int
    frames: int
    sample_rate: float
    channel: int
    start: int
    count: int
    label: int | None = None


@dataclasses.dataclass(frozen=True)
class Batch:
    """A fixed number of rows, of which `mask` says which are segments.

    Attributes:
      waveform: float32 [batch_size, segment_length], in the unit of the scale setting; rows that are
        masked out, and samples beyond `valid`, are zero.
      stored: the samples to keep where they are not `waveform` itself: int16 [batch_size, segment_length].
      mask: bool [batch_size].
      recording: the rows' recording ids, one per row, b"" where masked out.
      channel, start, valid, label: int64 [batch_size].
      sample_rate: float32 [batch_size], Hz.
    """

    waveform: np.ndarray
    stored: np.ndarray | None
    mask: np.ndarray
    recording: list[bytes]
    channel: np.ndarray
    start: np.ndarray
    valid: np.ndarray
    label: np.ndarray
    sample_rate: np.ndarray


@dataclasses.dataclass(frozen=True)
class ShardInfo:
    """What one finished shard holds.

    Attributes:
      examples: records in the file.
      num_bytes: length of the file.
      crc32c: CRC-32C of the whole file, as 8 hex digits.
    """

    examples: int
    num_bytes: int
    crc32c: str

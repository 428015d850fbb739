"""The nouns of the pipeline, immutable. Positions are integers, in samples."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np


@dataclasses.dataclass(frozen=True, slots=True)
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
class Source:
    """Where a recording's samples lie, and how they are read.

    Attributes:
      uri: what to open.
      name: id of the file, with its member.
      format: name of the reader.
      size: bytes of the file when it was planned.
      locator: see `Description`.
      overrides: read settings of this recording alone, as JSON, or "".
      frames: samples per channel, at the recording's own rate.
      sample_rate: its own, Hz.
      factors: what samples are multiplied with, one for all channels or one each; () for nothing.
    """

    uri: bytes
    name: bytes
    format: str
    size: int
    locator: str
    overrides: str
    frames: int
    sample_rate: float
    factors: tuple[float, ...] = ()

    def scale(self, samples: np.ndarray, channel: int) -> None:
        """Multiplies float32 or complex64 samples of a channel with its factor, in place."""
        if self.factors:
            parts = samples.view(np.float32)  # of complex ones both
            parts *= np.float32(self.factors[channel if len(self.factors) > 1 else 0])


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where the samples of a stored example once came from, which examples made of it tell again.

    Attributes:
      recording: id, bytes.
      channel: of that recording.
      start: of the stored example's first sample in it.
    """

    recording: bytes
    channel: int
    start: int


@dataclasses.dataclass(frozen=True)
class Block:
    """A run of `count` consecutive segments that are read together.

    Attributes:
      recording: the recording's id, bytes as on disk.
      source: where its samples are.
      paired: where those of the recording that belongs to it are, or None.
      sample_rate: of the examples, Hz.
      channels: of the recording that are read: one, or those that are averaged or stacked.
      start: first sample of the first segment, counted at `sample_rate` from the beginning of the file or member.
      end: where the recording's samples end, counted likewise; beyond are zeros.
      count: number of segments.
      label: class index, or None.
      context: small values of every example, by key.
      vectors: float32 vectors of every example, by key.
      start_time_ns: time of sample 0, nanoseconds since 1970 UTC, or None.
      origin: where the samples came from, if from another dataset.
    """

    recording: bytes
    source: Source
    paired: Source | None
    sample_rate: float
    channels: tuple[int, ...]
    start: int
    end: int
    count: int
    label: int | None = None
    context: Mapping[str, int | float | bytes] = dataclasses.field(default_factory=dict)
    vectors: Mapping[str, tuple[float, ...]] = dataclasses.field(default_factory=dict)
    start_time_ns: int | None = None
    origin: Origin | None = None


@dataclasses.dataclass(frozen=True)
class Batch:
    """A fixed number of rows; an example is one row, or several where channels are stacked.

    Attributes:
      waveform: float32 or complex64 [batch_size, segment_length], in the unit of the samples; rows of examples
        that are masked out, and samples beyond `valid`, are zero.
      stored: the samples to keep where they are not `waveform` itself: int16 [batch_size, segment_length].
      paired: those of the paired recording, as `waveform`, or None.
      rows: rows of one example.
      mask: bool [examples], which ones are segments.
      recording: their recordings' ids, b"" where masked out.
      channel, start: int64 [examples]; `channel` is 0 for averages.
      context: key to the small values [examples]: arrays, or lists of bytes.
      vectors: key to float32 [examples, …].
    """

    waveform: np.ndarray
    stored: np.ndarray | None
    paired: np.ndarray | None
    rows: int
    mask: np.ndarray
    recording: list[bytes]
    channel: np.ndarray
    start: np.ndarray
    context: Mapping[str, np.ndarray | list[bytes]]
    vectors: Mapping[str, np.ndarray]


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

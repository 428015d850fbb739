"""Reads a block's samples: range, channels, sample rate, factor, and zeros beyond the end."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import BinaryIO

import numpy as np

from .channels import Mode
from .elements import Block, Source
from .formats.base import Reader
from .rejects import Reason, RejectError
from .resample import resample_range
from .segment import SegmentSettings, span


def read_block(
    block: Block,
    source: Source,
    rows: np.ndarray,
    *,
    file: BinaryIO,
    reader: Reader,
    mode: Mode,
    segments: SegmentSettings,
) -> None:
    """Fills `rows` [block.count, rows of an example, segment_length] with the block's segments.

    Args:
      block: which segments, and which channels.
      source: the block's own or its paired one.
      rows: float32, or complex64 where samples are complex; or int16, for samples as they are stored.
      file: the source's, open.
      reader: of its format.
      mode: whether several channels are averaged or stacked.
      segments: length and hop.

    Raises:
      RejectError, OSError: the samples are not there.
    """
    _require_size(file, source)
    series = [(channel,) for channel in block.channels] if mode == "stack" else [block.channels]
    for row, channels in enumerate(series):

        def read(start: int, out: np.ndarray, channels: tuple[int, ...] = channels) -> None:
            available = max(0, min(len(out), block.end - start))
            if available:
                _read_average(file, reader, source, channels, block.sample_rate, start, out[:available])
            out[available:] = 0

        _read_segments(read, block, rows[:, row], segments)


def _require_size(file: BinaryIO, source: Source) -> None:
    size = file.seek(0, os.SEEK_END)
    if size != source.size:
        raise RejectError(
            Reason.CHANGED,
            f"the file had {source.size} bytes when it was planned and has {size} now: start the run again",
        )


def _read_segments(
    read: Callable[[int, np.ndarray], None], block: Block, rows: np.ndarray, segments: SegmentSettings
) -> None:
    """Fills `rows` [count, segment_length]; `read` fills a contiguous array from a start on."""
    length, hop = segments.segment_length, segments.hop
    if hop > length:  # what lies between is not read
        for row, start in zip(rows, range(block.start, block.start + block.count * hop, hop), strict=True):
            read(start, row)
    elif rows.flags.c_contiguous and (hop == length or block.count == 1):
        read(block.start, rows.reshape(-1))  # the rows are the channel's samples, one after the other
    else:
        samples = np.empty(span(block.count, segments), rows.dtype)
        read(block.start, samples)
        rows[:] = np.lib.stride_tricks.sliding_window_view(samples, length)[::hop]


def _read_average(
    file: BinaryIO,
    reader: Reader,
    source: Source,
    channels: tuple[int, ...],
    sample_rate: float,
    start: int,
    out: np.ndarray,
) -> None:
    """Samples of one channel, or the average of several."""
    if len(channels) == 1:
        _read_channel(file, reader, source, channels[0], sample_rate, start, out)
        return
    _require_float(out, "averages of channels")
    total = np.zeros(len(out), np.promote_types(out.dtype, np.float64))
    one = np.empty_like(out)
    for channel in channels:
        _read_channel(file, reader, source, channel, sample_rate, start, one)
        total += one
    out[:] = total / len(channels)


def _read_channel(
    file: BinaryIO,
    reader: Reader,
    source: Source,
    channel: int,
    sample_rate: float,
    start: int,
    out: np.ndarray,
) -> None:
    """Samples of one channel at the dataset's rate, in its unit."""

    def read(first: int, samples: np.ndarray) -> None:
        reader.read(file, source.locator, channel, first, samples)

    if source.sample_rate == sample_rate:
        read(start, out)
    else:
        _require_float(out, "resampled samples")
        resample_range(read, source.frames, source.sample_rate, sample_rate, start, out)
    if out.dtype != np.int16:
        with np.errstate(over="ignore"):  # infinite samples are rejected as such
            source.scale(out, channel)


def _require_float(out: np.ndarray, what: str) -> None:
    if out.dtype == np.int16:
        raise RejectError(
            Reason.DTYPE_MISMATCH,
            f"keep_waveform=int16 keeps 16-bit integers as they came, and {what} are no integers: "
            "set keep_waveform=float32",
        )

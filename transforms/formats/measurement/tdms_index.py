"""Where the samples of a TDMS file lie, from the metadata that npTDMS reads: they are read by range this way.

Layout: NI, "TDMS File Format Internal Structure". npTDMS alone reads whole chunks, and a chunk can be the whole file.
"""

from __future__ import annotations

import bisect
import dataclasses
import io
import logging
from collections.abc import Callable, Mapping
from typing import Any, BinaryIO

import numpy as np

from ...rejects import Reason, RejectError
from ..attributes import Value, plain_value
from ..base import MissingExtraError, short_read

_PIECE_BYTES = 4 << 20
_NEAR_BYTES = 64 << 10  # smaller chunks are read together with what lies between them
_MOST_SCALES, _MOST_SUMS = 32, 3  # npTDMS works out the sums of sums again and again
_RAW_DATA, _INTERLEAVED, _BIG_ENDIAN = 1 << 3, 1 << 5, 1 << 6


@dataclasses.dataclass(frozen=True)
class Run:
    """Equally spaced chunks of one channel's samples.

    Attributes:
      first: index of the first sample in the channel.
      position: of it in the file.
      values: samples a chunk.
      chunks: how many there are.
      chunk_bytes: from chunk to chunk.
      value_bytes: from sample to sample.
      order: byte order.
    """

    first: int
    position: int
    values: int
    chunks: int
    chunk_bytes: int
    value_bytes: int
    order: str


@dataclasses.dataclass
class Channel:
    """One channel.

    Attributes:
      group, name: its path.
      frames: samples there.
      dtype: of the stored samples, or None where they are no numbers.
      scaling: npTDMS's, or None.
      is_daqmx: whether a raw buffer of the device holds them, from which npTDMS takes them.
      properties: the channel's own; timestamps as npTDMS has them.
      values: plain properties of channel, group and file, the nearest first.
      runs: where its samples lie.
    """

    group: str
    name: str
    frames: int
    dtype: np.dtype | None
    scaling: Any
    is_daqmx: bool
    properties: Mapping[str, Any]
    values: tuple[Mapping[str, Value], ...]
    runs: list[Run] = dataclasses.field(default_factory=list)

    def raw(self, file: BinaryIO, start: int, count: int) -> np.ndarray:
        """Stored samples, native [count].

        Raises:
          RejectError: they are not there.
        """
        assert self.dtype is not None
        out = np.empty(count, self.dtype)
        number = bisect.bisect_right(self.runs, start, key=lambda run: run.first) - 1
        done = 0
        while done < count:
            if not 0 <= number < len(self.runs):
                raise short_read(start, count, done)
            run = self.runs[number]
            offset = start + done - run.first
            wanted = min(count - done, run.values * run.chunks - offset)
            if wanted > 0:
                _read_run(file, run, offset, out[done : done + wanted])
                done += wanted
            number += 1
        return out


@dataclasses.dataclass
class Contents:
    """What a file holds.

    Attributes:
      channels: in the file's order.
      incomplete: whether its last part is cut short.
    """

    channels: list[Channel]
    incomplete: bool

    @property
    def nbytes(self) -> int:
        """About what it takes in memory."""
        return sum(4000 + 300 * len(channel.runs) for channel in self.channels)


class Held:
    """A file that never reserves more than it holds, whatever lengths its metadata claims."""

    def __init__(self, file: BinaryIO):
        self._size = file.seek(0, io.SEEK_END)
        file.seek(0)
        self._file = file
        self.seek, self.tell, self.readinto = file.seek, file.tell, file.readinto  # type: ignore[attr-defined]

    def read(self, count: int = -1) -> bytes:
        """As the file's."""
        left = max(0, self._size - self._file.tell())
        return self._file.read(left if count < 0 else min(count, left))


def understand(file: BinaryIO) -> Contents:
    """Reads the metadata of all segments.

    Raises:
      MissingExtraError: npTDMS is not installed.
      RejectError: npTDMS does not understand the file.
    """
    return _contents(open_tdms(file))


def open_tdms(file: BinaryIO) -> Any:
    """A file as npTDMS has it, with the metadata of all segments read.

    Raises:
      MissingExtraError: npTDMS is not installed.
      RejectError: npTDMS does not understand the file.
    """
    try:
        import nptdms
    except ImportError as error:
        raise MissingExtraError("TDMS", "nptdms", "tdms") from error
    _hush()
    return call(nptdms.TdmsFile.open, Held(file), raw_timestamps=True)


def _hush() -> None:
    """What npTDMS logs of a file, at length, the description says."""
    from nptdms.log import log_manager

    if log_manager.log_level < logging.CRITICAL:
        log_manager.set_level(logging.CRITICAL)


def call(function: Callable[..., Any], *args: Any, **more: Any) -> Any:
    """What a function of npTDMS gives; it raises whatever its parsing stumbles over, and plain Exception.

    Raises:
      RejectError: instead of those.
    """
    try:
        return function(*args, **more)
    except (OSError, RejectError):
        raise
    except Exception as error:
        message = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        raise RejectError(Reason.BAD_FORMAT, f"npTDMS cannot read it: {message}") from error


def _contents(tdms: Any) -> Contents:
    plain = {key: value for key, each in tdms.properties.items() if (value := plain_value(each)) is not None}
    channels, by_path = [], {}
    for group in tdms.groups():
        in_group = {key: v for key, each in group.properties.items() if (v := plain_value(each)) is not None}
        for channel in group.channels():
            own = {key: v for key, each in channel.properties.items() if (v := plain_value(each)) is not None}
            for properties in (channel.properties, group.properties, tdms.properties):
                _check_scales(properties)
            kind = channel.data_type
            is_daqmx = channel.scaler_data_types is not None
            found = Channel(
                group=group.name,
                name=channel.name,
                frames=len(channel),
                dtype=channel.dtype if is_daqmx else getattr(kind, "nptype", None),
                scaling=_scaling(channel, group, tdms),
                is_daqmx=is_daqmx,
                properties=dict(channel.properties),
                values=(own, in_group, plain),
            )
            channels.append(found)
            by_path[channel.path] = found
    for segment in tdms._reader._segments:
        _add_segment(segment, by_path)
    return Contents(channels, tdms.file_status.incomplete_final_segment)


def _scaling(channel: Any, group: Any, tdms: Any) -> Any:
    from nptdms.scaling import get_scaling

    return call(get_scaling, channel.properties, group.properties, tdms.properties)


def _check_scales(properties: Mapping[str, Any]) -> None:
    types = [value for key, value in properties.items() if key.endswith("_Scale_Type")]
    numbers = [key[9 : key.find("]")] for key in properties if key.startswith("NI_Scale[")]
    highest = max((int(number) for number in numbers if number.isdecimal() and len(number) < 10), default=0)
    count = max(int(properties.get("NI_Number_Of_Scales", 0)), highest)
    if count > _MOST_SCALES or sum(each in ("Add", "Subtract") for each in types) > _MOST_SUMS:
        raise RejectError(
            Reason.BAD_FORMAT, f"a channel has {count} scales, at most {_MOST_SCALES} are possible"
        )


def _add_segment(segment: Any, channels: Mapping[str, Channel]) -> None:
    """Adds the runs of one segment; channels that npTDMS has to read get none."""
    objects = [each for each in segment.ordered_objects if each.has_data]
    if not segment.toc_mask & _RAW_DATA or not segment.num_chunks or not objects:
        return
    order = ">" if segment.toc_mask & _BIG_ENDIAN else "<"
    for each in objects:
        if each.path not in channels:
            raise RejectError(
                Reason.BAD_FORMAT, f"samples are said to be of {each.path[:100]!r}, which is no channel"
            )
    if any(channels[each.path].is_daqmx for each in objects):
        return
    sized = all(each.data_type.size is not None for each in objects)
    interleaved = bool(segment.toc_mask & _INTERLEAVED) and sized
    if interleaved and len({each.number_values for each in objects}) > 1:
        raise RejectError(Reason.BAD_FORMAT, "interleaved channels have different lengths")
    chunk_bytes = sum(each.data_size for each in objects)
    row_bytes = sum(each.data_type.size for each in objects) if interleaved else 0
    cut = segment.final_chunk_lengths_override
    whole = segment.num_chunks - (cut is not None)
    position, last = segment.data_position, segment.data_position + whole * chunk_bytes
    for each in objects:
        size = each.data_type.size
        if size is not None:
            values, step = each.number_values, row_bytes or size
            _add_run(channels[each.path], position, values, whole, chunk_bytes, step, order)
            if cut is not None:
                _add_run(channels[each.path], last, cut.get(each.path, 0), 1, 0, step, order)
        position += size if interleaved else each.data_size
        last += size if interleaved else (cut or {}).get(each.path, 0) * (size or 0)


def _add_run(
    channel: Channel, position: int, values: int, chunks: int, chunk_bytes: int, step: int, order: str
) -> None:
    if not values or not chunks:
        return
    runs = channel.runs
    first = runs[-1].first + runs[-1].values * runs[-1].chunks if runs else 0
    if chunk_bytes == values * step:  # nothing lies between the chunks
        values, chunks = values * chunks, 1
    runs.append(Run(first, position, values, chunks, chunk_bytes, step, order))


def _read_run(file: BinaryIO, run: Run, offset: int, out: np.ndarray) -> None:
    """Fills `out` from sample `offset` of the run, by pieces."""
    dtype = out.dtype.newbyteorder(run.order)  # type: ignore[arg-type]
    done = 0
    while done < len(out):
        chunk, within = divmod(offset + done, run.values)
        wanted = len(out) - done
        if run.chunks > 1 and run.values * run.value_bytes < _NEAR_BYTES and run.chunk_bytes < _NEAR_BYTES:
            count = min(wanted, max(1, _PIECE_BYTES // run.chunk_bytes - 1) * run.values)
            chunks, rest = np.divmod(np.arange(within, within + count), run.values)
            offsets = chunks * run.chunk_bytes + rest * run.value_bytes
            begin, span = run.position + chunk * run.chunk_bytes, int(offsets[-1]) + dtype.itemsize
        else:
            count = min(wanted, run.values - within, max(1, _PIECE_BYTES // run.value_bytes))
            offsets = np.arange(count) * run.value_bytes
            begin = run.position + chunk * run.chunk_bytes + within * run.value_bytes
            span = (count - 1) * run.value_bytes + dtype.itemsize
        file.seek(begin)
        content = file.read(span)
        if len(content) < span:
            raise short_read(run.first + offset, len(out), done)
        if run.value_bytes == dtype.itemsize and span == count * dtype.itemsize:
            out[done : done + count] = np.frombuffer(content, dtype)
        else:
            parts = np.frombuffer(content, np.uint8)[offsets[:, None] + np.arange(dtype.itemsize)]
            out[done : done + count] = parts.reshape(-1).view(dtype)
        done += count

"""Blocks to fixed batches: which rows a batch has, and reading them."""

from __future__ import annotations

import dataclasses
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Literal

import numpy as np
import pydantic

from .declare import setting, settings_group
from .elements import Batch, Block
from .formats.base import Reader
from .rejects import Reason, Reject, RejectError
from .schema import FeatureSpec
from .segment import SegmentSettings, span

ALIGNMENT = 64  # what TensorFlow asks of memory that it takes without a copy


@settings_group
class SampleSettings:
    """What happens to samples between file and batch."""

    non_finite: Literal["reject", "zero"] = setting(
        "reject", "segments with NaN or infinite samples: reject them, or set those samples to zero"
    )
    keep_waveform: Literal[False, "float32", "int16"] = setting(
        False, "store the samples too: float32, or int16 as they came", const="float32"
    )

    @pydantic.field_validator("keep_waveform", mode="before")
    @classmethod
    def _as_switch(cls, value: Any) -> Any:
        if str(value).lower() in ("true", "false"):
            return "float32" if str(value).lower() == "true" else False
        return value


def aligned_empty(shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    """An uninitialised array that TensorFlow can read in place."""
    itemsize = np.dtype(dtype).itemsize
    count = int(np.prod(shape))
    buffer = np.empty(count * itemsize + ALIGNMENT, np.uint8)
    first = -buffer.ctypes.data % ALIGNMENT
    return buffer[first : first + count * itemsize].view(dtype).reshape(shape)


def is_aligned(array: np.ndarray) -> bool:
    """Whether TensorFlow can read the array in place."""
    return array.flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0


class Buffers:
    """Batch arrays for reuse: fresh ones of several MiB would be mapped and cleared by the kernel each time."""

    def __init__(self, shape: tuple[int, int]):
        self._shape = shape
        self._free: list[np.ndarray] = []
        self._lock = threading.Lock()

    def take(self) -> np.ndarray:
        """An array whose content is undefined."""
        with self._lock:
            if self._free:
                return self._free.pop()
        return aligned_empty(self._shape)

    def give_back(self, array: np.ndarray) -> None:
        """Nobody looks at the array any more."""
        with self._lock:
            self._free.append(array)


def plan_batches(blocks: Sequence[Block], batch_size: int, hop: int) -> Iterator[list[Block]]:
    """Cuts a shard's segments into runs of batch_size, in order; the last has what is left.

    The rows of a batch follow from the plan alone, so they are the same whatever becomes of single rows,
    and batches can be read side by side. A block that crosses a border is cut in two.
    """
    rows: list[Block] = []
    free = batch_size
    for block in blocks:
        start, count = block.start, block.count
        while count:
            taken = min(count, free)
            whole = taken == block.count
            rows.append(block if whole else dataclasses.replace(block, start=start, count=taken))
            start, count, free = start + taken * hop, count - taken, free - taken
            if not free:
                yield rows
                rows, free = [], batch_size
    if rows:
        yield rows


def read_batch(
    blocks: Sequence[Block],
    *,
    waveform: np.ndarray,
    open_file: Callable[[bytes], BinaryIO],
    readers: Callable[[str], Reader],
    segments: SegmentSettings,
    samples: SampleSettings,
) -> tuple[Batch, list[Reject]]:
    """Reads the rows of one batch.

    Args:
      blocks: at most batch_size segments in all.
      waveform: float32 [batch_size, segment_length], to be filled.
      open_file: uri to a seekable binary file.
      readers: format name to reader.
      segments: segment length and hop.
      samples: what becomes of non-finite samples, and whether int16 samples are kept.

    Returns:
      the batch, where rows without segment or with a rejected one are zero and masked out, and the rejects.
    """
    rows = len(waveform)
    stored = np.zeros(waveform.shape, np.int16) if samples.keep_waveform == "int16" else None
    mask = np.zeros(rows, bool)
    recording, channel, start, valid, label, sample_rate = [], [], [], [], [], []
    rejects: list[Reject] = []
    for block in blocks:
        first, end = len(recording), len(recording) + block.count
        starts = range(block.start, block.start + block.count * segments.hop, segments.hop)
        recording += [block.recording] * block.count
        channel += [block.channel] * block.count
        start += starts
        valid += [min(segments.segment_length, block.frames - each) for each in starts]
        label += [-1 if block.label is None else block.label] * block.count
        sample_rate += [block.sample_rate] * block.count
        try:
            with open_file(block.uri) as file:
                _require_size(file, block)
                reader = readers(block.format)
                _read_rows(file, reader, block, waveform[first:end], segments)
                if stored is not None:
                    _read_rows(file, reader, block, stored[first:end], segments)
            mask[first:end] = True
        except (RejectError, OSError) as error:
            reason, message = _explain(error)
            where = tuple((block.channel, each) for each in starts)
            rejects.append(Reject(block.recording, "read", reason, message, block.count, where))
            waveform[first:end] = 0
    waveform[len(recording) :] = 0
    if samples.non_finite == "zero":
        np.nan_to_num(waveform, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
    unused = rows - len(recording)
    batch = Batch(
        waveform=waveform,
        stored=stored,
        mask=mask,
        recording=recording + [b""] * unused,
        channel=np.array(channel + [0] * unused, np.int64),
        start=np.array(start + [0] * unused, np.int64),
        valid=np.array(valid + [0] * unused, np.int64),
        label=np.array(label + [0] * unused, np.int64),
        sample_rate=np.array(sample_rate + [0] * unused, np.float32),
    )
    return batch, rejects


def kept_waveform(batch: Batch, specs: Mapping[str, FeatureSpec]) -> dict[str, np.ndarray]:
    """The samples to store, where an example has a waveform."""
    if "waveform" not in specs:
        return {}
    return {"waveform": batch.waveform if batch.stored is None else batch.stored}


def _require_size(file: BinaryIO, block: Block) -> None:
    size = file.seek(0, os.SEEK_END)
    if size != block.size:
        raise RejectError(
            Reason.CHANGED,
            f"the file had {block.size} bytes when it was planned and has {size} now: start the run again",
        )


def _read_rows(
    file: BinaryIO, reader: Reader, block: Block, rows: np.ndarray, segments: SegmentSettings
) -> None:
    """Fills `rows` [block.count, segment_length] with the block's segments; beyond the recording's end with zeros."""
    length, hop = segments.segment_length, segments.hop
    if hop > length:  # what lies between is not read
        for row, start in zip(rows, range(block.start, block.start + block.count * hop, hop), strict=True):
            _read_padded(file, reader, block, start, row)
    elif hop == length or block.count == 1:  # the rows are the channel's samples, one after the other
        _read_padded(file, reader, block, block.start, rows.reshape(-1))
    else:
        samples = np.empty(span(block.count, segments), rows.dtype)
        _read_padded(file, reader, block, block.start, samples)
        rows[:] = np.lib.stride_tricks.sliding_window_view(samples, length)[::hop]


def _read_padded(file: BinaryIO, reader: Reader, block: Block, start: int, out: np.ndarray) -> None:
    """Fills `out` [samples] from `start` on, with zeros beyond the recording's end."""
    available = max(0, min(len(out), block.frames - start))
    if available:
        reader.read(file, block.channel, start, out[:available])
    out[available:] = 0


def _explain(error: Exception) -> tuple[Reason, str]:
    if isinstance(error, RejectError):
        return error.reason, str(error)
    if isinstance(error, FileNotFoundError):
        return Reason.VANISHED, "the file was there when it was planned and is gone now: start the run again"
    if isinstance(error, IsADirectoryError):
        return Reason.NOT_A_FILE, "a folder has taken the file's place"
    return Reason.UNREADABLE, f"the file cannot be read: {getattr(error, 'strerror', None) or error}"


def reject_non_finite(batch: Batch, features: Mapping[str, np.ndarray], suspect: np.ndarray) -> list[Reject]:
    """Masks out the suspect rows that do hold NaN or infinity, in their samples or features."""
    rejects = []
    for row in np.flatnonzero(batch.mask & suspect).tolist():
        bad = ~np.isfinite(batch.waveform[row])
        if bad.any():
            stage = "read"
            message = (
                f"{int(bad.sum())} samples are NaN or infinite, the first at {batch.start[row] + int(bad.argmax())}: "
                "mend the file, or set non_finite=zero"
            )
        elif not all(np.isfinite(values[row]).all() for values in features.values()):
            stage = "compute"
            message = (
                f"a feature is not finite: the samples reach {np.abs(batch.waveform[row]).max():.3g}, too large for "
                "float32; check the sample type and byte order, or set a scale"
            )
        else:
            continue
        batch.mask[row] = False
        where = ((int(batch.channel[row]), int(batch.start[row])),)
        rejects.append(Reject(batch.recording[row], stage, Reason.NON_FINITE, message, 1, where))
    return rejects

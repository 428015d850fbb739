"""Blocks to fixed batches: which rows a batch has, and reading them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Any, BinaryIO, Literal

import numpy as np
import pydantic

from .channels import Mode
from .declare import setting, settings_group
from .elements import Batch, Block, Origin, Source
from .formats.base import Reader
from .read import read_block
from .rejects import Reason, Reject, RejectError
from .schema import FeatureSpec
from .segment import SegmentSettings

NO_LABEL = -1  # in the example of a recording without one
VECTORS = ("labels", "target")  # keys of an example that hold a vector of its recording


@settings_group
class SampleSettings:
    """What happens to samples between file and batch."""

    non_finite: Literal["reject", "zero"] = setting(
        "reject", "segments with NaN or infinite samples: reject them, or set those samples to zero"
    )
    resample: bool = setting(False, "bring recordings of other sample rates to sample_rate")
    keep_waveform: Literal[False, "float32", "int16"] = setting(
        False, "store the samples too: float32, or int16 as they came", const="float32"
    )

    @pydantic.field_validator("keep_waveform", mode="before")
    @classmethod
    def _as_switch(cls, value: Any) -> Any:
        if str(value).lower() in ("true", "false"):
            return "float32" if str(value).lower() == "true" else False
        return value


def plan_batches(blocks: Iterable[Block], batch_size: int, hop: int) -> Iterator[list[Block]]:
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
    open_file: Callable[[Source], BinaryIO],
    readers: Callable[[str, str], Reader],
    mode: Mode,
    segments: SegmentSettings,
    samples: SampleSettings,
    specs: Mapping[str, FeatureSpec],
) -> tuple[Batch, list[Reject]]:
    """Reads the examples of one batch.

    Args:
      blocks: as many segments in all as the batch has examples, or fewer.
      waveform: float32, or complex64 where samples are complex, [batch_size, segment_length], to be filled.
      open_file: a source's seekable binary file.
      readers: format name and overrides to reader.
      mode: what becomes of several channels.
      segments: segment length and hop.
      samples: what becomes of non-finite samples, and whether int16 samples are kept.
      specs: the keys of an example.

    Returns:
      the batch, where rows without segment or with a rejected one are zero and masked out, and the rejects.
    """
    rows = rows_of_example(blocks[0], mode)
    examples, length = len(waveform) // rows, segments.segment_length
    buffers = [waveform]
    stored = np.zeros(waveform.shape, np.int16) if samples.keep_waveform == "int16" else None
    paired = np.zeros_like(waveform) if "target_waveform" in specs else None
    buffers += [each for each in (stored, paired) if each is not None]
    mask = np.zeros(examples, bool)
    table = _Context(specs, examples)
    rejects: list[Reject] = []
    first = 0
    for block in blocks:
        end = first + block.count
        starts = range(block.start, block.start + block.count * segments.hop, segments.hop)
        table.add(first, block, mode, starts, length)

        def part(buffer: np.ndarray, first: int = first, block: Block = block) -> np.ndarray:
            shape = (block.count, rows, length)
            return buffer[first * rows : (first + block.count) * rows].reshape(shape)

        def fill(source: Source, buffer: np.ndarray, block: Block = block, part: Callable = part) -> None:
            with open_file(source) as file:
                read_block(
                    block,
                    source,
                    part(buffer),
                    file=file,
                    reader=readers(source.format, source.overrides),
                    mode=mode,
                    segments=segments,
                )

        try:
            fill(block.source, waveform)
            if stored is not None:
                fill(block.source, stored)
            if paired is not None and block.paired is not None:
                fill(block.paired, paired)
            mask[first:end] = True
        except (RejectError, OSError) as error:
            reason, message = _explain(error)
            where = tuple((channel_of(block, mode), each) for each in starts)
            rejects.append(Reject(block.recording, "read", reason, message, block.count, where))
            for buffer in buffers:
                part(buffer)[:] = 0
        first = end
    waveform[first * rows :] = 0
    if samples.non_finite == "zero":
        for buffer in (waveform, paired):
            if buffer is not None:
                np.nan_to_num(buffer, copy=False, nan=0.0, posinf=0.0, neginf=0.0)
    batch = Batch(
        waveform=waveform,
        stored=stored,
        paired=paired,
        rows=rows,
        mask=mask,
        recording=table.recording,
        channel=table.channel,
        start=table.start,
        context=table.context,
        vectors=table.vectors,
    )
    return batch, rejects


def rows_of_example(block: Block, mode: Mode) -> int:
    """Rows of one example: the channels that are stacked, otherwise one."""
    return len(block.channels) if mode == "stack" else 1


def channel_of(block: Block, mode: Mode) -> int:
    """The `channel` of a block's examples; 0 for those of several."""
    return block.channels[0] if mode == "each" else 0


class _Context:
    """The small values and vectors of a batch, filled block by block."""

    def __init__(self, specs: Mapping[str, FeatureSpec], examples: int):
        self.recording = [b""] * examples
        self.channel = np.zeros(examples, np.int64)
        self.start = np.zeros(examples, np.int64)
        self.context: dict[str, np.ndarray | list[bytes]] = {}
        self.vectors: dict[str, np.ndarray] = {}
        for name, spec in specs.items():
            if spec.is_small and name not in ("recording", "channel", "start"):
                is_bytes = spec.dtype == "bytes"
                self.context[name] = [b""] * examples if is_bytes else np.zeros(examples, spec.dtype)
            elif name in VECTORS:
                self.vectors[name] = np.zeros((examples, *spec.shape), np.float32)

    def add(self, first: int, block: Block, mode: Mode, starts: range, length: int) -> None:
        """The values of a block's examples, from row `first` on."""
        rows = slice(first, first + block.count)
        at = np.array(starts, np.int64)
        origin = block.origin or Origin(block.recording, channel_of(block, mode), 0)
        self.recording[rows] = [origin.recording] * block.count
        self.channel[rows] = origin.channel
        self.start[rows] = origin.start + at
        values: dict[str, Any] = {
            **block.context,
            "label": NO_LABEL if block.label is None else block.label,
            "valid": np.minimum(length, block.end - at),
            "sample_rate": block.sample_rate,
        }
        if "start_time_ns" in self.context:
            values["start_time_ns"] = _times(block, at)
        for name, column in self.context.items():
            column[rows] = [values[name]] * block.count if isinstance(column, list) else values[name]
        for name, array in self.vectors.items():
            array[rows] = block.vectors[name]


def _times(block: Block, start: np.ndarray) -> np.ndarray:
    """Time of each segment's first sample, int64 ns since 1970 UTC; numpy's NaT where it is not known."""
    if block.start_time_ns is None:
        return np.full(len(start), np.iinfo(np.int64).min)
    rate = Fraction(block.sample_rate)
    elapsed = [round(Fraction(each) * 10**9 / rate) for each in start.tolist()]
    return np.array([block.start_time_ns + each for each in elapsed], np.int64)


def kept_waveform(batch: Batch, specs: Mapping[str, FeatureSpec]) -> dict[str, np.ndarray]:
    """The samples to store, by key, [examples, …]; nothing where no waveform is kept.

    Complex ones are float32 […, segment_length, 2], real and imaginary part.
    """
    kept = {
        "waveform": batch.waveform if batch.stored is None else batch.stored,
        "target_waveform": batch.paired,
    }
    return {
        name: by_example(_parted(rows), batch)
        for name, rows in kept.items()
        if name in specs and rows is not None
    }


def _parted(rows: np.ndarray) -> np.ndarray:
    return rows.view(np.float32).reshape(*rows.shape, 2) if rows.dtype.kind == "c" else rows


def by_example(rows: np.ndarray, batch: Batch) -> np.ndarray:
    """[rows, …] as [examples, …], or [examples, channels, …] where channels are stacked."""
    if batch.rows == 1:
        return rows
    examples = len(batch.mask)
    return rows[: examples * batch.rows].reshape(examples, batch.rows, *rows.shape[1:])


def valid_rows(batch: Batch) -> np.ndarray:
    """Real samples of each row, int64 [rows]; 0 for rows that are masked out."""
    found = np.zeros(len(batch.waveform), np.int64)
    valid = np.asarray(batch.context["valid"]) * batch.mask
    found[: len(valid) * batch.rows] = np.repeat(valid, batch.rows)
    return found


def _explain(error: Exception) -> tuple[Reason, str]:
    if isinstance(error, RejectError):
        return error.reason, str(error)
    if isinstance(error, FileNotFoundError):
        return Reason.VANISHED, "the file was there when it was planned and is gone now: start the run again"
    if isinstance(error, IsADirectoryError):
        return Reason.NOT_A_FILE, "a folder has taken the file's place"
    return Reason.UNREADABLE, f"the file cannot be read: {getattr(error, 'strerror', None) or error}"


def count_silent(batch: Batch, suspect: np.ndarray) -> int:
    """Examples whose samples are all zero.

    Args:
      batch: with its samples.
      suspect: bool [rows], where to look.
    """
    suspects = by_example(suspect, batch).reshape(len(batch.mask), -1).all(axis=1)
    examples = by_example(batch.waveform, batch)
    return sum(not examples[row].any() for row in np.flatnonzero(batch.mask & suspects).tolist())


def reject_non_finite(batch: Batch, features: Mapping[str, np.ndarray], suspect: np.ndarray) -> list[Reject]:
    """Masks out the examples that do hold NaN or infinity, in their samples or features.

    Args:
      batch: with its samples.
      features: key to [rows, …].
      suspect: bool [rows], where to look.
    """
    rejects = []
    suspects = by_example(suspect, batch).reshape(len(batch.mask), -1).any(axis=1)
    if batch.paired is not None:
        suspects |= ~np.isfinite(by_example(batch.paired, batch).reshape(len(batch.mask), -1).sum(axis=1))
    for example in np.flatnonzero(batch.mask & suspects).tolist():
        rows = slice(example * batch.rows, (example + 1) * batch.rows)
        samples = (
            batch.waveform[rows]
            if batch.paired is None
            else np.stack([batch.waveform[rows], batch.paired[rows]])
        )
        bad = ~np.isfinite(samples.reshape(-1, samples.shape[-1]))
        if bad.any():
            stage = "read"
            message = (
                f"{int(bad.sum())} samples are NaN or infinite, the first at "
                f"{batch.start[example] + int(bad.any(axis=0).argmax())}: mend the file, or set non_finite=zero"
            )
        elif not all(np.isfinite(values[rows]).all() for values in features.values()):
            stage = "compute"
            message = (
                f"a feature is not finite: the samples reach {np.abs(samples).max():.3g}, too large for "
                "float32; check the sample type and byte order, or set a scale"
            )
        else:
            continue
        batch.mask[example] = False
        where = ((int(batch.channel[example]), int(batch.start[example])),)
        rejects.append(Reject(batch.recording[example], stage, Reason.NON_FINITE, message, 1, where))
    return rejects

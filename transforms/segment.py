"""A recording's segments: the one count function, which ones are kept, and the blocks they are read in."""

from __future__ import annotations

import dataclasses
from typing import Literal

import numpy as np

from .declare import setting, settings_group

BLOCK_SEGMENTS = 8
BLOCK_SAMPLES = 1 << 18  # 1 MiB of float32


@settings_group
class SegmentSettings:
    """How a channel is cut into segments."""

    segment_length: int = setting(16384, "samples of one segment, the input of one example", ge=1)
    hop_length: int | None = setting(
        None, "samples from one segment's start to the next; the segment length if not given", ge=1
    )
    tail: Literal["pad", "drop"] = setting(
        "pad", "pad fills the last segment with zeros, drop leaves out what does not fill one"
    )
    min_valid: float = setting(
        0.0, "leave out padded segments with a smaller fraction of real samples", ge=0, le=1
    )
    max_segments: int | None = setting(
        None, "segments to take of each channel of a recording; all if not given", ge=1
    )
    max_segments_from: Literal["first", "centre", "spread"] = setting(
        "first", "which ones max_segments takes: the first, those around the centre, or evenly spread"
    )

    @property
    def hop(self) -> int:
        """Samples between segment starts."""
        return self.segment_length if self.hop_length is None else self.hop_length


@dataclasses.dataclass(frozen=True)
class SegmentCount:
    """How many segments a channel has, and how many of them are used.

    Attributes:
      total: segments by the tail rule alone.
      short: padded segments left out by min_valid; it is the last ones.
      used: segments planned; total − short − used are skipped by max_segments.
    """

    total: int
    short: int
    used: int


def count_segments(frames: int, settings: SegmentSettings) -> SegmentCount:
    """Segments of a channel of `frames` samples.

    With L = segment_length and h = hop: pad gives 1 if frames ≤ L, else 1 + ⌈(frames − L)/h⌉; drop gives
    1 + ⌊(frames − L)/h⌋, and none if frames < L. No samples give no segment. With hops longer than the
    segment the padded rule may end with segments that hold no sample at all: those do not exist.

    >>> count_segments(40_000, SegmentSettings(segment_length=16_384)).total
    3
    >>> count_segments(40_000, SegmentSettings(segment_length=16_384, tail="drop")).total
    2
    """
    length, hop = settings.segment_length, settings.hop
    if frames <= 0:
        return SegmentCount(0, 0, 0)
    beyond = frames - length
    if settings.tail == "drop":
        total = 0 if beyond < 0 else 1 + beyond // hop
    else:
        total = 1 if beyond <= 0 else 1 + -(-beyond // hop)
        while (total - 1) * hop >= frames:
            total -= 1
    short, kept = 0, total
    while kept and min(length, frames - (kept - 1) * hop) < settings.min_valid * length:
        kept, short = kept - 1, short + 1
    used = kept if settings.max_segments is None else min(kept, settings.max_segments)
    return SegmentCount(total, short, used)


def choose_segments(count: SegmentCount, settings: SegmentSettings) -> np.ndarray:
    """Indexes of the used segments, int64, ascending."""
    available = count.total - count.short
    if count.used == available or settings.max_segments_from == "first":
        return np.arange(count.used)
    if settings.max_segments_from == "centre":
        return np.arange(count.used) + (available - count.used) // 2
    # Middles of `used` equal parts: whole-number arithmetic, so that every machine agrees.
    return (2 * np.arange(count.used) + 1) * available // (2 * count.used)


def block_limit(settings: SegmentSettings) -> int:
    """The most segments in a block: 8, or what fits into 1 MiB of samples, whichever is more."""
    fitting = 1 + (BLOCK_SAMPLES - settings.segment_length) // settings.hop
    return max(BLOCK_SEGMENTS, fitting)


def cut_blocks(frames: int, settings: SegmentSettings) -> tuple[np.ndarray, np.ndarray]:
    """The blocks of a channel.

    Returns:
      start of the first segment (samples) and number of segments of each block, int64 [blocks] each.
    """
    chosen = choose_segments(count_segments(frames, settings), settings)
    first, counts = cut_runs(chosen, block_limit(settings))
    return chosen[first] * settings.hop, counts


def cut_runs(chosen: np.ndarray, limit: int, keys: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Cuts segments into runs of consecutive ones.

    Args:
      chosen: segment indexes, int64, ascending.
      limit: the most in a run.
      keys: [segments], what is equal within a run; everything if not given.

    Returns:
      position of each run's first segment in `chosen`, and its number of segments, int64 [runs] each.
    """
    if not len(chosen):
        return np.empty(0, np.int64), np.empty(0, np.int64)
    breaks = np.diff(chosen, prepend=chosen[0] - 2) != 1
    if keys is not None:
        breaks[1:] |= keys[1:] != keys[:-1]
    run_starts = np.flatnonzero(breaks)
    run_ends = np.append(run_starts[1:], len(chosen))
    first = np.concatenate([np.arange(a, b, limit) for a, b in zip(run_starts, run_ends, strict=True)])
    last = np.append(first[1:], len(chosen))
    ends = run_ends[np.searchsorted(run_starts, first, side="right") - 1]
    return first, np.minimum(np.minimum(first + limit, ends), last) - first


def span(count: int, settings: SegmentSettings) -> int:
    """Samples from the first segment's start to the last one's end."""
    return (count - 1) * settings.hop + settings.segment_length

"""Blocks to shards: contiguous runs of nearly equal segment count."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from ..transforms import schema
from ..transforms.dataset import ShardName
from .settings import Settings


@dataclasses.dataclass(frozen=True)
class PlannedShard:
    """One shard to be made: its blocks are rows [first, first + blocks) of the plan's blocks."""

    name: ShardName
    first: int
    blocks: int
    segments: int


def shard_blocks(
    counts: np.ndarray,
    split_of: np.ndarray,
    splits: list[str],
    specs: Mapping[str, schema.FeatureSpec],
    settings: Settings,
) -> list[PlannedShard]:
    """Cuts each split's blocks into runs of nearly equal segment count.

    Args:
      counts: segments of each block, int64 [blocks], ordered by split.
      split_of: index of each block's split, int64 [blocks].
      splits: the splits' names.
      specs: the keys of an example.
      settings: how many shards, or of what size.
    """
    blocks = np.bincount(split_of, minlength=len(splits)).tolist()
    segments = np.bincount(split_of, counts, len(splits)).astype(int).tolist()
    wanted = count_shards(segments, blocks, schema.example_bytes(specs), settings)
    shards, first = [], 0
    for split, number, shard_count in zip(splits, blocks, wanted, strict=True):
        ends = cut_evenly(counts[first : first + number], shard_count)
        for index, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
            total = int(counts[first + begin : first + end].sum())
            shards.append(PlannedShard(ShardName(split, index), first + begin, end - begin, total))
        first += number
    return shards


def count_shards(segments: list[int], blocks: list[int], example_bytes: int, settings: Settings) -> list[int]:
    """Shards of each split: by size, or the given total shared by size; at least one where there is a segment.

    No more than a split has blocks, since no shard is planned empty.
    """
    if settings.num_shards is None:
        wanted = [-(-number * example_bytes // settings.shard_size) for number in segments]
    else:
        shares = [settings.num_shards * number / max(1, sum(segments)) for number in segments]
        wanted = [1 if number else 0 for number in segments]
        for _ in range(settings.num_shards - sum(wanted)):
            poorest = max(range(len(shares)), key=lambda i: shares[i] - wanted[i])
            wanted[poorest] += 1
    return [min(count, most) for count, most in zip(wanted, blocks, strict=True)]


def cut_evenly(counts: np.ndarray, runs: int) -> list[int]:
    """Cuts a sequence into runs of nearly equal sums.

    Args:
      counts: positive int64 [items].
      runs: how many, at most as many as there are items.

    Returns:
      the end of each run; none is empty.

    >>> cut_evenly(np.array([1, 1, 1, 1, 4]), 2)
    [4, 5]
    """
    if not runs:
        return []
    sums = np.cumsum(counts)
    targets = sums[-1] * np.arange(1, runs) / runs
    reaching = np.searchsorted(sums, targets)  # the item that reaches the target
    without = sums[reaching] - counts[reaching]
    ends = reaching + (sums[reaching] - targets <= targets - without)
    steps = np.arange(1, runs)
    ends = np.maximum.accumulate(np.maximum(ends, steps) - steps) + steps
    ends = np.minimum(ends, len(counts) - runs + steps)
    return [*ends.tolist(), len(counts)]

"""Statistics of stored features: computed by shard, merged in the order of the shards."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

import numpy as np

_STORED = ("origin", "offset", "m2", "min", "max")


class Statistics:
    """Of a feature, bin by bin of its last axis; all other axes are pooled.

    The histogram's buckets are the upper 16 bits of a float32: sign, exponent and seven bits of the fraction. So it
    covers every number with a relative width of 1/128, counts exactly, and merges exactly.

    Attributes:
      count: how many values each bin has had.
      origin: the first row that was seen, float64 [bins]; the mean is kept relative to it, since otherwise values
        that are large against their deviation would spoil that in merging.
      offset: mean − origin, float64 [bins].
      m2: sum of squared deviations from the mean, float64 [bins].
      min, max: float64 [bins]; ±infinity where there are no values.
      histogram: of all bins together, int64 [65536].
    """

    def __init__(self, bins: int):
        self.count = 0
        self.origin, self.offset, self.m2 = np.zeros(bins), np.zeros(bins), np.zeros(bins)
        self.min, self.max = np.full(bins, np.inf), np.full(bins, -np.inf)
        self.histogram = np.zeros(1 << 16, np.int64)

    def update(self, values: np.ndarray) -> None:
        """Adds rows, float32 [rows, bins], computed in float64 in two passes."""
        if not len(values):
            return
        origin = values[0].astype(np.float64)
        deviation = values - origin
        offset = deviation.mean(axis=0)
        deviation -= offset
        self._add(len(values), origin, offset, np.einsum("rb,rb->b", deviation, deviation))
        self.min = np.minimum(self.min, values.min(axis=0))
        self.max = np.maximum(self.max, values.max(axis=0))
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
        self.histogram += np.bincount((bits >> np.uint32(16)).ravel(), minlength=1 << 16)

    def merge(self, other: Statistics) -> None:
        """Adds those of other rows."""
        if other.count:
            self._add(other.count, other.origin, other.offset, other.m2)
            self.min, self.max = np.minimum(self.min, other.min), np.maximum(self.max, other.max)
            self.histogram += other.histogram

    def _add(self, count: int, origin: np.ndarray, offset: np.ndarray, m2: np.ndarray) -> None:
        """Source: Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm (1979), eq. 2.1."""
        if not self.count:
            self.origin = origin
        total = self.count + count
        delta = (origin - self.origin) + (offset - self.offset)
        self.offset = self.offset + delta * (count / total)
        self.m2 = self.m2 + m2 + delta**2 * (self.count * count / total)
        self.count = total

    @property
    def mean(self) -> np.ndarray:
        """Float64 [bins]; 0 without values."""
        return self.origin + self.offset

    @property
    def variance(self) -> np.ndarray:
        """Of the population, float64 [bins]; 0 without values."""
        return self.m2 / max(1, self.count)

    @property
    def std(self) -> np.ndarray:
        """Of the population, float64 [bins]."""
        return np.sqrt(self.variance)

    def quantile(self, share: float) -> float:
        """The value that this share of all values lie below, to half a bucket: a relative error of 1/256.

        Raises:
          ValueError: there are no values, or the share is not between 0 and 1.
        """
        if not 0 <= share <= 1:
            raise ValueError(f"share={share:g} must be from 0 to 1")
        if not self.count:
            raise ValueError("there are no values")
        half = 1 << 15
        order = np.concatenate([np.arange(half, 2 * half)[::-1], np.arange(half)])  # −∞ to ∞
        sums = np.cumsum(self.histogram[order])
        bucket = order[int(np.searchsorted(sums, max(1, share * sums[-1])))]
        middle = np.array([(bucket << 16) | (1 << 15)], np.uint32).view(np.float32)
        return float(np.clip(middle[0], self.min.min(), self.max.max()))


def counted_rows(values: np.ndarray, mask: np.ndarray, valid: np.ndarray, frame_step: int) -> np.ndarray:
    """The rows that statistics are of: without what is masked out, and without frames that hold no real sample.

    Args:
      values: float32 [rows, …, bins].
      mask: bool [rows].
      valid: real samples, int [rows].
      frame_step: of the second axis, or 0 where it is not of frames.

    Returns:
      float32 [counted, bins].
    """
    if frame_step:
        frames = np.arange(values.shape[1]) * frame_step
        return values[mask[:, None] & (frames < valid[:, None])].reshape(-1, values.shape[-1])
    return values[mask].reshape(-1, values.shape[-1])


def merged(parts: Iterable[Mapping[str, Statistics]]) -> dict[str, Statistics]:
    """Those of several shards together; the same order gives the same bits."""
    whole: dict[str, Statistics] = {}
    for part in parts:
        for key, statistics in part.items():
            whole.setdefault(key, Statistics(len(statistics.m2))).merge(statistics)
    return whole


def to_bytes(statistics: Mapping[str, Statistics]) -> bytes:
    """As an npz file: FEATURE/count, mean, m2, min, max, and the filled buckets of the histogram with their counts."""
    arrays: dict[str, Any] = {}
    for key, each in sorted(statistics.items()):
        filled = np.flatnonzero(each.histogram)
        arrays[f"{key}/count"] = np.int64(each.count)
        arrays |= {f"{key}/{name}": getattr(each, name) for name in ("mean", *_STORED)}
        arrays[f"{key}/bucket"] = filled.astype(np.uint16)
        arrays[f"{key}/bucket_count"] = each.histogram[filled]
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # its entries bear no time
    return stream.getvalue()


def from_file(file: str | BinaryIO) -> dict[str, Statistics]:
    """Reads what `to_bytes` has written.

    Raises:
      ValueError: it is no such file.
    """
    statistics = {}
    try:
        with np.load(file, allow_pickle=False) as arrays:
            for key in sorted({name.rpartition("/")[0] for name in arrays.files}):
                each = Statistics(len(arrays[f"{key}/mean"]))
                each.count = int(arrays[f"{key}/count"])
                for name in _STORED:
                    setattr(each, name, arrays[f"{key}/{name}"])
                each.histogram[arrays[f"{key}/bucket"]] = arrays[f"{key}/bucket_count"]
                statistics[key] = each
    except (KeyError, AttributeError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"no statistics of features: {error}") from error
    return statistics

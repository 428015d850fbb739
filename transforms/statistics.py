"""Statistics of stored features: computed by shard, merged in the order of the shards."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Mapping
from typing import Any, BinaryIO

import numpy as np

_STORED = ("origin", "offset", "m2", "min", "max")
# What numpy and zipfile raise on a file that is none, or a damaged one: a wrong bit may tell of encryption, or of a
# later version of zip (RuntimeError).
_DAMAGE = (EOFError, KeyError, RuntimeError, TypeError, ValueError, zipfile.BadZipFile)
_BUCKETS = 1 << 16
# Values at a time: their float64 deviations, 1 MiB, stay in the cache, and memory does not grow with the batch.
_BLOCK = 1 << 17


class Statistics:
    """Of a feature, bin by bin of its last axis; all other axes are pooled.

    Mean and variance are numpy's in float64 of all values, to 1e-12 (the mean of the largest value). The same
    updates and merges in the same order give the same bits.

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
        self.histogram = np.zeros(_BUCKETS, np.int64)

    def update(self, values: np.ndarray) -> None:
        """Adds values, computed in float64 in two passes.

        Args:
          values: float32 [rows, …, bins], finite.

        Raises:
          ValueError: the values are not float32, or of another number of bins.
        """
        bins = len(self.m2)
        if values.dtype != np.float32 or values.shape[-1] != bins:
            raise ValueError(
                f"values are {values.dtype} {list(values.shape)}, must be float32 [rows, …, {bins}]"
            )
        values = np.ascontiguousarray(values).reshape(-1, bins)
        if not values.size:
            return
        count, origin = len(values), values[0].astype(np.float64)
        # Where the mean is large against the deviation, exponents are equal and the sum of 24-bit fractions is exact
        # in float64; hence no values need be shifted for it, and constants have exactly no deviation.
        sums = np.add.reduce(values, axis=0, dtype=np.float64)
        m2 = self._count_blocks(values, sums / count)
        self._add(count, origin, (sums - count * origin) / count, m2)
        self.min = np.minimum(self.min, values.min(axis=0))
        self.max = np.maximum(self.max, values.max(axis=0))

    def _count_blocks(self, values: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Adds values [rows, bins] to the histogram; returns their sums of squared deviations from the mean."""
        rows = max(1, _BLOCK // len(mean))
        scratch = np.empty((min(rows, len(values)), len(mean)))
        indices, bits = scratch.view(np.int64), values.view(np.uint32)
        m2 = np.zeros(len(mean))
        for first in range(0, len(values), rows):
            block = values[first : first + rows]
            deviation, bucket = scratch[: len(block)], indices[: len(block)]
            np.copyto(deviation, block)  # then the difference: faster than one of mixed types
            deviation -= mean
            m2 += np.einsum("rb,rb->b", deviation, deviation)
            np.right_shift(bits[first : first + rows], 16, out=bucket, casting="unsafe")
            self.histogram += np.bincount(bucket.reshape(-1), minlength=_BUCKETS)
        return m2

    def merge(self, other: Statistics) -> None:
        """Adds those of other rows.

        Raises:
          ValueError: they are of another number of bins.
        """
        if len(other.m2) != len(self.m2):
            raise ValueError(f"statistics of {len(other.m2)} bins cannot be added to those of {len(self.m2)}")
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
        """The smallest value that this share of all values do not exceed, to half a bucket.

        Its relative error is at most 1/256. Numbers nearer to zero than 2⁻¹²⁶ have an absolute one, of at most 2⁻¹³³.

        Raises:
          ValueError: there are no values, or the share is not between 0 and 1.
        """
        if not 0 <= share <= 1:
            raise ValueError(f"share={share:g} must be from 0 to 1")
        if not self.count:
            raise ValueError("there are no values")
        half = _BUCKETS // 2
        order = np.concatenate([np.arange(half, _BUCKETS)[::-1], np.arange(half)])  # −∞ to ∞
        sums = np.cumsum(self.histogram[order])
        bucket = int(order[np.searchsorted(sums, max(1, share * sums[-1]))])
        if bucket % half == 0:  # mostly zeros, which shall stay zeros
            return 0.0
        middle = np.array([(bucket << 16) | (1 << 15)], np.uint32).view(np.float32)
        return float(np.clip(middle[0], self.min.min(), self.max.max()))

    def to_arrays(self, prefix: str) -> dict[str, Any]:
        """By PREFIX/name: count, mean, origin, offset, m2, min, max, filled buckets and how many values they have."""
        filled = np.flatnonzero(self.histogram)
        arrays: dict[str, Any] = {"count": np.int64(self.count)}
        arrays |= {name: getattr(self, name) for name in ("mean", *_STORED)}
        arrays |= {"bucket": filled.astype(np.uint16), "bucket_count": self.histogram[filled]}
        return {f"{prefix}/{name}": array for name, array in arrays.items()}

    @staticmethod
    def from_arrays(arrays: Mapping[str, Any], prefix: str) -> Statistics:
        """The inverse of `to_arrays`.

        Raises:
          KeyError: an array is missing.
          ValueError: an array has another type or shape, or the histogram another number of values.
        """

        def take(name: str, dtype: type, shape: tuple[int, ...] | None = None) -> np.ndarray:
            array = np.asarray(arrays[f"{prefix}/{name}"])
            if array.dtype != dtype or (array.ndim != 1 if shape is None else array.shape != shape):
                raise ValueError(f"{prefix}/{name} is {array.dtype} {list(array.shape)}")
            return array

        each = Statistics(len(take("mean", np.float64)))
        each.count = int(take("count", np.int64, ()))
        for name in _STORED:
            setattr(each, name, take(name, np.float64, each.m2.shape))
        bucket = take("bucket", np.uint16)
        each.histogram[bucket] = take("bucket_count", np.int64, bucket.shape)
        if each.histogram.sum() != each.count * len(each.m2):
            raise ValueError(
                f"{prefix}: {each.count} values a bin, and {each.histogram.sum()} in the histogram"
            )
        return each


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
        mask = mask[:, None] & (frames < valid[:, None])
    if not mask.all():  # else without a copy
        values = values[mask]
    return values.reshape(-1, values.shape[-1])


def merged(parts: Iterable[Mapping[str, Statistics]]) -> dict[str, Statistics]:
    """Those of several parts together; the same order gives the same bits."""
    whole: dict[str, Statistics] = {}
    for part in parts:
        add(whole, part)
    return whole


def add(whole: dict[str, Statistics], part: Mapping[str, Statistics]) -> None:
    """Adds those of other rows, key by key."""
    for key, statistics in part.items():
        whole.setdefault(key, Statistics(len(statistics.m2))).merge(statistics)


def to_bytes(statistics: Mapping[str, Statistics]) -> bytes:
    """As an npz file: FEATURE/count, mean, m2, min, max, and the filled buckets of the histogram with their counts."""
    arrays: dict[str, Any] = {}
    for key, each in sorted(statistics.items()):
        arrays |= each.to_arrays(key)
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # its entries bear no time
    return stream.getvalue()


def from_file(file: str | BinaryIO) -> dict[str, Statistics]:
    """Reads what `to_bytes` has written.

    Raises:
      ValueError: it is no such file.
    """
    try:
        loaded = np.load(file, allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            raise ValueError("a single array")
        with loaded as arrays:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in arrays.zip.infolist()):
                raise ValueError("an array is compressed")
            keys = sorted({name.rpartition("/")[0] for name in arrays.files})
            return {key: Statistics.from_arrays(arrays, key) for key in keys}
    except _DAMAGE as error:
        raise ValueError(f"no statistics of features: {error}") from error

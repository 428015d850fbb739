"""Recordings to blocks, in the order of the dataset."""

from __future__ import annotations

import dataclasses
import functools
from array import array
from collections.abc import Iterable, Sequence

import numpy as np

from ..transforms.channels import parse_channels
from ..transforms.rejects import Reason, Reject
from ..transforms.segment import (
    SegmentSettings,
    block_limit,
    choose_segments,
    count_segments,
    cut_blocks,
    cut_runs,
)
from .recording import Recording
from .settings import Settings
from .splits import Assignment, hash_id, salted_hash

# Indexes of segments that have no class, and of those that are left out; classes and splits count from 0.
NONE = -1
_LEFT_OUT = -2


@dataclasses.dataclass(frozen=True)
class Cuts:
    """All blocks, in the order of the dataset.

    Attributes:
      owner: index of each block's recording, int64 [blocks].
      series: which of the recording's channel lists, int64 [blocks].
      channels: index of that list in `channel_lists`, int64 [blocks].
      channel_lists: those that there are; most recordings share a few.
      starts, counts: first sample and number of segments, int64 [blocks].
      label: class index, or NONE, int64 [blocks].
      split: index, int64 [blocks].
      ends: where each recording ends, at the dataset's rate, int64 [recordings].
      rejects: recordings without any segment.
      left_out: segments that the settings do not want, by cause.
    """

    owner: np.ndarray
    series: np.ndarray
    channels: np.ndarray
    channel_lists: list[tuple[int, ...]]
    starts: np.ndarray
    counts: np.ndarray
    label: np.ndarray
    split: np.ndarray
    ends: np.ndarray
    rejects: list[Reject]
    left_out: dict[str, int]


def _integers() -> array[int]:
    return array("q")


@dataclasses.dataclass
class _Pieces:
    """Blocks of one series after the other, until they are ordered."""

    owner: array[int] = dataclasses.field(default_factory=_integers)
    series: array[int] = dataclasses.field(default_factory=_integers)
    channels: array[int] = dataclasses.field(default_factory=_integers)
    starts: array[int] = dataclasses.field(default_factory=_integers)
    counts: array[int] = dataclasses.field(default_factory=_integers)
    label: array[int] = dataclasses.field(default_factory=_integers)
    split: array[int] = dataclasses.field(default_factory=_integers)
    hashes: array[int] = dataclasses.field(default_factory=lambda: array("Q"))
    lists: dict[tuple[int, ...], int] = dataclasses.field(default_factory=dict)


def cut_all(
    recordings: Sequence[Recording],
    splits: Assignment,
    label_names: Sequence[str],
    sample_rate: float,
    settings: Settings,
) -> Cuts:
    """Cuts every recording into blocks and orders them by split and by a salted hash, so that rows are scattered.

    Args:
      recordings: the usable ones.
      splits: of each.
      label_names: the classes.
      sample_rate: of the dataset, Hz.
      settings: segments, seed.
    """
    cut = functools.lru_cache(maxsize=4096)(lambda samples: _lists(cut_blocks(samples, settings)))
    count = functools.lru_cache(maxsize=4096)(lambda samples: count_segments(samples, settings))
    classes = {name: index for index, name in enumerate(label_names)}
    each = parse_channels(settings.channels).mode == "each"
    salt = b"order:%d\0" % settings.seed
    left_out: dict[str, int] = dict.fromkeys(
        (
            "segments with too few real samples",
            "segments above max_segments",
            "segments without a label",
            "segments between two splits",
        ),
        0,
    )
    rejects, ends, pieces = [], _integers(), _Pieces()
    for index, recording in enumerate(recordings):
        begin, end = recording.span(sample_rate)
        ends.append(end)
        number, width = count(end - begin), len(recording.channels)
        left_out["segments with too few real samples"] += width * number.short
        left_out["segments above max_segments"] += width * (number.total - number.short - number.used)
        if not number.used:
            rejects.append(Reject(recording.id, "plan", Reason.TOO_SHORT, _too_short(end - begin, settings)))
            continue
        if recording.intervals is None and index not in splits.ranges:
            starts, counts = cut(end - begin)
            label = [classes.get(str(recording.label), NONE)] * len(starts)
            split = [int(splits.split_of[index])] * len(starts)
        else:
            chosen = choose_segments(number, settings)
            labels = _labels(recording, begin, end, chosen, classes, sample_rate, settings)
            of_split = _splits(splits, index, begin, end, chosen, settings)
            left_out["segments without a label"] += width * int((labels == _LEFT_OUT).sum())
            left_out["segments between two splits"] += width * int((of_split == _LEFT_OUT).sum())
            kept = (labels != _LEFT_OUT) & (of_split != _LEFT_OUT)
            chosen, labels, of_split = chosen[kept], labels[kept], of_split[kept]
            if not len(chosen):
                reason = Reason.LABEL_MISSING if recording.intervals is not None else Reason.BETWEEN_SPLITS
                message = "no segment of it has a label or lies whole in one split: the gap between splits takes it, or no row labels it"
                rejects.append(Reject(recording.id, "plan", reason, message))
                continue
            first, counts = cut_runs(chosen, block_limit(settings), of_split * (len(classes) + 2) + labels)
            starts, counts = (chosen[first] * settings.hop).tolist(), counts.tolist()
            label, split = labels[first].tolist(), of_split[first].tolist()
        starts = [start + begin for start in starts]
        key = salt + hash_id(recording.id)
        for series, read in enumerate(recording.channels):
            channel, blocks = read[0] if each else 0, len(starts)
            pieces.owner.extend([index] * blocks)
            pieces.series.extend([series] * blocks)
            pieces.channels.extend([pieces.lists.setdefault(read, len(pieces.lists))] * blocks)
            pieces.starts.extend(starts)
            pieces.counts.extend(counts)
            pieces.label.extend(label)
            pieces.split.extend(split)
            pieces.hashes.extend(salted_hash(b"%b\0%d\0%d" % (key, channel, start)) for start in starts)
    return _ordered(pieces, np.array(ends, np.int64), rejects, left_out)


def _lists(arrays: Iterable[np.ndarray]) -> list[list[int]]:
    return [each.tolist() for each in arrays]


def _ordered(pieces: _Pieces, ends: np.ndarray, rejects: list[Reject], left_out: dict[str, int]) -> Cuts:
    owner, series, channels, starts, counts, label, split = (
        np.frombuffer(values, np.int64)
        for values in (
            pieces.owner,
            pieces.series,
            pieces.channels,
            pieces.starts,
            pieces.counts,
            pieces.label,
            pieces.split,
        )
    )
    order = np.lexsort((starts, series, owner, np.frombuffer(pieces.hashes, np.uint64), split))
    return Cuts(
        owner=owner[order],
        series=series[order],
        channels=channels[order],
        channel_lists=list(pieces.lists),
        starts=starts[order],
        counts=counts[order],
        label=label[order],
        split=split[order],
        ends=ends,
        rejects=rejects,
        left_out={cause: number for cause, number in left_out.items() if number},
    )


def _labels(
    recording: Recording,
    begin: int,
    end: int,
    chosen: np.ndarray,
    classes: dict[str, int],
    sample_rate: float,
    settings: Settings,
) -> np.ndarray:
    """Class of each segment: the label that covers most of it, the first where two cover the same."""
    if recording.intervals is None:
        return np.full(len(chosen), classes.get(str(recording.label), NONE))
    scale = sample_rate / (recording.sample_rate or sample_rate)
    starts = begin + chosen * settings.hop
    stops = np.minimum(starts + settings.segment_length, end)
    covered = np.zeros((len(classes), len(chosen)))
    for interval in recording.intervals:
        low, high = interval.start * scale, interval.end * scale
        touched = slice(int(np.searchsorted(stops, low, "right")), int(np.searchsorted(starts, high, "left")))
        overlap = np.minimum(stops[touched], high) - np.maximum(starts[touched], low)
        covered[classes[interval.label], touched] += overlap
    none = NONE if settings.missing_label == "keep" else _LEFT_OUT
    if not len(classes):
        return np.full(len(chosen), none)
    best = covered.argmax(axis=0)
    return np.where(covered.max(axis=0) > 0, best, none)


def _splits(
    splits: Assignment, index: int, begin: int, end: int, chosen: np.ndarray, settings: SegmentSettings
) -> np.ndarray:
    """Split of each segment; those that lie in none whole are left out."""
    if index not in splits.ranges:
        return np.full(len(chosen), splits.split_of[index])
    starts = begin + chosen * settings.hop
    stops = np.minimum(starts + settings.segment_length, end)
    found = np.full(len(chosen), _LEFT_OUT)
    for split, low, high in splits.ranges[index]:
        inside = np.ones(len(chosen), bool)
        if low is not None:
            inside &= starts >= low
        if high is not None:
            inside &= stops <= high
        found[inside] = split
    return found


def _too_short(samples: int, settings: Settings) -> str:
    if settings.tail == "drop" and samples < settings.segment_length:
        rule = f"fewer than segment_length={settings.segment_length}: set tail=pad, or a shorter segment"
    else:
        share = f"min_valid={settings.min_valid:g} of segment_length={settings.segment_length}"
        rule = f"fewer than {share}: lower either"
    return f"{samples} samples are {rule}"

"""Recordings to splits, blocks and shards: pure and deterministic, and nothing is read but headers."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import unicodedata
from collections import Counter

import numpy as np
import pyarrow as pa

from ..transforms import parts, schema
from ..transforms.dataset import ShardName
from ..transforms.rejects import Reason, Reject
from ..transforms.segment import count_segments, cut_blocks
from .describe import Recording, describe, keep_rate, label
from .ledger import planned_ledger
from .match import Matches
from .settings import Settings, example_specs


@dataclasses.dataclass(frozen=True)
class PlannedShard:
    """One shard to be made: its blocks are rows [first, first + blocks) of the plan's blocks."""

    name: ShardName
    first: int
    blocks: int
    segments: int


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a run is to do.

    Attributes:
      recordings: the ledger before anything is read.
      blocks: in the order of the shards, with the columns of `parts.SCHEMA`.
      shards: in order; the position is the shard's number.
      rejects: what cannot be used, as far as names, sizes and headers show, sorted by recording.
      left_out: files that were not matched, and segments that were not wanted, by cause.
      label_names: class names by index, or None where there are no labels.
      sample_rate: Hz, of every example.
      warnings: what the user should know.
    """

    recordings: pa.Table
    blocks: pa.Table
    shards: list[PlannedShard]
    rejects: list[Reject]
    left_out: dict[str, int]
    label_names: list[str] | None
    sample_rate: float
    warnings: list[str]

    @property
    def segments(self) -> int:
        """Examples, if nothing is rejected any more."""
        return sum(shard.segments for shard in self.shards)

    def part(self, shard: PlannedShard) -> pa.Table:
        """The blocks of one shard."""
        return self.blocks.slice(shard.first, shard.blocks)


def make_plan(matches: Matches, settings: Settings) -> Plan:
    """Decides what becomes of every recording.

    Raises:
      SettingsError: a setting is missing that the files do not say, or their sample rates differ.
    """
    described, unreadable = describe(matches.found, settings)  # [Recording], [Reject]
    sample_rate, same_rate, mismatched = keep_rate(described, settings)
    recordings, unlabelled = label(same_rate, settings)
    splits = sorted(settings.splits)
    split_of = assign_splits(recordings, settings)  # [recordings]
    cuts = cut_all(recordings, split_of, settings)  # [blocks], by split and hash
    shards = shard_blocks(cuts.counts, split_of[cuts.owner], splits, settings)  # [PlannedShard]
    label_names = None if settings.label_from is None else sorted({str(item.label) for item in recordings})
    return Plan(
        recordings=planned_ledger(
            matches,
            described,
            recordings,
            [splits[i] for i in split_of],
            np.bincount(cuts.owner, cuts.counts, len(recordings)).astype(np.int64),
            _shards_of(cuts.owner, shards, len(recordings)),
        ),
        blocks=_block_table(recordings, cuts, label_names),
        shards=shards,
        rejects=sorted(
            matches.rejects + unreadable + mismatched + unlabelled + cuts.rejects,
            key=lambda reject: reject.recording,
        ),
        left_out=matches.left_out | cuts.left_out,
        label_names=label_names,
        sample_rate=sample_rate,
        warnings=_warnings(shards, settings) + _padding(recordings, cuts, settings),
    )


def hash_id(recording: bytes) -> bytes:
    """A recording's id as hashes use it: composed the same way (NFC) on every file system."""
    if recording.isascii():
        return recording
    name = recording.decode("utf-8", "surrogateescape")
    return unicodedata.normalize("NFC", name).encode("utf-8", "surrogateescape")


def _hash(salted: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(salted, digest_size=8).digest(), "big")


def assign_splits(recordings: list[Recording], settings: Settings) -> np.ndarray:
    """Each recording's split, as an index into the sorted names, int64 [recordings].

    The salted hash of its group, read as a fraction, falls into one of them; the group is the file.
    """
    salt = b"split:%d\0" % settings.seed
    hashes = [_hash(salt + hash_id(recording.found.recording)) for recording in recordings]
    fractions = np.array(hashes, np.uint64).astype(np.float64) / 2.0**64
    edges = np.cumsum([settings.splits[name] for name in sorted(settings.splits)])
    return np.minimum(np.searchsorted(edges, fractions, side="right"), len(edges) - 1)


@dataclasses.dataclass(frozen=True)
class Cuts:
    """All blocks, in the order of the dataset.

    Attributes:
      owner: index of each block's recording, int64 [blocks].
      channel, starts, counts: channel index, first sample and number of segments, int64 [blocks].
      rejects: recordings without any segment.
      left_out: segments that the settings do not want, by cause.
    """

    owner: np.ndarray
    channel: np.ndarray
    starts: np.ndarray
    counts: np.ndarray
    rejects: list[Reject]
    left_out: dict[str, int]


def cut_all(recordings: list[Recording], split_of: np.ndarray, settings: Settings) -> Cuts:
    """Cuts every channel into blocks and orders them by split and by a salted hash, so that rows are scattered."""
    cut = functools.lru_cache(maxsize=4096)(lambda frames: cut_blocks(frames, settings))
    count = functools.lru_cache(maxsize=4096)(lambda frames: count_segments(frames, settings))
    salt = b"order:%d\0" % settings.seed
    short = above = 0
    rejects: list[Reject] = []
    owners: list[int] = []
    channels: list[int] = []
    piece_starts: list[np.ndarray] = []
    piece_counts: list[np.ndarray] = []
    hashes: list[int] = []
    for index, recording in enumerate(recordings):
        description = recording.description
        number = count(description.frames)
        short += description.channels * number.short
        above += description.channels * (number.total - number.short - number.used)
        if not number.used:
            message = _too_short(description.frames, settings)
            rejects.append(Reject(recording.found.recording, "plan", Reason.TOO_SHORT, message))
            continue
        starts, counts = cut(description.frames)
        key = salt + hash_id(recording.found.recording)
        for channel in range(description.channels):
            owners.append(index)
            channels.append(channel)
            piece_starts.append(starts)
            piece_counts.append(counts)
            hashes += [_hash(b"%b\0%d\0%d" % (key, channel, start)) for start in starts.tolist()]
    lengths = [len(starts) for starts in piece_starts]
    owner = np.repeat(np.array(owners, np.int64), lengths)
    channel_of = np.repeat(np.array(channels, np.int64), lengths)
    starts = np.concatenate([np.empty(0, np.int64), *piece_starts])
    counts = np.concatenate([np.empty(0, np.int64), *piece_counts])
    order = np.lexsort((starts, channel_of, owner, np.array(hashes, np.uint64), split_of[owner]))
    left_out = {"segments with too few real samples": short, "segments above max_segments": above}
    return Cuts(
        owner=owner[order],
        channel=channel_of[order],
        starts=starts[order],
        counts=counts[order],
        rejects=rejects,
        left_out={cause: number for cause, number in left_out.items() if number},
    )


def _too_short(frames: int, settings: Settings) -> str:
    if settings.tail == "drop" and frames < settings.segment_length:
        rule = f"fewer than segment_length={settings.segment_length}: set tail=pad, or a shorter segment"
    else:
        share = f"min_valid={settings.min_valid:g} of segment_length={settings.segment_length}"
        rule = f"fewer than {share}: lower either"
    return f"{frames} samples are {rule}"


def shard_blocks(
    counts: np.ndarray, split_of: np.ndarray, splits: list[str], settings: Settings
) -> list[PlannedShard]:
    """Cuts each split's blocks into runs of nearly equal segment count.

    Args:
      counts: segments of each block, int64 [blocks], ordered by split.
      split_of: index of each block's split, int64 [blocks].
      splits: the splits' names.
      settings: how many shards, or of what size.
    """
    blocks = np.bincount(split_of, minlength=len(splits)).tolist()
    segments = np.bincount(split_of, counts, len(splits)).astype(int).tolist()
    wanted = count_shards(segments, blocks, settings)
    shards, first = [], 0
    for split, number, shard_count in zip(splits, blocks, wanted, strict=True):
        ends = cut_evenly(counts[first : first + number], shard_count)
        for index, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
            total = int(counts[first + begin : first + end].sum())
            shards.append(PlannedShard(ShardName(split, index), first + begin, end - begin, total))
        first += number
    return shards


def count_shards(segments: list[int], blocks: list[int], settings: Settings) -> list[int]:
    """Shards of each split: by size, or the given total shared by size; at least one where there is a segment.

    No more than a split has blocks, since no shard is planned empty.
    """
    if settings.num_shards is None:
        num_bytes = schema.example_bytes(example_specs(settings))
        wanted = [-(-number * num_bytes // settings.shard_size) for number in segments]
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


def _shards_of(owner: np.ndarray, shards: list[PlannedShard], recordings: int) -> pa.Array:
    """Names of each recording's shards, list<string> [recordings]."""
    numbers = np.repeat(np.arange(len(shards)), [shard.blocks for shard in shards]).astype(np.int64)
    pairs = np.unique(np.stack([owner, numbers], axis=1), axis=0)
    ends = np.searchsorted(pairs[:, 0], np.arange(recordings + 1)).astype(np.int32)
    names = pa.array([str(shard.name) for shard in shards], pa.string())
    return pa.ListArray.from_arrays(pa.array(ends), names.take(pa.array(pairs[:, 1])))


def _block_table(recordings: list[Recording], cuts: Cuts, label_names: list[str] | None) -> pa.Table:
    """The columns of `parts.SCHEMA`."""
    labels = {name: index for index, name in enumerate(label_names or ())}
    found = [recording.found for recording in recordings]
    described = [recording.description for recording in recordings]
    of_recording = {
        "recording": [item.recording for item in found],
        "uri": [item.uri for item in found],
        "format": [item.format for item in described],
        "size": [item.size for item in found],
        "channels": [item.channels for item in described],
        "frames": [item.frames for item in described],
        "sample_rate": [item.sample_rate for item in described],
        "label": [labels.get(str(recording.label)) for recording in recordings],
    }
    of_block = {"channel": cuts.channel, "start": cuts.starts, "count": cuts.counts}
    owner = pa.array(cuts.owner)
    arrays = [
        pa.array(of_block[field.name], field.type)
        if field.name in of_block
        else pa.array(of_recording[field.name], field.type).take(owner)
        for field in parts.SCHEMA
    ]
    return pa.table(arrays, schema=parts.SCHEMA)


def _warnings(shards: list[PlannedShard], settings: Settings) -> list[str]:
    filled = {shard.name.split for shard in shards}
    warnings = [f"split {name} is empty" for name in sorted(settings.splits) if name not in filled]
    if settings.hop > settings.segment_length:
        share = 1 - settings.segment_length / settings.hop
        warnings.append(
            f"hop_length={settings.hop} is above segment_length={settings.segment_length}: "
            f"{share:.0%} of the samples are not used"
        )
    return warnings


def _padding(recordings: list[Recording], cuts: Cuts, settings: Settings) -> list[str]:
    """A warning where a quarter of all samples would be zeros; only the last segment of a channel is padded."""
    frames = np.array([recording.description.frames for recording in recordings], np.int64)[cuts.owner]
    last = cuts.starts + (cuts.counts - 1) * settings.hop
    zeros = np.maximum(0, settings.segment_length - (frames - last))
    share = zeros.sum() / max(1, cuts.counts.sum() * settings.segment_length)
    if share <= 0.25:
        return []
    return [
        f"{np.count_nonzero(zeros):,} of {cuts.counts.sum():,} segments are padded, {share:.0%} of all samples are "
        f"zeros: check the sample type, or set a segment_length below {settings.segment_length}"
    ]


def split_table(plan: Plan) -> dict[str, Counter[str]]:
    """Split to label to planned segments; the label is "" where there are none."""
    table: dict[str, Counter[str]] = {}
    for shard in plan.shards:
        part = plan.part(shard)
        counter = table.setdefault(shard.name.split, Counter())
        labels = part.column("label").to_pylist()
        for index, count in zip(labels, part.column("count").to_pylist(), strict=True):
            counter["" if index is None or plan.label_names is None else plan.label_names[index]] += count
    return table

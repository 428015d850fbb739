"""Recordings to splits, blocks and shards: pure and deterministic, and nothing is read but headers."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import unicodedata
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa

from ..transforms import parts, schema
from ..transforms.ahead import map_ahead
from ..transforms.dataset import ShardName
from ..transforms.elements import Description
from ..transforms.files import open_local
from ..transforms.formats.choose import HEAD_BYTES, Readers, format_by_content
from ..transforms.rejects import Reason, Reject, RejectError, text
from ..transforms.segment import count_segments, cut_blocks
from .match import Found, Matches
from .settings import Settings, SettingsError, example_specs

_HEADER_THREADS = 8
LEDGER = pa.schema(
    [
        ("id", pa.string()),
        ("uri", pa.string()),
        ("size", pa.int64()),
        ("modified", pa.timestamp("ns", "UTC")),
        ("format", pa.string()),
        ("sample_rate", pa.float64()),
        ("channels", pa.int32()),
        ("frames_declared", pa.int64()),
        ("frames", pa.int64()),
        ("group", pa.string()),
        ("split", pa.string()),
        ("label", pa.string()),
        ("segments_planned", pa.int64()),
        ("segments_written", pa.int64()),
        ("segments_rejected", pa.int64()),
        ("shards", pa.list_(pa.string())),
        ("warnings", pa.list_(pa.string())),
    ]
)


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
      recordings: the ledger before anything is read, every matched recording, sorted by id.
      blocks: in the order of the shards, with the columns of `parts.SCHEMA`.
      shards: in order; the position is the shard's number.
      rejects: what cannot be used, as far as names, sizes and headers show.
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


@dataclasses.dataclass(frozen=True, slots=True)
class _Usable:
    found: Found
    description: Description
    label: str | None


def make_plan(matches: Matches, settings: Settings) -> Plan:
    """Decides what becomes of every recording.

    Raises:
      SettingsError: a setting is missing that the files do not say, or their sample rates differ.
    """
    described, rejects = _describe_all(matches.found, settings)
    rejects = matches.rejects + rejects
    sample_rate, described, mismatched = _choose_rate(described, settings)
    usable, unlabelled = _label(described, settings)
    rejects += mismatched + unlabelled
    label_names = None if settings.label_pattern is None else sorted({str(item.label) for item in usable})
    split_names = sorted(settings.splits)
    splits = _assign_splits(usable, settings, split_names)
    table, left_out, too_short = _cut_all(usable, splits, label_names, settings)
    rejects += too_short
    blocks, shards = _shard(table, split_names, settings)
    return Plan(
        recordings=_ledger(matches, usable, described, [split_names[i] for i in splits], blocks, shards),
        blocks=blocks.select(parts.SCHEMA.names),
        shards=shards,
        rejects=sorted(rejects, key=lambda reject: reject.recording),
        left_out=matches.left_out | left_out,
        label_names=label_names,
        sample_rate=sample_rate,
        warnings=_warn(shards, settings),
    )


def _describe_all(
    found: list[Found], settings: Settings
) -> tuple[list[tuple[Found, Description]], list[Reject]]:
    readers = Readers(settings)

    def describe(item: Found) -> Description | Reject:
        try:
            try:
                if item.format is not None:
                    reader = readers.get(item.format)
                    if not reader.needs_header:
                        return reader.describe(None, item.size)
                with open_local(item.uri) as file:
                    format_name = item.format or format_by_content(file.read(HEAD_BYTES))
                    if format_name is None:
                        raise RejectError(
                            Reason.UNKNOWN_FORMAT if item.size else Reason.EMPTY,
                            "neither name nor content shows the format: set input_format"
                            if item.size
                            else "the file has 0 bytes",
                        )
                    return readers.get(format_name).describe(file, item.size)
            except OSError as error:
                raise RejectError(
                    Reason.UNREADABLE, f"the file cannot be read: {error.strerror or error}"
                ) from error
        except RejectError as error:
            return Reject(item.recording, "plan", error.reason, str(error))

    try:
        if any(item.format is None or readers.get(item.format).needs_header for item in found):
            with ThreadPoolExecutor(_HEADER_THREADS, "plan") as pool:
                results = list(map_ahead(describe, found, pool, depth=1024))
        else:
            results = [describe(item) for item in found]
    except RejectError:
        raise
    except ValueError as error:  # from a reader: a setting is missing
        raise SettingsError(str(error)) from None
    described = [
        (item, got) for item, got in zip(found, results, strict=True) if isinstance(got, Description)
    ]
    return described, [got for got in results if isinstance(got, Reject)]


def _choose_rate(
    described: list[tuple[Found, Description]], settings: Settings
) -> tuple[float, list[tuple[Found, Description]], list[Reject]]:
    """The dataset's one sample rate; recordings with another are rejected, or refused where none is expected."""
    counts = Counter(description.sample_rate for _, description in described)
    if settings.sample_rate is None and len(counts) > 1:
        table = ", ".join(f"{rate:g} Hz: {count}" for rate, count in sorted(counts.items()))
        raise SettingsError(
            f"the recordings have several sample rates ({table}) and a dataset has one: set sample_rate to the one to use"
        )
    rate = settings.sample_rate if settings.sample_rate is not None else next(iter(counts), 0.0)
    assert rate is not None
    kept, rejects = [], []
    for item, description in described:
        if description.sample_rate == rate:
            kept.append((item, description))
        else:
            message = f"sample_rate={description.sample_rate:g} Hz, but {rate:g} Hz is expected: resample the file, or set sample_rate"
            rejects.append(Reject(item.recording, "plan", Reason.RATE_MISMATCH, message))
    return rate, kept, rejects


def _label(
    described: list[tuple[Found, Description]], settings: Settings
) -> tuple[list[_Usable], list[Reject]]:
    pattern = settings.label_pattern
    usable, rejects = [], []
    for item, description in described:
        label = None
        if pattern is not None:
            found = pattern.search(text(item.recording))
            label = found["label"] if found else None
            if label is None:
                message = f"label_from={settings.label_from} finds no label in the path: mend the expression, or leave the file out"
                rejects.append(Reject(item.recording, "plan", Reason.LABEL_MISSING, message))
                continue
        usable.append(_Usable(item, description, label))
    return usable, rejects


def hash_id(recording: bytes) -> bytes:
    """A recording's id as hashes use it: composed the same way on every file system."""
    if recording.isascii():
        return recording
    name = recording.decode("utf-8", "surrogateescape")
    return unicodedata.normalize("NFC", name).encode("utf-8", "surrogateescape")


def _hash(seed: int, purpose: str, *what: bytes) -> int:
    salted = hashlib.blake2b(f"{purpose}:{seed}".encode(), digest_size=8)
    for item in what:
        salted.update(b"\0" + item)
    return int.from_bytes(salted.digest(), "big")


def _assign_splits(usable: list[_Usable], settings: Settings, names: list[str]) -> np.ndarray:
    """Index of each recording's split: its group's hash, read as a fraction, falls into one of them."""
    edges = np.cumsum([settings.splits[name] for name in names])
    hashes = [_hash(settings.seed, "split", hash_id(item.found.recording)) for item in usable]
    fractions = np.array(hashes, np.uint64).astype(np.float64) / 2.0**64
    return np.minimum(np.searchsorted(edges, fractions, side="right"), len(names) - 1)


def _cut_all(
    usable: list[_Usable], splits: np.ndarray, label_names: list[str] | None, settings: Settings
) -> tuple[pa.Table, dict[str, int], list[Reject]]:
    """All blocks, with their split and the hash that orders them."""
    cut = functools.lru_cache(maxsize=4096)(lambda frames: cut_blocks(frames, settings))
    count = functools.lru_cache(maxsize=4096)(lambda frames: count_segments(frames, settings))
    labels = {name: index for index, name in enumerate(label_names or ())}
    left_out: Counter[str] = Counter()
    rejects: list[Reject] = []
    owner, channel, starts, counts, hashes = [], [], [], [], []
    for index, item in enumerate(usable):
        frames, channels = item.description.frames, item.description.channels
        number = count(frames)
        left_out["segments with too few real samples"] += channels * number.short
        left_out["segments above max_segments"] += channels * (number.total - number.short - number.used)
        if not number.used:
            message = _too_short(frames, settings)
            rejects.append(Reject(item.found.recording, "plan", Reason.TOO_SHORT, message))
            continue
        block_starts, block_counts = cut(frames)
        key = hash_id(item.found.recording)
        for each in range(channels):
            owner.append(np.full(len(block_starts), index))
            channel.append(np.full(len(block_starts), each))
            starts.append(block_starts)
            counts.append(block_counts)
            hashes += [
                _hash(settings.seed, "order", key, b"%d" % each, b"%d" % start)
                for start in block_starts.tolist()
            ]
    joined = [
        np.concatenate(arrays) if arrays else np.empty(0, np.int64)
        for arrays in (owner, channel, starts, counts)
    ]
    of, channel_of, start_of, count_of = joined
    order = np.lexsort((start_of, channel_of, of, np.array(hashes, np.uint64), splits[of])) if len(of) else of
    of = of[order]

    def column(values: list, kind: pa.DataType) -> pa.Array:
        return pa.array(values, kind).take(pa.array(of))

    found = [item.found for item in usable]
    described = [item.description for item in usable]
    table = pa.table(
        {
            "recording": column([item.recording for item in found], pa.binary()),
            "uri": column([item.uri for item in found], pa.binary()),
            "format": column([item.format for item in described], pa.string()),
            "size": column([item.size for item in found], pa.int64()),
            "channels": column([item.channels for item in described], pa.int32()),
            "frames": column([item.frames for item in described], pa.int64()),
            "sample_rate": column([item.sample_rate for item in described], pa.float64()),
            "channel": pa.array(channel_of[order], pa.int32()),
            "start": pa.array(start_of[order], pa.int64()),
            "count": pa.array(count_of[order], pa.int64()),
            "label": column([labels.get(str(item.label)) if labels else None for item in usable], pa.int64()),
            "split": pa.array(splits[of] if len(of) else of, pa.int32()),
            "owner": pa.array(of, pa.int64()),
        }
    )
    return table, {reason: number for reason, number in left_out.items() if number}, rejects


def _too_short(frames: int, settings: Settings) -> str:
    if settings.tail == "drop" and frames < settings.segment_length:
        rule = f"fewer than segment_length={settings.segment_length}: set tail=pad, or a shorter segment"
    else:
        rule = f"less than min_valid={settings.min_valid:g} of segment_length={settings.segment_length}: lower either"
    return f"{frames} samples are {rule}"


def _shard(
    table: pa.Table, split_names: list[str], settings: Settings
) -> tuple[pa.Table, list[PlannedShard]]:
    """Cuts each split's blocks into runs of nearly equal segment count."""
    counts = table.column("count").to_numpy()
    split_of = table.column("split").to_numpy()
    segments = {i: int(counts[split_of == i].sum()) for i in range(len(split_names))}
    blocks = {i: int((split_of == i).sum()) for i in range(len(split_names))}
    wanted = _shard_counts(segments, blocks, settings)
    shards: list[PlannedShard] = []
    first = 0
    for i, name in enumerate(split_names):
        ends = cut_evenly(counts[first : first + blocks[i]], wanted[i])
        for index, (begin, end) in enumerate(zip([0, *ends], ends, strict=False)):
            size = int(counts[first + begin : first + end].sum())
            shards.append(PlannedShard(ShardName(name, index), first + begin, end - begin, size))
        first += blocks[i]
    return table, shards


def _shard_counts(segments: dict[int, int], blocks: dict[int, int], settings: Settings) -> dict[int, int]:
    """Shards of each split: by size, or the given total shared by the largest remainder."""
    if settings.num_shards is None:
        num_bytes = schema.example_bytes(example_specs(settings))
        return {i: min(blocks[i], -(-segments[i] * num_bytes // settings.shard_size)) for i in segments}
    total = sum(segments.values())
    shares = {i: settings.num_shards * n / total for i, n in segments.items() if n}
    counts = {i: max(1, int(share)) for i, share in shares.items()}
    spare = settings.num_shards - sum(counts.values())
    for i in sorted(shares, key=lambda i: (int(shares[i]) - shares[i], i)):
        if spare > 0 and shares[i] > counts[i]:
            counts[i] += 1
            spare -= 1
    return {i: min(blocks[i], counts.get(i, 0)) for i in segments}


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
    before = np.searchsorted(sums, targets)  # the item that reaches the target
    below = np.where(before > 0, sums[before - 1], 0)
    ends = before + (sums[before] - targets <= targets - below)
    steps = np.arange(1, runs)
    ends = np.maximum.accumulate(np.maximum(ends, steps) - steps) + steps
    ends = np.minimum(ends, len(counts) - runs + steps)
    return [*ends.tolist(), len(counts)]


def _ledger(
    matches: Matches,
    usable: list[_Usable],
    described: list[tuple[Found, Description]],
    splits: list[str],
    blocks: pa.Table,
    shards: list[PlannedShard],
) -> pa.Table:
    """Every matched recording, with what is known before anything is read."""
    descriptions = {item.recording: description for item, description in described}
    numbers = np.repeat(np.arange(len(shards)), [shard.blocks for shard in shards])
    owner = blocks.column("owner").to_numpy()
    planned = np.bincount(owner, blocks.column("count").to_numpy(), len(usable)).astype(np.int64)
    pairs = (
        np.unique(np.stack([owner, numbers], axis=1), axis=0) if len(owner) else np.empty((0, 2), np.int64)
    )
    first = np.searchsorted(pairs[:, 0], np.arange(len(usable) + 1))
    names = [str(shard.name) for shard in shards]
    position = {item.found.recording: i for i, item in enumerate(usable)}
    rows = [(item.recording, item) for item in matches.found] + [(r.recording, None) for r in matches.rejects]
    rows.sort(key=lambda row: row[0])
    columns: dict[str, list] = {name: [] for name in LEDGER.names}

    def put(**values: object) -> None:
        for name, value in values.items():
            columns[name].append(value)

    for recording, item in rows:
        known = descriptions.get(recording)
        i = position.get(recording)
        count = 0 if i is None else int(planned[i])
        put(
            id=text(recording),
            uri=None if item is None else text(item.uri),
            size=None if item is None else item.size,
            modified=None if item is None else item.modified_ns,
            format=known.format if known else None if item is None else item.format,
            sample_rate=known.sample_rate if known else None,
            channels=known.channels if known else None,
            frames_declared=known.frames_declared if known else None,
            frames=known.frames if known else None,
            group=text(recording),
            split=splits[i] if count and i is not None else None,
            label=usable[i].label if i is not None else None,
            segments_planned=count,
            segments_written=0,
            segments_rejected=0,
            shards=[] if i is None else [names[n] for n in pairs[first[i] : first[i + 1], 1]],
            warnings=list(known.warnings) if known else [],
        )
    return pa.table([pa.array(columns[field.name], field.type) for field in LEDGER], schema=LEDGER)


def _warn(shards: list[PlannedShard], settings: Settings) -> list[str]:
    filled = {shard.name.split for shard in shards}
    warnings = [f"split {name} is empty" for name in sorted(settings.splits) if name not in filled]
    if settings.hop > settings.segment_length:
        share = 1 - settings.segment_length / settings.hop
        warnings.append(
            f"hop_length={settings.hop} is above segment_length={settings.segment_length}: {share:.0%} of the samples are not used"
        )
    return warnings


def split_table(plan: Plan) -> dict[str, Counter[str]]:
    """Split to label to planned segments; the label is "" where there are none."""
    table: dict[str, Counter[str]] = {}
    for shard in plan.shards:
        part = plan.part(shard)
        counter = table.setdefault(shard.name.split, Counter())
        labels = part.column("label").to_pylist()
        for label, count in zip(labels, part.column("count").to_pylist(), strict=True):
            name = "" if label is None or plan.label_names is None else plan.label_names[label]
            counter[name] += count
    return table

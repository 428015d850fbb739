"""Recordings to splits, blocks and shards: deterministic, and nothing is read but headers."""

from __future__ import annotations

import dataclasses
import os
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from ..transforms import parts, schema
from ..transforms.channels import channel_lists, parse_channels
from ..transforms.rejects import Reason, Reject, RejectError
from . import manifest as manifests
from .context import Context, context_of, reject_bad_targets, stacked_channels, start_time_ns
from .cut import NO_LABEL, Cuts, cut_all
from .describe import describe, keep_rate, pair
from .duplicates import find_duplicates
from .labels import Facts, class_names, has_labels, label_all, needs_attributes
from .ledger import planned_ledger
from .match import Matches, match, match_listed
from .recording import Recording, Sifted
from .settings import Settings, SettingsError
from .shards import PlannedShard, shard_blocks
from .splits import Assignment, assign_splits, show_group

_DOMINATES = 0.5  # of a split's segments, where it has many groups


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a run is to do.

    Attributes:
      recordings: the ledger before anything is read.
      sources: what every block of a recording shares, one row a usable recording; see `parts.schema`.
      blocks: owner (row of sources), channels, start, count and label of each block, in the order of the shards.
      shards: in order; the position is the shard's number.
      specs: every key of an example.
      splits: names, sorted.
      rejects: what cannot be used, as far as names, sizes and headers show, sorted by recording.
      left_out: files that were not matched, and segments that were not wanted, by cause.
      label_names: class names by index, or None where there are no labels.
      sample_rate: Hz, of every example.
      unit: of the samples, or None.
      resampled: how many recordings are.
      table: split and label to the number of groups, recordings and segments.
      warnings: what the user should know.
    """

    recordings: pa.Table
    sources: pa.Table
    blocks: pa.Table
    shards: list[PlannedShard]
    specs: dict[str, schema.FeatureSpec]
    splits: list[str]
    rejects: list[Reject]
    left_out: dict[str, int]
    label_names: list[str] | None
    sample_rate: float
    unit: str | None
    resampled: int
    table: dict[tuple[str, str], tuple[int, int, int]]
    warnings: list[str]

    @property
    def segments(self) -> int:
        """Examples, if nothing is rejected any more."""
        return sum(shard.segments for shard in self.shards)

    def part(self, shard: PlannedShard) -> pa.Table:
        """The blocks of one shard, with the columns of `parts.schema`."""
        blocks = self.blocks.slice(shard.first, shard.blocks)
        columns = self.sources.take(blocks.column("owner"))
        context = columns.column("context").combine_chunks()
        if context.type.get_field_index("label") >= 0:
            values = [
                blocks.column("label").combine_chunks()
                if field.name == "label"
                else context.field(field.name)
                for field in context.type
            ]
            context = pa.StructArray.from_arrays(values, fields=list(context.type))
        own = {"context": context} | {name: blocks.column(name) for name in ("channels", "start", "count")}
        arrays = [
            own.get(name, columns.column(name) if name not in own else None) for name in self._part_names()
        ]
        return pa.table(arrays, names=self._part_names())

    def _part_names(self) -> list[str]:
        return parts.schema(pa.struct([]), pa.struct([])).names


def plan_inputs(settings: Settings, output: str | None) -> Plan:
    """Matches the inputs or what the manifest lists, and plans it.

    Raises:
      SettingsError, NoMatchError, ManifestError: see `match`, `load_manifest` and `make_plan`.
    """
    if settings.manifest is None:
        return make_plan(match(settings.input, settings, output), settings)
    manifest = manifests.load_manifest(settings.manifest, settings.manifest_times)
    beside = os.path.dirname(os.path.abspath(settings.manifest))
    matches = match_listed(manifest.rows, settings.input, beside, settings, output)
    return make_plan(matches, settings, manifest)


def make_plan(matches: Matches, settings: Settings, manifest: manifests.Manifest | None = None) -> Plan:
    """Decides what becomes of every recording.

    Raises:
      SettingsError: a setting is missing that the files do not say, or their sample rates differ.
    """
    columns = () if manifest is None else manifest.columns
    described = describe(matches.found, settings, manifest, attributes=needs_attributes(settings))
    _refuse_shared_ids(described.recordings)
    sieve = _Sieve(described.recordings, [*matches.rejects, *described.rejects])
    sample_rate, same_rate = keep_rate(sieve.recordings, settings)
    sieve.keep(same_rate)
    if "target" in columns:
        sieve.keep(pair(sieve.recordings, _targets(sieve.recordings, settings, manifest)))
    channels = sieve.choose_channels(settings)
    labelled = has_labels(settings, columns)
    sieve.keep(label_all(sieve.recordings, settings, labelled=labelled))
    sieve.keep(reject_bad_targets(sieve.recordings, settings))
    facts = Facts(settings)
    gap_s = settings.segment_length / sample_rate if sample_rate else 0.0
    splits = assign_splits(sieve.recordings, facts.fields, settings, gap_s)
    if settings.duplicates != "off":
        found = find_duplicates(sieve.recordings, splits, settings)
        sieve.keep(found.sifted)
        splits = assign_splits(sieve.recordings, facts.fields, settings, gap_s)
        sieve.warnings += found.warnings
    recordings = sieve.recordings
    lists = [channels[recording.id] for recording in recordings]  # [recordings] of the channels read together
    labelled = labelled or "labels" in columns
    names = class_names(recordings, settings) if labelled else []
    context = context_of(recordings, columns, names, settings)
    specs = context.specs(settings, stacked_channels(lists, settings))
    cuts = cut_all(recordings, lists, splits, names, sample_rate, settings)  # [blocks], by split and hash
    shards = shard_blocks(cuts.counts, cuts.split, splits.names, specs, settings)  # [PlannedShard]
    table = _tabulate(recordings, cuts, splits, names)
    units = sorted({str(_unit(recording, settings)) for recording in recordings})
    return Plan(
        recordings=planned_ledger(
            matches,
            described.unread,
            recordings,
            sieve.dropped,
            splits,
            cuts,
            _shards_of(cuts.owner, shards, len(recordings)),
        ),
        sources=_sources(recordings, cuts, context, sample_rate),
        blocks=_blocks(cuts, lists),
        shards=shards,
        specs=specs,
        splits=splits.names,
        rejects=sorted(sieve.rejects + cuts.rejects, key=lambda reject: reject.recording),
        left_out=matches.left_out | cuts.left_out,
        label_names=names if labelled else None,
        sample_rate=sample_rate,
        unit=_unit(recordings[0], settings) if len(units) == 1 else None,
        resampled=sum(1 for recording in recordings if recording.sample_rate != sample_rate),
        table=table,
        warnings=[
            *sieve.warnings,
            *splits.warnings,
            *_split_warnings(table, splits, cuts, names),
            *_unit_warnings(units),
            *_hop_warning(settings),
            *_padding(cuts, settings),
        ],
    )


class _Sieve:
    """The recordings that are still in, and what became of the others."""

    def __init__(self, recordings: list[Recording], rejects: list[Reject]):
        self.recordings = recordings
        self.rejects = rejects
        self.dropped: list[Recording] = []
        self.warnings: list[str] = []

    def keep(self, sifted: Sifted) -> None:
        """Goes on with what a step has left."""
        self.recordings = sifted.used
        self.rejects += sifted.rejects
        self.dropped += sifted.dropped

    def choose_channels(self, settings: Settings) -> dict[bytes, list[tuple[int, ...]]]:
        """The channel lists of each recording, by id; those that lack a channel are dropped."""
        choice = parse_channels(settings.channels)
        chosen: dict[bytes, list[tuple[int, ...]]] = {}
        problems: dict[bytes, RejectError] = {}
        for recording in self.recordings:
            own = choice
            if recording.said.channel is not None:
                own = dataclasses.replace(choice, picked=(recording.said.channel,))
            try:
                chosen[recording.id] = channel_lists(
                    recording.description, own, recording.description.channels
                )
                _check_factors(recording)
            except RejectError as error:
                problems[recording.id] = error
                chosen.pop(recording.id, None)
        stacked = stacked_channels(list(chosen.values()), settings)
        if stacked is not None and stacked > settings.batch_size:
            raise SettingsError(
                f"batch_size={settings.batch_size} must hold the {stacked} channels that are stacked: raise it"
            )
        for name, lists in list(chosen.items()):
            if stacked is not None and len(lists[0]) != stacked:
                problems[name] = RejectError(
                    Reason.CHANNEL_MISMATCH,
                    f"{len(lists[0])} channels, and {stacked} are stacked as in most recordings: pick them, such as "
                    "channels=stack:0,1",
                )
        kept = [recording for recording in self.recordings if recording.id not in problems]
        dropped = [recording for recording in self.recordings if recording.id in problems]
        rejects = [
            Reject(each.id, "plan", problems[each.id].reason, str(problems[each.id])) for each in dropped
        ]
        self.keep(Sifted(kept, rejects, dropped))
        return chosen


def _check_factors(recording: Recording) -> None:
    count, channels = len(recording.said.factors), recording.description.channels
    if count > 1 and count != channels:
        raise RejectError(
            Reason.CHANNEL_MISMATCH,
            f"{count} sensitivities are given, and the recording has {channels} channels",
        )


def _refuse_shared_ids(recordings: Sequence[Recording]) -> None:
    seen: set[bytes] = set()
    for recording in recordings:
        if recording.id in seen:
            raise SettingsError(
                f"two recordings have the id {recording.id.decode('utf-8', 'backslashreplace')}: give each row of the "
                "manifest its own"
            )
        seen.add(recording.id)


def _targets(
    recordings: Sequence[Recording], settings: Settings, manifest: manifests.Manifest | None
) -> dict[str, Recording]:
    """The recordings that others name as theirs, by that name."""
    assert manifest is not None
    names = sorted({recording.said.target for recording in recordings if recording.said.target})
    paths: dict[str, list[str]] = defaultdict(list)
    for name in names:
        paths[os.path.normpath(name.partition("//")[0])].append(name)
    beside = os.path.dirname(os.path.abspath(manifest.path))
    found = match_listed(paths, settings.input, beside, settings).found
    targets: dict[str, Recording] = {}
    listed_as = {item.uri: str(item.listed_as) for item in found}
    unlisted = [dataclasses.replace(item, listed_as=None) for item in found]
    for recording in describe(unlisted, settings, attributes=False).recordings:
        for name in paths[listed_as[recording.found.uri]]:
            member = name.partition("//")[2]
            if not member or member == recording.description.member:
                targets[name] = recording
    return targets


def _unit(recording: Recording, settings: Settings) -> str | None:
    return recording.said.unit or recording.description.unit or settings.unit


def _unit_warnings(units: Sequence[str]) -> list[str]:
    if len(units) < 2:
        return []
    return [
        f"the recordings have several units ({', '.join(units)}): state one, with the sensitivity that leads to it"
    ]


def _shards_of(owner: np.ndarray, shards: list[PlannedShard], recordings: int) -> pa.Array:
    """Names of each recording's shards, list<string> [recordings]."""
    numbers = np.repeat(np.arange(len(shards)), [shard.blocks for shard in shards]).astype(np.int64)
    pairs = np.unique(np.stack([owner, numbers], axis=1), axis=0)
    ends = np.searchsorted(pairs[:, 0], np.arange(recordings + 1)).astype(np.int32)
    names = pa.array([str(shard.name) for shard in shards], pa.string())
    return pa.ListArray.from_arrays(pa.array(ends), names.take(pa.array(pairs[:, 1])))


def _blocks(cuts: Cuts, lists: Sequence[list[tuple[int, ...]]]) -> pa.Table:
    # one list of channels for many recordings, so blocks refer to few
    kinds = list(dict.fromkeys(channels for each in lists for channels in each))
    place = {channels: index for index, channels in enumerate(kinds)}
    first = np.cumsum([0, *(len(each) for each in lists)])[:-1]
    flat = np.array([place[channels] for each in lists for channels in each], np.int64)
    own = flat[first[cuts.owner] + cuts.series] if len(cuts.owner) else np.empty(0, np.int64)
    label = pa.array(cuts.label)
    return pa.table(
        {
            "owner": pa.array(cuts.owner),
            "channels": pa.array(kinds, pa.list_(pa.int32())).take(pa.array(own)),
            "start": pa.array(cuts.starts),
            "count": pa.array(cuts.counts),
            "label": label,
        }
    )


def _sources(recordings: Sequence[Recording], cuts: Cuts, context: Context, sample_rate: float) -> pa.Table:
    """What every block of a recording shares; the columns that blocks have of their own are left out."""
    small, vectors = context.arrow_types()
    kinds = {field.name: field.type for field in parts.schema(small, vectors)}
    names = [field.name for field in small]
    values = {name: context.values.get(name) or [NO_LABEL] * len(recordings) for name in names}
    paired = [recording.paired for recording in recordings]
    origins = [recording.origin for recording in recordings]
    columns = {
        "recording": pa.array([recording.id for recording in recordings], pa.binary()),
        "source": _source_array(recordings),
        "paired": _source_array(paired) if any(paired) else pa.nulls(len(recordings), parts.SOURCE),
        "sample_rate": pa.repeat(pa.scalar(sample_rate), len(recordings)),
        "end": pa.array(cuts.ends),
        "context": _struct(kinds["context"], values, len(recordings)),
        "vectors": _struct(kinds["vectors"], context.vectors, len(recordings)),
        "start_time_ns": pa.array([start_time_ns(recording) for recording in recordings], pa.int64()),
        "origin": pa.array(
            [None if each is None else dataclasses.asdict(each) for each in origins], parts.ORIGIN
        ),
    }
    return pa.table(columns)


def _source_array(recordings: Sequence[Recording | None]) -> pa.Array:
    """What workers need to open each recording; null where there is none."""
    sources = [None if recording is None else recording.source() for recording in recordings]
    values = {
        field.name: [None if source is None else getattr(source, field.name) for source in sources]
        for field in parts.SOURCE
    }
    missing = np.array([source is None for source in sources], bool)
    return _struct(parts.SOURCE, values, len(sources), missing if missing.any() else None)


def _struct(
    kind: pa.StructType, values: Mapping[str, Sequence[Any]], count: int, missing: np.ndarray | None = None
) -> pa.Array:
    """Columns as one of structs, without a Python object a row."""
    if not kind.num_fields:
        return pa.array([{}] * count, kind)
    arrays = [pa.array(values[field.name], field.type) for field in kind]
    mask = None if missing is None else pa.array(missing)
    return pa.StructArray.from_arrays(arrays, fields=list(kind), mask=mask)


def _tabulate(
    recordings: Sequence[Recording], cuts: Cuts, splits: Assignment, names: Sequence[str]
) -> dict[tuple[str, str], tuple[int, int, int]]:
    """Split and label ("" where there is none) to the number of groups, recordings and segments."""
    group_of = (
        np.unique(np.array(splits.groups, object), return_inverse=True)[1] if recordings else np.empty(0, int)
    )
    cells = cuts.split * (len(names) + 1) + cuts.label + 1
    table = {}
    for cell in np.unique(cells).tolist():
        chosen = cells == cell
        owners = np.unique(cuts.owner[chosen])
        split, label = divmod(cell, len(names) + 1)
        name = "" if label == 0 else names[label - 1]
        groups = len(np.unique(group_of[owners]))
        table[splits.names[split], name] = (groups, len(owners), int(cuts.counts[chosen].sum()))
    return table


def _split_warnings(
    table: dict[tuple[str, str], tuple[int, int, int]], splits: Assignment, cuts: Cuts, names: Sequence[str]
) -> list[str]:
    """Empty splits, labels that a split lacks, and groups that dominate one."""
    filled = {split for split, _ in table}
    warnings = [f"split {name} is empty" for name in splits.names if name not in filled]
    for split in sorted(filled):
        lacking = [name for name in names if (split, name) not in table]
        if lacking and len(lacking) < len(names):
            warnings.append(f"split {split} has no example of {', '.join(lacking)}")
    unused = [name for name in names if not any(label == name for _, label in table)]
    if unused:
        warnings.append(f"no example of {', '.join(unused)}")
    for index, split in enumerate(splits.names):
        chosen = cuts.split == index
        if not chosen.any():
            continue
        of_group: Counter[bytes] = Counter()
        for owner, count in zip(cuts.owner[chosen].tolist(), cuts.counts[chosen].tolist(), strict=True):
            of_group[splits.groups[owner]] += count
        (group, most), *others = of_group.most_common(2)
        share = most / of_group.total()
        if others and share > max(_DOMINATES, 0.3 + 1 / len(of_group)):
            warnings.append(
                f"group {show_group(group)} is {share:.0%} of split {split}, which has {len(of_group)} groups"
            )
    return warnings


def _hop_warning(settings: Settings) -> list[str]:
    if settings.hop <= settings.segment_length:
        return []
    share = 1 - settings.segment_length / settings.hop
    return [
        f"hop_length={settings.hop} is above segment_length={settings.segment_length}: "
        f"{share:.0%} of the samples are not used"
    ]


def _padding(cuts: Cuts, settings: Settings) -> list[str]:
    """A warning where a quarter of all samples would be zeros; only the last segment of a channel is padded."""
    last = cuts.starts + (cuts.counts - 1) * settings.hop
    zeros = np.maximum(0, settings.segment_length - (cuts.ends[cuts.owner] - last))
    share = zeros.sum() / max(1, cuts.counts.sum() * settings.segment_length)
    if share <= 0.25:
        return []
    return [
        f"{np.count_nonzero(zeros):,} of {cuts.counts.sum():,} segments are padded, {share:.0%} of all samples are "
        f"zeros: check the sample type, or set a segment_length below {settings.segment_length}"
    ]

"""Recordings to splits, blocks and shards: deterministic, and nothing is read but headers."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pyarrow as pa

from ..transforms import schema
from ..transforms.channels import channel_lists, parse_channels
from ..transforms.rejects import Reason, Reject, RejectError
from . import manifest as manifests
from .context import context_of, reject_bad_targets, stacked_channels
from .cut import cut_all
from .describe import describe
from .duplicates import find_duplicates
from .labels import Facts, class_names, has_labels, label_all
from .ledger import planned_ledger
from .listed import match_listed
from .match import Matches, match
from .pairs import find_partners, pair
from .plan_checks import Table, tabulate, warnings_of
from .plan_tables import block_table, part_table, shard_names, source_table
from .rates import choose_rate, keep_rate
from .recording import Recording, Sifted, sift
from .settings import Settings, SettingsError
from .shards import PlannedShard, shard_blocks
from .splits import Assignment, assign_splits


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a run is to do.

    Attributes:
      recordings: the ledger before anything is read.
      sources: what every block of a recording shares; see `plan_tables.source_table`.
      blocks: in the order of the shards; see `plan_tables.block_table`.
      shards: in order; the position is the shard's number.
      specs: every key of an example.
      splits: names, sorted.
      rejects: what cannot be used, as far as names, sizes and headers show, sorted by recording.
      left_out: files that were not matched, and segments that were not wanted, by cause.
      label_names: class names by index, or None where there are no labels.
      sample_rate: Hz, of every example.
      unit: of the samples, or None.
      resampled: how many recordings are.
      table: what each split has of each label.
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
    table: Table
    warnings: list[str]

    @property
    def segments(self) -> int:
        """Examples, if nothing is rejected any more."""
        return sum(shard.segments for shard in self.shards)

    def part(self, shard: PlannedShard) -> pa.Table:
        """The blocks of one shard, with the columns of `parts.schema`."""
        return part_table(self.sources, self.blocks.slice(shard.first, shard.blocks))


def plan_inputs(settings: Settings, output: str | None) -> Plan:
    """Matches the inputs or what the manifest lists, and plans it.

    Raises:
      SettingsError, NoMatchError, ManifestError: see `match`, `load_manifest` and `make_plan`.
    """
    if settings.manifest is None:
        return make_plan(match(settings.input, settings, output), settings)
    manifest = manifests.load_manifest(settings.manifest, settings.manifest_times)
    matches = match_listed(manifest.rows, settings.input, manifest.folder, settings, output)
    return make_plan(matches, settings, manifest)


def make_plan(matches: Matches, settings: Settings, manifest: manifests.Manifest | None = None) -> Plan:
    """Decides what becomes of every recording.

    Raises:
      SettingsError: a setting is missing that the files do not say, or their sample rates differ.
      SplitError: recordings cannot be split as the settings say.
    """
    columns = () if manifest is None else manifest.columns
    described = describe(matches.found, settings, manifest, attributes=_asks_for_attributes(settings))
    _refuse_shared_ids(described.recordings)
    sample_rate = choose_rate(described.recordings, settings)
    labelled = has_labels(settings, columns, described.recordings)
    chosen = _choose(described.recordings, sample_rate, settings, manifest, labelled=labelled)
    splits, chosen = _split(chosen, sample_rate, settings)
    recordings, lists = chosen.recordings, [chosen.channels[each.id] for each in chosen.recordings]
    has_classes = labelled or "labels" in columns
    names = class_names(recordings, settings) if has_classes else []
    context = context_of(recordings, columns, names, settings, labelled=labelled)
    specs = context.specs(settings, stacked_channels(lists, settings))
    cuts = cut_all(recordings, lists, splits, names, sample_rate, settings)  # [blocks], by split and hash
    shards = shard_blocks(cuts.counts, cuts.split, splits.names, specs, settings)  # [PlannedShard]
    shown = names if labelled else []  # of several labels a recording has, none is its class
    table = tabulate(cuts, splits, shown)
    units = {recording.unit for recording in recordings}
    left_out = {**matches.left_out, **cuts.left_out}
    if described.unlisted:
        left_out["members not in the manifest"] = described.unlisted
    note = [manifest.note] if manifest is not None and manifest.note else []
    return Plan(
        recordings=planned_ledger(
            matches,
            described.unread,
            recordings,
            chosen.dropped,
            splits,
            cuts,
            shard_names(cuts.owner, shards, len(recordings)),
        ),
        sources=source_table(recordings, cuts, context, sample_rate),
        blocks=block_table(cuts, lists),
        shards=shards,
        specs=specs,
        splits=splits.names,
        rejects=sorted(
            [*matches.rejects, *described.rejects, *chosen.rejects, *cuts.rejects],
            key=lambda each: each.recording,
        ),
        left_out=left_out,
        label_names=names if has_classes else None,
        sample_rate=sample_rate,
        unit=next(iter(units)) if len(units) == 1 else None,
        resampled=sum(1 for recording in recordings if recording.sample_rate != sample_rate),
        table=table,
        warnings=[
            *note,
            *chosen.warnings,
            *context.warnings,
            *warnings_of(recordings, cuts, splits, table, shown, settings),
        ],
    )


@dataclasses.dataclass
class _Chosen:
    """The recordings that are still in, and what became of the others."""

    recordings: list[Recording]
    channels: dict[bytes, list[tuple[int, ...]]] = dataclasses.field(default_factory=dict)
    rejects: list[Reject] = dataclasses.field(default_factory=list)
    dropped: list[Recording] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)

    def keep(self, sifted: Sifted) -> None:
        """Goes on with what a step has left."""
        self.recordings = sifted.used
        self.rejects += sifted.rejects
        self.dropped += sifted.dropped


def _choose(
    recordings: list[Recording],
    sample_rate: float,
    settings: Settings,
    manifest: manifests.Manifest | None,
    *,
    labelled: bool,
) -> _Chosen:
    """Those with the right rate, partner, channels, label and target."""
    chosen = _Chosen(recordings)
    chosen.keep(keep_rate(chosen.recordings, sample_rate, settings))
    if manifest is not None and "target" in manifest.columns:
        chosen.keep(pair(chosen.recordings, find_partners(chosen.recordings, manifest, settings)))
    _choose_channels(chosen, settings)
    chosen.keep(label_all(chosen.recordings, settings, labelled=labelled))
    chosen.keep(reject_bad_targets(chosen.recordings, settings))
    return chosen


def _split(chosen: _Chosen, sample_rate: float, settings: Settings) -> tuple[Assignment, _Chosen]:
    """Splits, without the copies that would lie in two of them."""
    facts = Facts(settings)
    splits = assign_splits(
        chosen.recordings, facts.fields, settings, sample_rate=sample_rate, gap=settings.segment_length
    )
    if settings.duplicates == "off":
        return splits, chosen
    sifted, warnings = find_duplicates(chosen.recordings, chosen.channels, splits, settings)
    dropped = {recording.id for recording in sifted.dropped}
    kept = [index for index, each in enumerate(chosen.recordings) if each.id not in dropped]
    chosen.keep(sifted)
    chosen.warnings += warnings
    return splits.only(kept), chosen


def _choose_channels(chosen: _Chosen, settings: Settings) -> None:
    """Finds the channel lists of each recording; those that lack a channel are dropped."""
    choice = parse_channels(settings.channels)

    def lists_of(recording: Recording) -> list[tuple[int, ...]]:
        own = choice
        if recording.said.channel is not None:
            own = dataclasses.replace(choice, picked=(recording.said.channel,))
        return channel_lists(recording.description, own)

    def lacking(recording: Recording) -> tuple[Reason, str] | None:
        try:
            chosen.channels[recording.id] = lists_of(recording)
        except RejectError as error:
            return error.reason, str(error)
        count, channels = len(recording.said.factors), recording.description.channels
        if count > 1 and count != channels:
            return (
                Reason.CHANNEL_MISMATCH,
                f"{count} sensitivities are given for its {channels} channels: give one each",
            )
        return None

    def unstackable(recording: Recording) -> tuple[Reason, str] | None:
        count = len(chosen.channels[recording.id][0])
        if stacked is None or count == stacked:
            return None
        return Reason.CHANNEL_MISMATCH, (
            f"{count} channels, and {stacked} are stacked as in most recordings: pick them, such as channels=stack:0,1"
        )

    chosen.keep(sift(chosen.recordings, lacking))
    stacked = stacked_channels([chosen.channels[each.id] for each in chosen.recordings], settings)
    if stacked is not None and stacked > settings.batch_size:
        raise SettingsError(
            f"batch_size={settings.batch_size} must hold the {stacked} channels that are stacked: raise it"
        )
    chosen.keep(sift(chosen.recordings, unstackable))


def _asks_for_attributes(settings: Settings) -> bool:
    """Whether anything may ask for what files say besides their samples."""
    by_value = any(isinstance(share, dict) for share in settings.splits.values())
    from_file = (settings.label_from or "").startswith("file:")
    return bool(settings.carry or settings.split_by or from_file or by_value)


def _refuse_shared_ids(recordings: Sequence[Recording]) -> None:
    seen: set[bytes] = set()
    for recording in recordings:
        if recording.id in seen:
            raise SettingsError(
                f"two recordings have the id {recording.id.decode('utf-8', 'backslashreplace')}: give each row of the "
                "manifest its own"
            )
        seen.add(recording.id)

"""Recordings to splits, blocks and shards: deterministic, and nothing is read but headers."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import pyarrow as pa

from ..transforms import schema
from ..transforms.channels import parse_channels
from ..transforms.features.base import Feature
from ..transforms.frontend import features_of
from ..transforms.normalization import normalization_id
from ..transforms.rejects import Reject
from ..transforms.statistics import Statistics
from . import manifest as manifests
from .chosen_channels import stacked_channels, with_as_many_channels, with_channels
from .context import context_of, usual_target, with_target
from .cut import cut_all
from .describe import describe
from .duplicates import find_duplicates
from .labels import Facts, class_names, has_labels, with_label
from .ledger import planned_ledger
from .listed import match_listed, refuse_aliases
from .match import Matches, match
from .normalization import load_normalization
from .packed import Packed
from .pairs import find_partners, with_partner
from .plan_checks import Table, tabulate, warnings_of
from .plan_tables import block_table, part_table, shard_names, source_table
from .rates import choose_rate, with_rate
from .recording import Recording, Sifted, sift
from .sample_type import with_real_samples
from .settings import MOST_BATCH_BYTES, Settings, SettingsError, content_settings, fingerprint
from .shards import PlannedShard, shard_blocks
from .splits import Assignment, assign_splits
from .totals import totals_of


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
      is_complex: whether samples are complex.
      unit: of the samples, or None.
      resampled: how many recordings are.
      normalization: key of each feature to the statistics by which it is normalised; nothing if it is not.
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
    is_complex: bool
    unit: str | None
    resampled: int
    normalization: dict[str, Statistics]
    table: Table
    warnings: list[str]

    @functools.cached_property
    def normalized_by(self) -> str | None:
        """Names the statistics by which features are normalised."""
        return normalization_id(self.normalization)

    def fingerprint(self, settings: Settings) -> str:
        """Names everything besides the single recordings that can change an example's content or place."""
        content = content_settings(settings)
        if self.normalization:
            content["normalized_by"] = self.normalized_by
        if self.is_complex:
            content["is_complex"] = True
        return fingerprint(content)

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
    refuse_aliases(matches.found)
    return make_plan(matches, settings, manifest)


def make_plan(matches: Matches, settings: Settings, manifest: manifests.Manifest | None = None) -> Plan:
    """Decides what becomes of every recording.

    Raises:
      SettingsError: a setting is missing that the files do not say, or their sample rates differ.
      SplitError: recordings cannot be split as the settings say.
    """
    columns = () if manifest is None else manifest.columns
    described = describe(matches.found, settings, manifest, attributes=_asks_for_attributes(settings))
    chosen = _Chosen(described.recordings)
    is_complex = 0 < described.complex_recordings == len(described.recordings)
    if described.complex_recordings and not is_complex:
        chosen.keep(sift(chosen.recordings, with_real_samples))
    sample_rate = choose_rate(chosen.recordings, settings)
    labelled = has_labels(settings, columns, chosen.recordings)
    _choose(chosen, sample_rate, settings, manifest, labelled=labelled)
    splits, chosen = _split(chosen, sample_rate, settings)
    recordings = chosen.recordings
    totals = totals_of(recordings, sample_rate)
    has_classes = labelled or "labels" in columns
    names = class_names(totals.labels, settings) if has_classes else []
    context = context_of(recordings, columns, names, settings, labelled=labelled, has_times=totals.has_times)
    features = _features(sample_rate, settings, is_complex=is_complex)
    unit = next(iter(totals.units)) if len(totals.units) == 1 else None
    normalization, of_units = load_normalization(features, unit, settings)
    specs = context.specs(features, settings, stacked_channels(recordings, settings), is_complex=is_complex)
    cuts = cut_all(recordings, splits, names, sample_rate, settings)  # [blocks], by split and hash
    shards = shard_blocks(cuts.counts, cuts.split, splits.names, specs, settings)  # [PlannedShard]
    shown = names if labelled else []  # of several labels a recording has, none is its class
    table = tabulate(cuts, splits, shown)
    left_out = {**matches.left_out, **cuts.left_out}
    if described.unlisted:
        left_out["members not in the manifest"] = described.unlisted
    note = [manifest.note] if manifest is not None and manifest.note else []
    return Plan(
        recordings=planned_ledger(
            matches.rejects,
            described.unread,
            recordings,
            chosen.dropped,
            splits,
            cuts,
            shard_names(cuts.owner, shards, len(recordings)),
        ),
        sources=source_table(recordings, cuts, context, sample_rate),
        blocks=block_table(cuts),
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
        is_complex=is_complex,
        unit=unit,
        resampled=totals.resampled,
        normalization=normalization,
        table=table,
        warnings=[
            *note,
            *chosen.warnings,
            *of_units,
            *context.warnings,
            *warnings_of(recordings, totals, cuts, splits, table, shown, settings),
        ],
    )


@dataclasses.dataclass
class _Chosen:
    """The recordings that are still in, and what became of the others."""

    recordings: Sequence[Recording]
    rejects: list[Reject] = dataclasses.field(default_factory=list)
    dropped: Packed[Recording] = dataclasses.field(default_factory=lambda: Packed[Recording]())
    warnings: list[str] = dataclasses.field(default_factory=list)

    def keep(self, sifted: Sifted) -> None:
        """Goes on with what steps have left."""
        self.recordings = sifted.used
        self.rejects += sifted.rejects
        self.dropped.extend(sifted.dropped)


def _choose(
    chosen: _Chosen,
    sample_rate: float,
    settings: Settings,
    manifest: manifests.Manifest | None,
    *,
    labelled: bool,
) -> None:
    """Keeps those with the right rate, partner, channels, label and target; in one pass, unless most of them set the rule."""
    steps = [with_rate(sample_rate, settings)]
    if manifest is not None and "target" in manifest.columns:
        chosen.keep(sift(chosen.recordings, *steps))
        steps = [with_partner(find_partners(chosen.recordings, manifest, settings))]
    steps.append(with_channels(settings))
    if parse_channels(settings.channels).mode == "stack":
        chosen.keep(sift(chosen.recordings, *steps))
        steps = [with_as_many_channels(stacked_channels(chosen.recordings, settings), settings)]
    steps.append(with_label(settings, labelled=labelled))
    if settings.target_columns:
        chosen.keep(sift(chosen.recordings, *steps))
        steps = [with_target(usual_target(chosen.recordings, settings), settings)]
    chosen.keep(sift(chosen.recordings, *steps))


def _split(chosen: _Chosen, sample_rate: float, settings: Settings) -> tuple[Assignment, _Chosen]:
    """Splits, without the copies that would lie in two of them."""
    facts = Facts(settings)
    splits = assign_splits(
        chosen.recordings, facts.fields, settings, sample_rate=sample_rate, gap=settings.segment_length
    )
    if settings.duplicates == "off":
        return splits, chosen
    sifted, warnings = find_duplicates(chosen.recordings, splits, settings)
    dropped = {recording.id for recording in sifted.dropped}
    kept = [index for index, each in enumerate(chosen.recordings) if each.id not in dropped]
    chosen.keep(sifted)
    chosen.warnings += warnings
    return splits.only(kept), chosen


def _features(sample_rate: float, settings: Settings, *, is_complex: bool) -> dict[str, Feature]:
    """What is computed; nothing where no recording tells the rate."""
    if not sample_rate:
        return {}
    if is_complex and settings.keep_waveform == "int16":
        raise SettingsError(
            "keep_waveform=int16 keeps real samples, and these are complex: set keep_waveform=float32"
        )
    batch_bytes = (8 if is_complex else 4) * settings.batch_size * settings.segment_length
    if batch_bytes > MOST_BATCH_BYTES:
        raise SettingsError(
            f"batch_size={settings.batch_size} segments of segment_length={settings.segment_length} complex samples take "
            f"{batch_bytes / 2**30:,.1f} GiB, and a batch may take 2: lower either"
        )
    try:
        return features_of(settings, settings.segment_length, sample_rate, is_complex=is_complex)
    except ValueError as error:
        raise SettingsError(str(error)) from None


def _asks_for_attributes(settings: Settings) -> bool:
    """Whether anything may ask for what files say besides their samples."""
    by_value = any(isinstance(share, dict) for share in settings.splits.values())
    from_file = (settings.label_from or "").startswith("file:")
    return bool(settings.carry or settings.split_by or from_file or by_value)

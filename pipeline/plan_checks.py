"""What a plan comes to: the table split by label, and what the user should know of it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from ..transforms.rejects import text
from .cut import NONE, Cuts
from .recording import Recording
from .settings import Settings
from .splits import Assignment, show_group
from .totals import Totals
from .words import counted

_DOMINATES = 0.5  # of a split's segments, where it has many groups
_MUCH_PADDING = 0.25
_NAMES_SHOWN = 10

# split and label ("" where there is none) to the number of groups, recordings and segments
Table = dict[tuple[str, str], tuple[int, int, int]]


def tabulate(cuts: Cuts, splits: Assignment, names: Sequence[str]) -> Table:
    """Counts what each split has of each label."""
    width = len(names) + 1
    cells, cell_of = np.unique(cuts.split * width + cuts.label - NONE, return_inverse=True)
    segments = np.bincount(cell_of, cuts.counts, len(cells)).astype(np.int64)
    recordings = _distinct(cell_of, cuts.owner, len(cells))
    groups = _distinct(cell_of, splits.group_of[cuts.owner], len(cells))
    table = {}
    for place, cell in enumerate(cells.tolist()):
        split, label = divmod(cell, width)
        name = "" if label == 0 else names[label - 1]
        table[splits.names[split], name] = (int(groups[place]), int(recordings[place]), int(segments[place]))
    return table


def _distinct(cell_of: np.ndarray, values: np.ndarray, cells: int) -> np.ndarray:
    """How many different values each cell has, int64 [cells]."""
    pairs = np.unique(np.stack([cell_of, values], axis=1), axis=0)
    return np.bincount(pairs[:, 0], minlength=cells)


def warnings_of(
    recordings: Sequence[Recording],
    totals: Totals,
    cuts: Cuts,
    splits: Assignment,
    table: Table,
    names: Sequence[str],
    settings: Settings,
) -> list[str]:
    """Everything about a plan that the user should know."""
    return [
        *splits.warnings,
        *_labels(table, splits, names),
        *_groups(cuts, splits),
        *_overlaps(recordings, totals.torn, splits),
        *_files(totals),
        *_units(totals),
        *_hop(settings),
        *_padding(cuts, settings),
    ]


def _labels(table: Table, splits: Assignment, names: Sequence[str]) -> list[str]:
    """Empty splits, and labels that a split or all lack."""
    filled = {split for split, _ in table}
    warnings = [f"split {name} is empty" for name in splits.names if name not in filled]
    for split in sorted(filled):
        lacking = [name for name in names if (split, name) not in table]
        if lacking and len(lacking) < len(names):
            warnings.append(f"split {split} has no example of {_some(lacking)}")
    used = {label for _, label in table}
    unused = [name for name in names if name not in used]
    return [*warnings, f"no example of {_some(unused)}"] if unused else warnings


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
    return ", ".join(names[:_NAMES_SHOWN]) + more


def _groups(cuts: Cuts, splits: Assignment) -> list[str]:
    """Groups that are most of a split, which then says little about others."""
    group_of = splits.group_of
    warnings = []
    for index, split in enumerate(splits.names):
        chosen = cuts.split == index
        segments = np.bincount(group_of[cuts.owner[chosen]], cuts.counts[chosen])
        present = int(np.count_nonzero(segments))
        # of two groups one is always at least half, of three a third
        if present > 1 and segments.max() / segments.sum() > max(_DOMINATES, 0.3 + 1 / present):
            share, largest = segments.max() / segments.sum(), int(segments.argmax())
            group = splits.groups[int((group_of == largest).argmax())]
            warnings.append(
                f"group {show_group(group)} is {share:.0%} of split {split}, which has {present} groups"
            )
    return warnings


def _overlaps(recordings: Sequence[Recording], names: Collection[bytes], splits: Assignment) -> list[str]:
    """Parts of one recording that share samples and lie in different splits."""
    if not names:
        return []
    parts: dict[bytes, list[tuple[int, int, int]]] = {name: [] for name in names}  # start, end, index
    for index, recording in enumerate(recordings):
        if recording.name in parts:
            parts[recording.name].append((*recording.region, index))
    torn: list[tuple[int, int]] = []
    for several in parts.values():
        several.sort()
        reach, holder = 0, -1
        for start, end, index in several:
            if holder >= 0 and start < reach and splits.split_of[index] != splits.split_of[holder]:
                torn.append((holder, index))
            if end > reach:
                reach, holder = end, index
    if not torn:
        return []
    one, other = (recordings[index] for index in torn[0])
    return [
        f"{counted(len(torn), 'part')} of recordings with samples of a part in another split, such as {text(other.id)} and "
        f"{text(one.id)}: give both one group"
    ]


def _files(totals: Totals) -> list[str]:
    """Recordings that are used though something is odd about them."""
    first = totals.first_odd
    if first is None:
        return []
    return [
        f"{counted(totals.odd, 'recording')} used though odd, such as {text(first.id)}: {first.description.warnings[0]}; "
        "the ledger has all"
    ]


def _units(totals: Totals) -> list[str]:
    units = sorted({unit or "none stated" for unit in totals.units})
    if len(units) < 2:
        return []
    return [
        f"the recordings have several units ({_some(units)}): state one, with the sensitivity that leads to it"
    ]


def _hop(settings: Settings) -> list[str]:
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
    if share <= _MUCH_PADDING:
        return []
    return [
        f"{np.count_nonzero(zeros):,} of {cuts.counts.sum():,} segments are padded, {share:.0%} of all samples are "
        f"zeros: check the sample type, or set a segment_length below {settings.segment_length}"
    ]

"""Results as text for a terminal."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from typing import Any

from ..transforms.dataset import Layout
from ..transforms.rejects import text
from .plan import Plan
from .words import counted, printable

_SHORT_S = 2.0
_CURES = {
    "start": "starting: imports and compilation take most of a run as short as this",
    "read": "reading: raise --read-threads, or move the input to faster storage",
    "compute": "computing: more cores or workers, or a GPU",
    "statistics": "statistics: more worker processes (--direct_running_mode=multi_processing --direct_num_workers=N)",
    "encode": "encoding: more worker processes (--direct_running_mode=multi_processing --direct_num_workers=N)",
    "write": "writing: faster storage for the output",
}


def program() -> str:
    """How this program can be called here."""
    called = sys.argv[0]
    return (
        called
        if os.path.basename(called) == "spectrabeam" and not shutil.which("spectrabeam")
        else "spectrabeam"
    )


def extraction_summary(metadata: Mapping[str, Any], run: Mapping[str, Any], layout: Layout) -> str:
    """What a run of `extract` did, and what to do next."""
    counts = metadata["counts"]
    seconds = run["total_s"]
    rate = run["examples"] / run["shards_s"] if run["shards_s"] else 0.0
    lines = [
        *_counts(counts),
        f"Splits      {_splits(metadata)}",
        *_rejects(counts),
        f"Written     {_bytes(_total_bytes(metadata))} in {counted(_shards(metadata), 'shard')} to {layout.root}",
        f"Time        {seconds:.1f} s in all, {run['plan_s']:.1f} s of it for planning"
        + (f"; {rate:,.0f} examples/s once running" if rate else ""),
    ]
    if run["shards_kept"]:
        lines.append(f"Kept        {counted(run['shards_kept'], 'shard')} of an earlier attempt")
    lines += _stages(run)
    lines += [f"Warning     {warning}" for warning in metadata["warnings"]]
    lines.append(f"Next        {program()} inspect {layout.root}")
    return "\n".join(lines)


def dataset_summary(metadata: Mapping[str, Any], layout: Layout) -> str:
    """A committed dataset at a glance."""
    features = [
        f"{key} {value['dtype']}{value['shape'] or ''}" for key, value in metadata["features"].items()
    ]
    labels = metadata["label_names"]
    lines = [
        f"Dataset     {layout.root}",
        *_counts(metadata["counts"]),
        f"Splits      {_splits(metadata)}",
        *_rejects(metadata["counts"]),
        f"Example     {', '.join(features)}",
        f"Segments    {_segments(metadata)}",
        *(
            [f"Normalised  by the statistics of {metadata['settings']['normalize_with']}"]
            if metadata.get("normalized_by")
            else []
        ),
    ]
    for key, axes in metadata["axes"].items():
        lines += [f"Axis        {key}: {axis_text(axis)}" for axis in axes]
    if labels is not None:
        lines.append(f"Labels      {', '.join(f'{index} {name}' for index, name in enumerate(labels))}")
    lines.append(
        f"Files       {counted(_shards(metadata), 'shard')}, {_bytes(_total_bytes(metadata))}, compression {metadata['compression']}"
    )
    lines += [f"Warning     {warning}" for warning in metadata["warnings"]]
    return "\n".join(lines)


def _segments(metadata: Mapping[str, Any]) -> str:
    kind = "complex samples" if metadata.get("is_complex") else "samples"
    unit = f", in {metadata['unit']}" if metadata.get("unit") else ""
    length, hop, rate = metadata["segment_length"], metadata["hop_length"], metadata["sample_rate"]
    return f"{length} {kind} every {hop}, at {rate:g} Hz{unit}"


def axis_text(axis: Mapping[str, Any]) -> str:
    """An axis of a feature in a few words."""
    if "values" not in axis:
        last = axis["first"] + axis["step"] * (axis["count"] - 1)
        return (
            f"{axis['name']} from {axis['first']:g} to {last:g} {axis['unit']} in steps of {axis['step']:g}"
        )
    values = axis["values"]
    if isinstance(values[0], str):
        return f"{axis['name']} {', '.join(values)}"
    return f"{axis['name']}, {len(values)} from {values[0]:g} to {values[-1]:g} {axis['unit']}"


def plan_summary(plan: Plan, estimate: Mapping[str, Any]) -> str:
    """What `extract` would do."""
    matched = plan.recordings.num_rows
    rejected = matched - sum(1 for count in plan.recordings.column("segments_planned").to_pylist() if count)
    lines = [
        f"Recordings  {matched:,} matched = {matched - rejected:,} planned + {rejected:,} rejected",
        f"Segments    {plan.segments:,} planned",
        *_left_out(plan.left_out),
    ]
    by_reason: dict[str, int] = {}
    for reject in plan.rejects:
        by_reason[reject.reason.value] = by_reason.get(reject.reason.value, 0) + 1
    lines += [f"Rejected    {count:,} {reason}" for reason, count in sorted(by_reason.items())]
    lines += [
        f"            {printable(text(reject.recording))}: {reject.message}" for reject in plan.rejects[:3]
    ]
    lines += _table(plan)
    lines.append(
        f"Bytes       {_bytes(estimate['bytes_in'])} in, about {_bytes(estimate['bytes_out'])} out, in {counted(len(plan.shards), 'shard')}"
    )
    if "seconds" in estimate:
        lines.append(
            f"Time        a few seconds to start, then about {estimate['seconds']:,.0f} s at "
            f"{estimate['rate']:,.0f} examples/s, measured on {estimate['measured']}"
        )
    if plan.is_complex:
        lines.append("Samples     complex, so spectra are two-sided")
    if plan.resampled:
        lines.append(f"Resampled   {counted(plan.resampled, 'recording')} to {plan.sample_rate:g} Hz")
    warnings = [*plan.warnings, *estimate.get("warnings", ())]
    lines += [f"Warning     {warning}" for warning in warnings]
    lines.append("Nothing was written.")
    return "\n".join(lines)


def _counts(counts: Mapping[str, Any]) -> list[str]:
    recordings, segments = counts["recordings"], counts["segments"]
    return [
        f"Recordings  {recordings['matched']:,} matched = {recordings['used']:,} used + {recordings['rejected']:,} rejected",
        f"Segments    {segments['planned']:,} planned = {segments['examples']:,} examples + {segments['rejected']:,} rejected",
        *_left_out(counts["left_out"]),
        *(
            [f"Silent      {counted(counts['silent'], 'example')} of zeros alone"]
            if counts.get("silent")
            else []
        ),
        *([f"Resampled   {counted(counts['resampled'], 'recording')}"] if counts.get("resampled") else []),
    ]


def _left_out(left_out: Mapping[str, int]) -> list[str]:
    return (
        [
            f"Left out    {', '.join(f'{count:,} {_singular(reason, count)}' for reason, count in left_out.items())}"
        ]
        if left_out
        else []
    )


def _singular(cause: str, count: int) -> str:
    """A cause that begins with a plural, for a count of it."""
    noun, _, rest = cause.partition(" ")
    return f"{noun.removesuffix('s')} {rest}" if count == 1 else cause


def _splits(metadata: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {split['examples']:,}" for name, split in metadata["splits"].items())


def _rejects(counts: Mapping[str, Any]) -> list[str]:
    return [
        f"Rejected    {reason}: {counted(number['recordings'], 'recording')}, {counted(number['segments'], 'planned segment')}"
        for reason, number in counts["rejects"].items()
    ]


def _stages(run: Mapping[str, Any]) -> list[str]:
    """Where the threads' time went, and what bounds the run."""
    stages: Mapping[str, float] = run["stage_s"]
    total = sum(stages.values())
    if not total:
        return []
    shares = ", ".join(
        f"{stage} {seconds:.1f} s ({seconds / total:.0%})" for stage, seconds in stages.items()
    )
    # Stages run side by side, each on its own threads; the shard's own thread does what follows computing.
    threads: Mapping[str, int] = run["threads"]
    pool = ("compute", "statistics")
    own = ("encode", "write")
    busy = {
        "read": stages["read"] / threads["read"],
        max(pool, key=lambda stage: stages[stage]): sum(stages[stage] for stage in pool) / threads["compute"],
        max(own, key=lambda stage: stages[stage]): sum(stages[stage] for stage in own),
    }
    most = max(busy, key=lambda stage: busy[stage])
    bound = _CURES["start" if run["shards_s"] < _SHORT_S else most]
    return [f"Stages      {shares}, summed over threads", f"Bound by    {bound}"]


def _table(plan: Plan) -> list[str]:
    """Split by label: groups, recordings and segments."""
    if not plan.table:
        return []
    split_width = max(10, *(len(name) for name in plan.splits))
    labels = (
        [printable(label or "(none)") for _, label in plan.table] if plan.label_names is not None else [""]
    )
    label_width = max(5, *(len(label) for label in labels))
    head = f"{'Split':<{split_width}}  {'label':<{label_width}}"
    lines = [
        f"{head if plan.label_names is not None else head[:split_width]}  {'groups':>8} {'recordings':>10} {'segments':>10}"
    ]
    for (split, label), numbers in sorted(plan.table.items()):
        cells = f"{split:<{split_width}}"
        if plan.label_names is not None:
            cells += f"  {printable(label or '(none)'):<{label_width}}"
        groups, recordings, segments = numbers
        lines.append(f"{cells}  {groups:>8,} {recordings:>10,} {segments:>10,}")
    return lines


def _shards(metadata: Mapping[str, Any]) -> int:
    return sum(len(split["shards"]) for split in metadata["splits"].values())


def _total_bytes(metadata: Mapping[str, Any]) -> int:
    return sum(shard["bytes"] for split in metadata["splits"].values() for shard in split["shards"])


def _bytes(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"

"""The last step: shards checked against the plan, the ledger and the metadata written, the dataset committed."""

from __future__ import annotations

import contextlib
import importlib.metadata
import io
import os
import platform
import shutil
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..transforms import frontend, rejects, statistics
from ..transforms.dataset import FORMAT_VERSION, Layout, ShardName, read_json, replace_file, write_json
from ..transforms.features.base import Feature
from ..transforms.normalization import read_normalization
from .about import about_of
from .croissant import write_croissant
from .data_card import write_data_card
from .ledger import completed
from .settings import Settings
from .tfds_info import write_tfds_info
from .tfx_schema import write_tfx_schema

_LIBRARIES = ("apache-beam", "numpy", "pyarrow", "soundfile", "spectrabeam", "tensorflow", "tfx-bsl")


class OutcomeError(Exception):
    """The run ended without a dataset; `.spectrabeam/outcome.json` says why."""


def finalize(root: str, settings: Settings) -> dict[str, Any]:
    """Commits the dataset in `root`. Can be repeated: the same shards give the same files.

    Returns:
      the content of spectrabeam.json.

    Raises:
      OutcomeError: too many rejects, no example at all, or sums that do not balance.
    """
    layout = Layout(root)
    plan = read_json(layout.plan_summary)
    sidecars = [_checked_sidecar(layout, planned, plan["fingerprint"]) for planned in plan["shards"]]
    lines = rejects.merge([*plan["rejects"], *(line for sidecar in sidecars for line in sidecar["rejects"])])
    ledger = completed(pq.read_table(layout.plan_recordings), lines)
    counts = _count(plan, sidecars, ledger, lines)
    replace_file(layout.rejects, rejects.to_lines(lines).encode(), layout.temporary)
    _write_ledger(layout, ledger)
    _judge(layout, counts, lines, settings.max_reject_fraction)
    features = _features(layout, plan, settings)
    _export_frontend(layout, features, settings, is_complex=plan["is_complex"])
    splits = _write_statistics(layout, plan, features)
    metadata = _metadata(plan, sidecars, counts, features, settings) | {"statistics": {"splits": splits}}
    for write in (write_tfds_info, write_tfx_schema, write_croissant, write_data_card):
        write(layout, metadata)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(layout.outcome)
    write_json(layout.metadata, metadata, layout.temporary)
    return metadata


def _checked_sidecar(layout: Layout, planned: dict[str, Any], settings: str) -> dict[str, Any]:
    sidecar = read_json(layout.sidecar(_name(planned["shard"])))
    size = os.stat(os.path.join(layout.root, planned["file"])).st_size
    rejected = sum(line["segments"] for line in sidecar["rejects"])
    problems = [
        f"{what} is {found}, not {expected}"
        for what, found, expected in (
            ("its plan", sidecar["digest"], planned["digest"]),
            ("the settings' fingerprint", sidecar["settings"], settings),
            ("its length", size, sidecar["bytes"]),
            ("examples + rejected segments", sidecar["examples"] + rejected, planned["segments"]),
        )
        if found != expected
    ]
    if problems:
        _fail(layout, 1, f"{planned['file']} does not fit: {'; '.join(problems)}: start the run again")
    return sidecar


def _name(text: str) -> ShardName:
    split, _, index = text.rpartition("-")
    return ShardName(split, int(index))


def _count(
    plan: dict[str, Any], sidecars: list[dict[str, Any]], ledger: pa.Table, lines: list[dict[str, Any]]
) -> dict[str, Any]:
    nothing = pc.equal(ledger.column("segments_written"), 0)
    unused = set(ledger.column("id").filter(nothing).to_pylist())
    reasons: dict[str, dict[str, int]] = {}
    rejected: set[str] = set()
    for line in lines:
        reason = reasons.setdefault(line["reason"], {"recordings": 0, "segments": 0})
        reason["segments"] += line["segments"]
        if (
            line["recording"] in unused and line["recording"] not in rejected
        ):  # a recording counts for its first reason
            reason["recordings"] += 1
            rejected.add(line["recording"])
    return {
        "recordings": {"matched": len(ledger), "used": len(ledger) - len(unused), "rejected": len(rejected)},
        "segments": {
            "planned": plan["segments"],
            "examples": sum(sidecar["examples"] for sidecar in sidecars),
            "rejected": sum(line["segments"] for line in lines),
        },
        "rejects": dict(sorted(reasons.items())),
        "resampled": plan["resampled"],
        "silent": sum(sidecar["silent"] for sidecar in sidecars),
        "left_out": plan["left_out"],
    }


def _judge(layout: Layout, counts: dict[str, Any], lines: list[dict[str, Any]], allowed: float) -> None:
    """Fails a run whose sums do not balance, that made nothing, or that rejected too much."""
    segments, recordings = counts["segments"], counts["recordings"]
    balanced = (
        segments["planned"] == segments["examples"] + segments["rejected"]
        and recordings["matched"] == recordings["used"] + recordings["rejected"]
    )
    if not balanced:
        _fail(layout, 1, f"the accounting does not balance: {segments}, {recordings}: start the run again")
    common = max(
        counts["rejects"].items(), key=lambda item: (sum(item[1].values()), item[0]), default=("", {})
    )[0]
    first = next((line for line in lines if line["reason"] == common), None)
    why = f"most often {common} ({first['recording']}: {first['message']})" if first else "none for a reason"
    if not segments["examples"]:
        _fail(
            layout,
            3,
            f"no example came out of {recordings['matched']} recordings, {why}: see {layout.rejects}",
        )
    fraction = max(
        recordings["rejected"] / recordings["matched"],
        segments["rejected"] / segments["planned"],
    )
    if fraction > allowed:
        _fail(
            layout,
            3,
            f"{recordings['rejected']} of {recordings['matched']} recordings and {segments['rejected']} of "
            f"{segments['planned']} segments were rejected, {why}; that is {fraction:.1%}, and "
            f"max_reject_fraction={allowed:g}: see {layout.rejects}, mend the files or raise the fraction",
        )


def _fail(layout: Layout, exit_code: int, message: str) -> None:
    write_json(layout.outcome, {"exit_code": exit_code, "message": message}, layout.temporary)
    raise OutcomeError(message)


def _write_ledger(layout: Layout, ledger: pa.Table) -> None:
    sink = io.BytesIO()
    pq.write_table(ledger, sink)
    replace_file(layout.ledger, sink.getvalue(), layout.temporary)


def _write_statistics(layout: Layout, plan: dict[str, Any], features: dict[str, Feature]) -> list[str]:
    """Merges those of the training split's shards, or of all where no split is called train; returns which."""
    names = [_name(planned["shard"]) for planned in plan["shards"]]
    splits = ["train"] if "train" in plan["splits"] else plan["splits"]
    parts = (statistics.from_file(layout.shard_statistics(name)) for name in names if name.split in splits)
    none = {key: statistics.Statistics(feature.shape[-1]) for key, feature in features.items()}
    replace_file(layout.statistics, statistics.to_bytes(statistics.merged([none, *parts])), layout.temporary)
    return splits


def _features(layout: Layout, plan: dict[str, Any], settings: Settings) -> dict[str, Feature]:
    if not plan["sample_rate"]:
        return {}
    return frontend.features_of(
        settings,
        settings.segment_length,
        plan["sample_rate"],
        is_complex=plan["is_complex"],
        normalization=read_normalization(layout.plan_normalization, plan["normalized_by"]),
    )


def _export_frontend(
    layout: Layout, features: dict[str, Feature], settings: Settings, *, is_complex: bool
) -> None:
    if not features:
        return
    temporary = os.path.join(layout.temporary, f"frontend.{os.getpid()}")
    shutil.rmtree(temporary, ignore_errors=True)
    module = frontend.make_module(
        features, settings.segment_length, settings.precision, is_complex=is_complex
    )
    frontend.save_module(module, temporary, with_valid=frontend.needs_valid(features))
    shutil.rmtree(layout.frontend, ignore_errors=True)
    os.replace(temporary, layout.frontend)


def _metadata(
    plan: dict[str, Any],
    sidecars: list[dict[str, Any]],
    counts: dict[str, Any],
    features: dict[str, Feature],
    settings: Settings,
) -> dict[str, Any]:
    """The content of spectrabeam.json: only what follows from input, settings and versions."""
    kinds = frontend.feature_settings(settings)
    splits: dict[str, dict[str, Any]] = {name: {"examples": 0, "shards": []} for name in plan["splits"]}
    for planned, sidecar in zip(plan["shards"], sidecars, strict=True):
        split = splits[_name(planned["shard"]).split]
        split["examples"] += sidecar["examples"]
        split["shards"].append(
            {"file": planned["file"], **{key: sidecar[key] for key in ("examples", "bytes", "crc32c")}}
        )
    computed_by = {tuple(sorted(sidecar["computed_by"].items())) for sidecar in sidecars}
    warnings = list(plan["warnings"])
    if len(computed_by) > 1:
        warnings.append(
            "the shards were computed on different devices or versions: their last bits may differ"
        )
    return {
        "format_version": FORMAT_VERSION,
        "settings": plan["settings"],
        "fingerprint": plan["fingerprint"],
        "plan": plan["plan"],
        "versions": {name: importlib.metadata.version(name) for name in _LIBRARIES}
        | {"python": platform.python_version()},
        "computed_by": [dict(pairs) for pairs in sorted(computed_by)],
        "frontend": frontend.frontend_id(
            kinds,
            settings.segment_length,
            plan["sample_rate"],
            settings.precision,
            is_complex=plan["is_complex"],
            normalized_by=plan["normalized_by"],
        ),
        "normalized_by": plan["normalized_by"],
        "about": about_of(settings),
        "compression": settings.compression,
        "sample_rate": plan["sample_rate"],
        "is_complex": plan["is_complex"],
        "segment_length": settings.segment_length,
        "hop_length": settings.hop,
        "scale": settings.scale,
        "unit": plan["unit"],
        "channels": settings.channels,
        "features": plan["features"],
        "axes": {key: feature.axes for key, feature in features.items()},
        "label_names": plan["label_names"],
        "counts": counts,
        "splits": splits,
        "warnings": warnings,
    }

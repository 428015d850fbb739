"""The `plan` verb: the same plan as `extract`'s, one recording sent the real way, and a time from it."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from ..transforms import parts, schema
from ..transforms.dataset import Layout, tensorflow_compression
from ..transforms.device import load_tensorflow
from ..transforms.elements import Block
from ..transforms.features.base import Feature
from ..transforms.features.sizes import slow_length
from ..transforms.frontend import features_of
from ..transforms.rejects import text
from .byteorder import maybe_byteswapped
from .plan import Plan, plan_inputs
from .settings import Settings
from .summary import plan_summary

_TRIAL_SEGMENTS = 1024
_BYTE_ORDER_RECORDINGS = 4
_TRIAL_BYTES = 256 << 20  # of samples, where segments are long


def describe_plan(settings: Settings) -> str:
    """What `extract` would do with these settings. Nothing is left on disk."""
    plan = plan_inputs(settings, settings.output)
    sizes = dict(zip(*(plan.recordings.column(name).to_pylist() for name in ("uri", "size")), strict=True))
    estimate: dict[str, Any] = {
        "bytes_in": sum(size or 0 for size in sizes.values()),
        "bytes_out": plan.segments * schema.example_bytes(plan.specs),
    }
    if plan.segments:
        estimate |= _try_some(plan, settings)
    rejected = len({reject.recording for reject in plan.rejects})
    if rejected > settings.max_reject_fraction * plan.recordings.num_rows:
        estimate["warnings"] = [
            *estimate.get("warnings", ()),
            f"extract would stop: {rejected} of {plan.recordings.num_rows} recordings are rejected, more than "
            f"max_reject_fraction={settings.max_reject_fraction:g} allows",
        ]
    return plan_summary(plan, estimate)


def _try_some(plan: Plan, settings: Settings) -> dict[str, Any]:
    """Sends the first blocks of the plan through the real steps, twice, and times the second pass."""
    from ..transforms.compute import CompiledFrontend
    from ..transforms.shard import extract_shard

    shard = plan.shards[0]
    blocks = plan.part(shard)
    most = min(_TRIAL_SEGMENTS, max(1, _TRIAL_BYTES // (4 * settings.segment_length)))
    enough = 1 + int((blocks.column("count").to_numpy().cumsum() < most).sum())
    blocks = blocks.slice(0, enough)
    length, rate = settings.segment_length, plan.sample_rate
    same: dict[str, Any] = {"is_complex": plan.is_complex, "normalization": plan.normalization}
    frontend = CompiledFrontend(settings, length, rate, **same)
    features = features_of(settings, length, rate, **same)
    with tempfile.TemporaryDirectory(prefix="spectrabeam-plan-") as folder:
        layout = Layout(folder)
        os.makedirs(layout.sidecars)
        os.makedirs(layout.temporary)
        name = layout.plan_part(0)
        os.makedirs(layout.plan)
        parts.write_part(name, shard.name, _whole_batches(blocks, settings))
        sidecar, seconds = {}, 0.0
        for _ in range(2):
            began = time.perf_counter()
            sidecar = extract_shard(
                parts.read_part(name),
                layout,
                settings,
                plan.specs,
                frontend,
                plan.fingerprint(settings),
            )
            seconds = time.perf_counter() - began
        warnings = _byte_order(parts.read_part(name).blocks(), settings)
        warnings += _near_epsilon(layout.shard(shard.name), features, plan, settings)
    warnings += _slow_lengths(features)
    done = max(1, sidecar["examples"] + sum(line["segments"] for line in sidecar["rejects"]))
    rate = done / seconds
    rejected = sum(line["segments"] for line in sidecar["rejects"])
    measured = f"{done} segments on this machine" + (
        f", of which {rejected} were rejected" if rejected else ""
    )
    return {"seconds": plan.segments / rate, "rate": rate, "measured": measured, "warnings": warnings}


def _whole_batches(blocks: pa.Table, settings: Settings) -> pa.Table:
    """Leaves out the end of the trial that would fill no batch, where there is more than one."""
    total = int(blocks.column("count").to_numpy().sum())
    if total < settings.batch_size:
        return blocks
    sums = blocks.column("count").to_numpy().cumsum()
    return blocks.slice(0, int((sums <= max(total - total % settings.batch_size, sums[0])).sum()))


def _byte_order(blocks: Iterable[Block], settings: Settings) -> list[str]:
    """A warning where one of a few headerless recordings seems to have its bytes the other way round."""
    few = list({block.source: block for block in blocks}.values())[:_BYTE_ORDER_RECORDINGS]
    found = (maybe_byteswapped(block.source, text(block.recording), settings) for block in few)
    return [warning for warning in found if warning][:1]


def _slow_lengths(features: Mapping[str, Feature]) -> list[str]:
    """A warning for each feature with an FFT of an awkward length."""
    keys: dict[int, str] = {}
    for key, feature in features.items():
        if feature.fft_length:
            keys.setdefault(feature.fft_length, key)
    found = ((key, slow_length(points)) for points, key in keys.items())
    return [f"{key}: {warning}" for key, warning in found if warning]


def _near_epsilon(path: str, features: Mapping[str, Feature], plan: Plan, settings: Settings) -> list[str]:
    """A warning for each feature of which ε, not the data, decides most values."""
    tf = load_tensorflow()
    specs = {key: spec for key, spec in plan.specs.items() if key in features}
    if not specs:
        return []
    records = tf.data.TFRecordDataset(path, tensorflow_compression(settings.compression))
    batch = next(iter(records.batch(settings.batch_size)), None)
    if batch is None:
        return []
    values = tf.io.parse_example(batch, schema.parse_spec(specs))
    return [
        f"{key}: {warning}"
        for key, feature in features.items()
        if (warning := feature.near_epsilon(values[key].numpy()))
    ]

"""The wiring, in the data's order."""

from __future__ import annotations

from collections.abc import Mapping

import apache_beam as beam

from ..transforms.dataset import Layout
from ..transforms.metrics import count_dataset
from ..transforms.schema import FeatureSpec
from ..transforms.shard import ExtractShard
from .finalize import finalize
from .settings import Settings


def build(
    pipeline: beam.Pipeline,
    layout: Layout,
    todo: list[int],
    specs: Mapping[str, FeatureSpec],
    settings: Settings,
    fingerprint: str,
    sample_rate: float,
    *,
    is_complex: bool,
) -> None:
    """Adds the steps that make the shards `todo` of the plan in the folder, and commit the dataset."""
    extract = ExtractShard(layout.root, settings, specs, fingerprint, sample_rate, is_complex=is_complex)
    done = (
        pipeline
        | "ShardNumbers" >> beam.Create(todo, reshuffle=False)  # shard number
        | "Reshuffle" >> beam.Reshuffle()  # shard number, on any worker
        | "ExtractShard" >> beam.ParDo(extract)  # shard number, its file written
        | "CountShards" >> beam.combiners.Count.Globally()  # how many, once all are
    )
    _ = (
        pipeline
        | "Once" >> beam.Create([layout.root], reshuffle=False)  # folder
        | "Finalize" >> beam.Map(commit, settings, beam.pvalue.AsSingleton(done))  # folder, now a dataset
    )


def commit(root: str, settings: Settings, shards: int) -> str:
    """`finalize`, after `shards` shards were made."""
    del shards  # only that they are there matters
    count_dataset(finalize(root, settings))
    return root

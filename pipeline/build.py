"""The wiring, in the data's order."""

from __future__ import annotations

import apache_beam as beam

from ..transforms.dataset import Layout
from ..transforms.metrics import count_dataset
from ..transforms.shard import ExtractShard
from .finalize import finalize
from .plan import Plan
from .settings import Settings


def build(pipeline: beam.Pipeline, layout: Layout, plan: Plan, todo: list[int], settings: Settings) -> None:
    """Adds the steps that make the shards `todo` of the plan in the folder, and commit the dataset."""
    extract = ExtractShard(
        layout.root,
        settings,
        plan.specs,
        plan.fingerprint(settings),
        plan.sample_rate,
        is_complex=plan.is_complex,
        normalized_by=plan.normalized_by,
    )
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

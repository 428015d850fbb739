"""The DoFn that makes one shard, from its part of the plan to its file and sidecar."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

import apache_beam as beam
import numpy as np
from apache_beam.utils.shared import Shared

from .ahead import map_ahead
from .batch import (
    by_example,
    count_silent,
    kept_waveform,
    plan_batches,
    read_batch,
    reject_non_finite,
    rows_of_example,
    valid_rows,
)
from .buffers import Buffers
from .channels import parse_channels
from .compute import CompiledFrontend
from .dataset import Layout, replace_file, write_json
from .elements import Batch, Block, Source
from .encode import ExampleEncoder
from .formats.choose import Readers, open_recording
from .metrics import StageTimes, count_shard
from .normalization import read_normalization
from .parts import Part, read_part
from .rejects import Reject, merge
from .schema import FeatureSpec
from .settings import ShardSettings
from .statistics import Statistics, add, to_bytes
from .write import ShardWriter, checksum


def extract_shard(
    part: Part,
    layout: Layout,
    settings: ShardSettings,
    specs: Mapping[str, FeatureSpec],
    frontend: CompiledFrontend,
    fingerprint: str,
    open_file: Callable[[Source], BinaryIO] = open_recording,
) -> dict:
    """Makes one shard: read, segment, batch, frontend, encode, write, each ahead of the next.

    Returns:
      the sidecar, which is on disk already.

    Raises:
      OSError: the dataset's folder cannot be written.
    """
    times, began_s, began = StageTimes(), time.time(), time.perf_counter()
    readers = Readers(settings)
    mode = parse_channels(settings.channels).mode
    examples = settings.batch_size // rows_of_example(next(part.blocks()), mode)
    encoder = ExampleEncoder(specs)
    buffers = Buffers((settings.batch_size, settings.segment_length), frontend.dtype)
    rejects: list[Reject] = []
    silent: list[int] = []
    statistics: dict[str, Statistics] = {}
    batches = 0

    def read(blocks: list[Block]) -> tuple[Batch, list[Reject]]:
        with times.measure("read"):
            return read_batch(
                blocks,
                waveform=buffers.take(),
                open_file=open_file,
                readers=readers.get,
                mode=mode,
                segments=settings,
                samples=settings,
                specs=specs,
            )

    def compute(
        read_result: tuple[Batch, list[Reject]],
    ) -> tuple[Batch, dict[str, np.ndarray], dict[str, Statistics], list[Reject]]:
        batch, lost = read_result
        valid = valid_rows(batch)
        with times.measure("compute"):
            computed = frontend(batch.waveform, valid)
        lost += reject_non_finite(batch, computed.features, ~np.isfinite(computed.row_sums))
        silent.append(count_silent(batch, computed.row_sums == frontend.silent_sum))
        with times.measure("statistics"):
            of_batch = frontend.statistics(computed.features, np.repeat(batch.mask, batch.rows), valid)
        return batch, computed.features, of_batch, lost

    temporary = os.path.join(layout.temporary, f"{part.shard}.{os.getpid()}.{uuid.uuid4().hex}.tfrecord")
    threads = {"read": settings.readers_at_once, "compute": frontend.threads}
    with (
        ThreadPoolExecutor(threads["read"], "read") as reading,
        ThreadPoolExecutor(threads["compute"], "compute") as computing,
        ShardWriter(layout.shard(part.shard), temporary, settings.compression) as writer,
    ):
        ahead = {stage: settings.batches_ahead(count) for stage, count in threads.items()}
        segments = plan_batches(part.blocks(), examples, settings.hop)  # [Block] a batch
        waveforms = map_ahead(read, segments, reading, ahead["read"])  # (Batch, [Reject])
        computed = map_ahead(
            compute, waveforms, computing, ahead["compute"]
        )  # (Batch, {key: rows}, {key: Statistics}, [Reject])
        for batch, features, of_batch, lost in computed:
            with times.measure("statistics"):
                add(statistics, of_batch)
            with times.measure("encode"):
                rows = {key: by_example(values, batch) for key, values in features.items()}
                kept = kept_waveform(batch, specs)
                records = encoder.encode(batch, {**rows, **batch.vectors, **kept})  # [Record]
            with times.measure("write"):
                writer.write(records)
            buffers.give_back(batch.waveform)
            rejects += lost
            batches += 1
        with times.measure("write"):
            info = writer.close()

    content = to_bytes(statistics)
    replace_file(layout.shard_statistics(part.shard), content, layout.temporary)
    sidecar = {
        "shard": str(part.shard),
        "digest": part.digest,
        "settings": fingerprint,
        "examples": info.examples,
        "bytes": info.num_bytes,
        "crc32c": info.crc32c,
        "silent": sum(silent),
        "statistics": list(checksum(layout.shard_statistics(part.shard))),
        "rejects": merge(reject.to_json() for reject in rejects),
        "computed_by": frontend.computed_by,
        "batches": batches,
        "threads": threads,
        "stage_us": times.us(),
        "began_s": round(began_s, 6),
        "wall_us": int((time.perf_counter() - began) * 1e6),
    }
    write_json(layout.sidecar(part.shard), sidecar, layout.temporary)
    return sidecar


class ExtractShard(beam.DoFn):
    """Shard number in, shard number out; everything else goes through the dataset's folder.

    Args:
      root: the dataset's folder.
      settings: everything that decides what is done.
      specs: the keys of an example.
      fingerprint: names the settings; kept in each sidecar.
      sample_rate: of the examples, Hz.
      is_complex: whether samples are complex.
      normalized_by: the `normalization_id` of the statistics in the plan's folder, or None.
    """

    def __init__(
        self,
        root: str,
        settings: ShardSettings,
        specs: Mapping[str, FeatureSpec],
        fingerprint: str,
        sample_rate: float,
        *,
        is_complex: bool = False,
        normalized_by: str | None = None,
    ):
        self._sample_rate, self._is_complex, self._normalized_by = sample_rate, is_complex, normalized_by
        self._layout = Layout(root)
        self._settings = settings
        self._specs = dict(specs)
        self._fingerprint = fingerprint
        self._shared = Shared()

    def setup(self) -> None:
        """Loads the frontend, once per worker process."""

        def load() -> CompiledFrontend:
            settings, path = self._settings, self._layout.plan_normalization
            return CompiledFrontend(
                settings,
                settings.segment_length,
                self._sample_rate,
                is_complex=self._is_complex,
                normalization=read_normalization(path, self._normalized_by),
            )

        self._frontend = self._shared.acquire(load)

    def process(self, element: int) -> Iterator[int]:
        """Makes the shard with that number."""
        part = read_part(self._layout.plan_part(element))
        sidecar = extract_shard(
            part, self._layout, self._settings, self._specs, self._frontend, self._fingerprint
        )
        count_shard(sidecar)
        yield element

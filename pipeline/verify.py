"""Reads a dataset back and checks it against its metadata, its ledger and itself."""

from __future__ import annotations

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from ..transforms import schema
from ..transforms.dataset import Dataset, ShardName, load_dataset
from ..transforms.device import load_tensorflow, set_up
from ..transforms.statistics import from_file
from ..transforms.write import checksum
from .words import counted

_BATCH = 256


def verify(folder: str) -> tuple[list[str], str]:
    """Checks checksums, counts, shapes, finite values and the accounting.

    Returns:
      the problems, each with file and record, and a text for the user.

    Raises:
      DatasetError: the folder holds no dataset.
    """
    dataset = load_dataset(folder)
    shards = [(split, shard) for split, shards in dataset.splits.items() for shard in shards]
    problems = _check_files(dataset, {shard["file"] for _, shard in shards})
    set_up("cpu")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for found in pool.map(lambda item: _check_shard(dataset, item[1]), shards):
            problems += found
    problems += _check_accounting(dataset)
    examples = sum(split["examples"] for split in dataset.metadata["splits"].values())
    if problems:
        cure = "to mend a shard, remove it and run the same extract again; else extract with --overwrite"
        text = "\n".join([*problems, f"{len(problems)} problems in {folder}: {cure}"])
    else:
        text = f"{folder}: {counted(examples, 'example')} in {counted(len(shards), 'shard')} are as recorded"
    return problems, text


def _check_files(dataset: Dataset, known: set[str]) -> list[str]:
    present = {name for name in os.listdir(dataset.layout.root) if ShardName.parse(name)}
    return [
        f"{name}: not part of the dataset, though it bears the name of a shard"
        for name in sorted(present - known)
    ]


def _check_shard(dataset: Dataset, shard: dict[str, Any]) -> list[str]:
    path = os.path.join(dataset.layout.root, shard["file"])
    try:
        size, crc = checksum(path)
    except OSError as error:
        return [f"{shard['file']}: cannot be read: {error.strerror}"]
    if size != shard["bytes"]:
        return [f"{shard['file']}: has {size} bytes, not {shard['bytes']}"]
    problems = []
    if crc != shard["crc32c"]:
        problems.append(f"{shard['file']}: its CRC-32C is {crc}, not {shard['crc32c']}")
    return problems + _check_records(dataset, shard, path)


def _check_records(dataset: Dataset, shard: dict[str, Any], path: str) -> list[str]:
    tf = load_tensorflow()
    specs = dataset.features
    carried = dataset.metadata["settings"].get("carry", ())  # NaN where a recording has no value
    spec = schema.parse_spec(specs)
    records = tf.data.TFRecordDataset(path, dataset.tensorflow_compression)
    first, problems = 0, []
    try:
        for batch in records.batch(_BATCH):
            for key, values in tf.io.parse_example(batch, spec).items():
                if key not in carried:
                    problems += _check_values(shard["file"], first, key, specs[key], values.numpy())
            first += int(batch.shape[0])
    except tf.errors.OpError as error:
        what = re.sub(r"\{\{.*?\}\} | \[Op:.*", "", str(error.message).splitlines()[0])
        return [
            *problems,
            f"{shard['file']}: record {first} or one of the {_BATCH} after it cannot be read: {what}",
        ]
    if first != shard["examples"]:
        problems.append(f"{shard['file']}: holds {first} records, not {shard['examples']}")
    return problems


def _check_values(file: str, first: int, key: str, spec: schema.FeatureSpec, values: np.ndarray) -> list[str]:
    if spec.dtype == "int16":
        wrong = [i for i, value in enumerate(values) if len(value) != spec.num_bytes]
        return [
            f"{file}: record {first + i}: {key} has {len(values[i])} bytes, not {spec.num_bytes}"
            for i in wrong
        ]
    if spec.dtype != "float32":
        return []
    bad = np.flatnonzero(~np.isfinite(values.reshape(len(values), -1)).all(axis=1))
    return [f"{file}: record {first + i}: {key} holds NaN or infinity" for i in bad.tolist()]


def _check_accounting(dataset: Dataset) -> list[str]:
    """Metadata, shards and ledger must tell the same numbers."""
    counts, splits = dataset.metadata["counts"], dataset.metadata["splits"]
    problems = []
    for name, split in splits.items():
        total = sum(shard["examples"] for shard in split["shards"])
        if total != split["examples"]:
            problems.append(
                f"split {name}: {split['examples']} examples are recorded, its shards hold {total}"
            )
    segments, recordings = counts["segments"], counts["recordings"]
    examples = sum(split["examples"] for split in splits.values())
    if segments["planned"] != segments["examples"] + segments["rejected"] or segments["examples"] != examples:
        problems.append(
            f"the accounting does not balance: {segments}, and the splits hold {examples} examples"
        )
    try:
        ledger = pq.read_table(dataset.layout.ledger)
    except (OSError, ValueError) as error:
        return [*problems, f"{os.path.basename(dataset.layout.ledger)}: cannot be read: {error}"]
    planned, written, rejected = (
        ledger.column(f"segments_{what}").to_numpy() for what in ("planned", "written", "rejected")
    )
    for row in np.flatnonzero(planned != written + rejected).tolist():
        name = ledger.column("id")[row].as_py()
        problems.append(f"recordings.parquet: {name}: planned segments are not written + rejected ones")
    problems += _check_rejects(dataset)
    if len(ledger) != recordings["matched"] or written.sum() != examples:
        problems.append(
            f"the ledger has {len(ledger)} recordings and {written.sum()} examples, the dataset {recordings['matched']} and {examples}"
        )
    return problems + _check_statistics(dataset)


def _check_statistics(dataset: Dataset) -> list[str]:
    """They must be there, of the recorded features, and of as many values as there are examples."""
    name = os.path.basename(dataset.layout.statistics)
    if not dataset.metadata["axes"]:
        return []
    try:
        found = from_file(dataset.layout.statistics)
    except (OSError, ValueError) as error:
        return [f"{name}: cannot be read: {error}"]
    if set(found) != set(dataset.metadata["axes"]):
        return [
            f"{name}: is of {', '.join(found)}, and the features are {', '.join(dataset.metadata['axes'])}"
        ]
    splits = dataset.metadata.get("statistics", {}).get("splits", dataset.splits)
    examples = sum(dataset.metadata["splits"][split]["examples"] for split in splits)
    return [
        f"{name}: {key} has {each.count} values a bin, and {', '.join(splits)} {examples} examples"
        for key, each in found.items()
        if len(dataset.features[key].shape) == 1 and each.count != examples
    ]


def _check_rejects(dataset: Dataset) -> list[str]:
    """The lines must add up to what is recorded, and the frontend be there."""
    problems = []
    try:
        with open(dataset.layout.rejects, encoding="utf-8") as file:
            segments = sum(json.loads(line)["segments"] for line in file)
        expected = dataset.metadata["counts"]["segments"]["rejected"]
        if segments != expected:
            problems.append(f"rejects.jsonl: its lines tell of {segments} segments, {expected} are recorded")
    except (OSError, ValueError, KeyError, TypeError) as error:
        problems.append(f"rejects.jsonl: cannot be read: {error}")
    if dataset.metadata["axes"] and not os.path.exists(
        os.path.join(dataset.layout.frontend, "saved_model.pb")
    ):
        problems.append("frontend/: the SavedModel is missing")
    return problems

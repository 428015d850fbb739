"""Runs of the command line, and datasets read back without this package's readers."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import json
from pathlib import Path

import numpy as np
import tensorflow as tf

from spectrabeam.pipeline.__main__ import main

RAW = ("--raw-dtype", "<f4", "--sample-rate", "1000", "--segment-length", "256", "--jit", "off")


@dataclasses.dataclass(frozen=True)
class Result:
    """What a command returned and printed."""

    code: int
    out: str
    err: str


def run(*arguments: object) -> Result:
    """Runs a verb in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return Result(code, out.getvalue(), err.getvalue())


def extract(source: Path, output: Path, *arguments: object, code: int = 0) -> Result:
    """Extracts small raw files, and holds the exit code against `code`."""
    result = run("extract", "--input", source, "--output", output, *RAW, *arguments)
    assert result.code == code, (result.code, result.err, result.out)
    return result


def metadata(dataset: Path) -> dict:
    """spectrabeam.json."""
    return json.loads((dataset / "spectrabeam.json").read_text())


def rejects(dataset: Path) -> list[dict]:
    """The lines of rejects.jsonl."""
    return [json.loads(line) for line in (dataset / "rejects.jsonl").read_text().splitlines()]


def read_examples(dataset: Path, split: str | None = None) -> list[dict[str, np.ndarray]]:
    """Every example, by plain tf.data and what spectrabeam.json says; one dict of values each."""
    about = metadata(dataset)
    compression = {"none": ""}.get(about["compression"], about["compression"].upper())
    types = {"float32": tf.float32, "int64": tf.int64, "bytes": tf.string, "int16": tf.string}
    spec = {
        key: tf.io.FixedLenFeature([] if value["dtype"] == "int16" else value["shape"], types[value["dtype"]])
        for key, value in about["features"].items()
    }
    examples = []
    for name, part in about["splits"].items():
        if split not in (None, name):
            continue
        files = [str(dataset / shard["file"]) for shard in part["shards"]]
        if files:
            records = tf.data.TFRecordDataset(files, compression)
            for example in records.map(lambda record: tf.io.parse_single_example(record, spec)):
                examples.append({key: value.numpy() for key, value in example.items()})
    return examples


def hashes(dataset: Path) -> dict[str, str]:
    """File name to SHA-256 of everything that must be the same for the same input and settings."""
    names = ["spectrabeam.json", "rejects.jsonl", "recordings.parquet"]
    names += [path.name for path in dataset.glob("spectrabeam-*.tfrecord")]
    return {name: hashlib.sha256((dataset / name).read_bytes()).hexdigest() for name in sorted(names)}

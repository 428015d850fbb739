"""README.md in the dataset's folder: a data card for people, made from the run."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import yaml

from ..transforms.dataset import Layout, replace_file
from .about import describe_dataset, license_url, shared_settings, title_of
from .summary import axis_text
from .words import printable

_READ = """```python
import json
import tensorflow as tf

about = json.load(open("spectrabeam.json"))
files = [shard["file"] for shard in about["splits"]["{split}"]["shards"]]
types = {{"float32": tf.float32, "int64": tf.int64, "bytes": tf.string, "int16": tf.string}}
spec = {{
    key: tf.io.FixedLenFeature([] if value["dtype"] == "int16" else value["shape"], types[value["dtype"]])
    for key, value in about["features"].items()
}}
records = tf.data.TFRecordDataset(files, compression_type="{compression}", num_parallel_reads=tf.data.AUTOTUNE)
examples = records.batch(256).map(lambda batch: tf.io.parse_example(batch, spec))
```
"""


def write_data_card(layout: Layout, metadata: Mapping[str, Any]) -> None:
    """Writes README.md, with front matter as dataset hubs read it.

    Args:
      layout: of the dataset.
      metadata: the content of spectrabeam.json.
    """
    sections = [_head(layout, metadata), _content(metadata), _examples(metadata), _reading(metadata)]
    sections += [_rejects(metadata), _settings(metadata)]
    text = "\n".join(section for section in sections if section)
    replace_file(os.path.join(layout.root, "README.md"), text.encode("utf-8", "replace"), layout.temporary)


def _head(layout: Layout, metadata: Mapping[str, Any]) -> str:
    about, title = metadata["about"], title_of(layout, metadata)
    front: dict[str, Any] = {
        "pretty_name": title,
        "tags": ["waveforms", "spectra", "tfrecord", "spectrabeam"],
    }
    if about["license"]:
        front["license"] = about["license"].lower()
    lines = ["---", yaml.safe_dump(front, sort_keys=True, allow_unicode=True).rstrip(), "---", ""]
    lines += [f"# {_plain(title)}", "", about["description"] or describe_dataset(metadata), ""]
    for name, value in (
        ("Licence", about["license"] and f"[{_plain(about['license'])}]({license_url(about['license'])})"),
        ("Recordings by", about["creator"] and _plain(about["creator"])),
        ("Recordings from", about["homepage"] and f"<{about['homepage']}>"),
        ("Cite as", about["citation"] and _plain(about["citation"])),
    ):
        if value:
            lines.append(f"- {name}: {value}")
    return "\n".join(lines) + "\n"


def _content(metadata: Mapping[str, Any]) -> str:
    counts = metadata["counts"]
    rows = [
        [
            name,
            f"{split['examples']:,}",
            f"{len(split['shards']):,}",
            f"{sum(s['bytes'] for s in split['shards']):,}",
        ]
        for name, split in metadata["splits"].items()
    ]
    lines = [
        "## What is in it",
        "",
        _table(["split", "examples", "shards", "bytes"], rows),
        f"{counts['recordings']['used']:,} of {counts['recordings']['matched']:,} recordings were used; "
        "`recordings.parquet` says what became of each. No group of recordings is in two splits, unless a warning below "
        "says so.",
    ]
    if metadata["label_names"]:
        names = ", ".join(f"{index} {_plain(name)}" for index, name in enumerate(metadata["label_names"]))
        lines += ["", f"Classes: {names}."]
    lines += [f"\n> {_plain(warning)}" for warning in metadata["warnings"]]
    return "\n".join(lines) + "\n"


def _examples(metadata: Mapping[str, Any]) -> str:
    rows = []
    for key, value in metadata["features"].items():
        axes = "; ".join(axis_text(axis) for axis in metadata["axes"].get(key, ()))
        rows.append([f"`{key}`", value["dtype"], "×".join(map(str, value["shape"])) or "1", axes])
    unit = f", in {_plain(metadata['unit'])}" if metadata["unit"] else ""
    lines = [
        "## An example",
        "",
        f"A segment of {metadata['segment_length']} samples at {metadata['sample_rate']:g} Hz{unit}, "
        f"every {metadata['hop_length']}.",
        "",
        _table(["key", "type", "shape", "axes"], rows),
        "`valid` is the number of real samples, before the padding; `start` the first one in its recording.",
    ]
    return "\n".join(lines) + "\n"


def _reading(metadata: Mapping[str, Any]) -> str:
    split = next((name for name, each in metadata["splits"].items() if each["shards"]), "train")
    compression = "" if metadata["compression"] == "none" else metadata["compression"].upper()
    lines = ["## Reading it", "", "In this folder, by TensorFlow alone:", ""]
    lines.append(_READ.format(split=split, compression=compression))
    if metadata["compression"] == "none":
        lines.append(
            'TensorFlow Datasets: `tfds.builder_from_directory(FOLDER).as_dataset(split="' + split + '")`.'
        )
    lines.append(
        "`schema.pbtxt` is its schema for TFX; `frontend/` a SavedModel that computes the same features."
    )
    return "\n".join(lines) + "\n"


def _rejects(metadata: Mapping[str, Any]) -> str:
    if not metadata["counts"]["rejects"]:
        return ""
    rows = [
        [reason, f"{counts['recordings']:,}", f"{counts['segments']:,}"]
        for reason, counts in metadata["counts"]["rejects"].items()
    ]
    table = _table(["reason", "recordings", "segments"], rows)
    return f"## What was left out\n\n{table}`rejects.jsonl` has each with its message.\n"


def _settings(metadata: Mapping[str, Any]) -> str:
    rows = [
        [f"`{name}`", f"`{_plain(str(value))}`"] for name, value in sorted(shared_settings(metadata).items())
    ]
    rows += [[name, _plain(version)] for name, version in sorted(metadata["versions"].items())]
    return f"## How it was made\n\n{_table(['setting or library', 'value'], rows)}"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _plain(text: str) -> str:
    """Text that Markdown takes as it is, on one line."""
    shown = printable(text)
    for mark in ("\\", "|", "*", "_", "<", "[", "#"):
        shown = shown.replace(mark, f"\\{mark}")
    return shown

"""What a dataset or a waveform file holds, in short."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..transforms import schema
from ..transforms.dataset import Dataset, DatasetError, load_dataset
from ..transforms.device import load_tensorflow, set_up
from ..transforms.formats.choose import is_folder_recording
from .config import load_settings
from .file_inspection import inspect_file
from .plot import plot_example
from .settings import SettingsError
from .summary import dataset_summary
from .words import printable

_EXAMPLES = 3


def inspect(arguments: argparse.Namespace) -> str:
    """A dataset's summary and first examples, or one example; or what the reader sees in one waveform file."""
    path, number, plot = arguments.path, arguments.example, arguments.plot
    del arguments.path, arguments.verb, arguments.example, arguments.plot
    if not os.path.exists(path):
        raise DatasetError(f"{path} does not exist")
    if os.path.isdir(path) and not is_folder_recording(os.fsencode(path.rstrip("/"))):
        dataset = load_dataset(path)
        if number is None and plot is None:
            return _inspect_dataset(dataset)
        return _inspect_example(dataset, number or 0, plot)
    if number is not None or plot is not None:
        raise SettingsError(f"example and plot are for datasets, and {path} is a waveform file")
    return inspect_file(path, load_settings(arguments))


def _inspect_dataset(dataset: Dataset) -> str:
    lines = [dataset_summary(dataset.metadata, dataset.layout)]
    files = dataset.files()
    if files:
        for number, values in enumerate(_examples(dataset, files[0], 0, _EXAMPLES)):
            lines.append(_line(number, values))
    return "\n".join(lines)


def _inspect_example(dataset: Dataset, number: int, plot: str | None) -> str:
    """One example, counted through all splits in the dataset's order, as text and perhaps as a picture."""
    left = number
    for split, shards in dataset.splits.items():
        for shard in shards:
            if 0 <= left < shard["examples"]:
                path = os.path.join(dataset.layout.root, shard["file"])
                (values,) = _examples(dataset, path, left, 1)
                lines = [f"Split       {split}, {shard['file']}", _line(number, values)]
                if plot is not None:
                    name = values["recording"].decode("utf-8", "backslashreplace")
                    start = f", sample {values['start']}"
                    plot_example(values, dataset.metadata, plot, f"{printable(name)}{start}")
                    lines.append(f"Plot        {plot}")
                return "\n".join(lines)
            left -= shard["examples"]
    total = sum(shard["examples"] for shards in dataset.splits.values() for shard in shards)
    raise SettingsError(f"example={number} must be from 0 to {total - 1}")


def _examples(dataset: Dataset, path: str, first: int, count: int) -> Iterator[dict[str, Any]]:
    set_up("cpu")
    tf = load_tensorflow()
    records = tf.data.TFRecordDataset(path, dataset.tensorflow_compression).skip(first).take(count)
    for record in records:
        example = tf.io.parse_single_example(record, schema.parse_spec(dataset.features))
        values = {key: value.numpy() for key, value in example.items()}
        for key, spec in dataset.features.items():
            if spec.dtype == "int16":
                values[key] = np.frombuffer(values[key], "<i2").reshape(spec.shape)
        yield values


def _line(number: int, values: Mapping[str, Any]) -> str:
    return f"Example {number}   " + ", ".join(_show(key, value) for key, value in values.items())


def _show(key: str, value: Any) -> str:
    if isinstance(value, bytes):
        text = value.decode("utf-8", "backslashreplace")
        return f"{key} {printable(text) if len(value) < 200 and key != 'waveform' else f'{len(value)} bytes'}"
    if np.ndim(value) == 0:
        return f"{key} {value:g}" if isinstance(value, np.floating) else f"{key} {value}"
    return f"{key} {list(value.shape)} from {value.min():.4g} to {value.max():.4g}"

"""What a dataset or a waveform file holds, in short."""

from __future__ import annotations

import argparse
import os
from typing import Any

import numpy as np

from ..transforms import schema
from ..transforms.dataset import Dataset, DatasetError, load_dataset
from ..transforms.device import load_tensorflow, set_up
from ..transforms.formats.choose import is_folder_recording
from .config import load_settings
from .file_inspection import inspect_file
from .summary import dataset_summary
from .words import printable

_EXAMPLES = 3


def inspect(arguments: argparse.Namespace) -> str:
    """A dataset's summary and first examples; or what the reader sees in one waveform file."""
    path = arguments.path
    if not os.path.exists(path):
        raise DatasetError(f"{path} does not exist")
    if os.path.isdir(path) and not is_folder_recording(os.fsencode(path.rstrip("/"))):
        return _inspect_dataset(load_dataset(path))
    del arguments.path, arguments.verb
    return inspect_file(path, load_settings(arguments))


def _inspect_dataset(dataset: Dataset) -> str:
    lines = [dataset_summary(dataset.metadata, dataset.layout)]
    files = dataset.files()
    if files:
        set_up("cpu")
        tf = load_tensorflow()
        records = tf.data.TFRecordDataset(files[:1], dataset.tensorflow_compression).take(_EXAMPLES)
        for number, record in enumerate(records):
            example = tf.io.parse_single_example(record, schema.parse_spec(dataset.features))
            values = {key: value.numpy() for key, value in example.items()}
            lines.append(
                f"Example {number}   " + ", ".join(_show(key, value) for key, value in values.items())
            )
    return "\n".join(lines)


def _show(key: str, value: Any) -> str:
    if isinstance(value, bytes):
        text = value.decode("utf-8", "backslashreplace")
        return f"{key} {printable(text) if len(value) < 200 and key != 'waveform' else f'{len(value)} bytes'}"
    if np.ndim(value) == 0:
        return f"{key} {value:g}" if isinstance(value, np.floating) else f"{key} {value}"
    return f"{key} {list(value.shape)} from {value.min():.4g} to {value.max():.4g}"

"""What a dataset or a waveform file holds, in short."""

from __future__ import annotations

import argparse
import os
from typing import Any

import numpy as np

from ..transforms import schema
from ..transforms.dataset import Dataset, DatasetError, load_dataset
from ..transforms.device import load_tensorflow, set_up
from ..transforms.files import open_local
from ..transforms.formats.choose import HEAD_BYTES, Readers, format_by_content, format_by_name
from ..transforms.frontend import feature_settings
from ..transforms.rejects import RejectError
from ..transforms.segment import count_segments
from .settings import Settings, SettingsError, load_settings
from .summary import dataset_summary, printable

_EXAMPLES = 3
_SAMPLES = 1 << 20


def inspect(arguments: argparse.Namespace) -> str:
    """A dataset's summary and first examples; or what the reader sees in one waveform file."""
    path = arguments.path
    if os.path.isdir(path):
        return _inspect_dataset(load_dataset(path))
    if not os.path.exists(path):
        raise DatasetError(f"{path} does not exist")
    del arguments.path, arguments.verb
    return _inspect_file(path, load_settings(arguments))


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
        return f"{key} {printable(text) if key == 'recording' else f'{len(value)} bytes'}"
    if np.ndim(value) == 0:
        return f"{key} {value:g}" if isinstance(value, np.floating) else f"{key} {value}"
    return f"{key} {list(value.shape)} from {value.min():.4g} to {value.max():.4g}"


def _near_epsilon(samples: np.ndarray, settings: Settings) -> list[str]:
    """Warnings for the first segment of each channel."""
    segment = samples[:, : settings.segment_length].astype(np.float64)
    magnitude = np.abs(np.fft.rfft(segment, settings.segment_length))
    warnings = (
        feature.near_epsilon(key, np.log(magnitude + feature.epsilon))
        for key, feature in feature_settings(settings).items()
    )
    return [warning for warning in warnings if warning]


def _inspect_file(path: str, settings: Settings) -> str:
    uri = os.fsencode(os.path.abspath(path))
    readers = Readers(settings)
    try:
        with open_local(uri) as file:
            size = os.path.getsize(path)
            name = settings.input_format if settings.input_format != "auto" else None
            name = name or format_by_content(file.read(HEAD_BYTES)) or format_by_name(uri, settings)
            if name is None:
                raise DatasetError(f"{path} is of no known format: set --input-format")
            try:
                reader = readers.get(name)
            except ValueError as error:
                raise SettingsError(str(error)) from None
            description = reader.describe(file, size)
            samples = np.empty((description.channels, min(description.frames, _SAMPLES)), np.float32)
            for channel in range(description.channels):
                reader.read(file, channel, 0, samples[channel])
    except RejectError as error:
        return f"File        {path}\nRejected    {error.reason.value}: {error}"
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror}") from None
    count = count_segments(description.frames, settings)
    lines = [
        f"File        {path}, {size:,} bytes",
        f"Format      {description.format}, {description.dtype}, {description.channels} channels",
        f"Samples     {description.frames:,} at {description.sample_rate:g} Hz, {description.frames / (description.sample_rate or 1):.3f} s",
        f"Segments    {count.used} a channel, of {settings.segment_length} samples every {settings.hop}",
    ]
    for channel, values in enumerate(samples):
        finite = values[np.isfinite(values)]
        lost = len(values) - len(finite)
        level = "no finite sample"
        if len(finite):
            rms = float(np.sqrt(np.mean(finite.astype(np.float64) ** 2)))
            level = f"from {finite.min():.6g} to {finite.max():.6g}, mean {finite.mean():.4g}, RMS {rms:.4g}"
        part = (
            "" if samples.shape[1] == description.frames else f", in the first {samples.shape[1]:,} samples"
        )
        lines.append(f"Channel {channel}   {level}{f', {lost} not finite' if lost else ''}{part}")
    lines += [
        f"Warning     {warning}" for warning in [*description.warnings, *_near_epsilon(samples, settings)]
    ]
    return "\n".join(lines)

"""Baseline: a Beam pipeline of ready-made transforms, run in this process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import apache_beam as beam
import numpy as np
import tensorflow as tf
from apache_beam.io import WriteToTFRecord, fileio
from tf_examples import serialize_example

BATCH_SIZE, EPSILON, SHARDS = 64, 1e-6, 8
RUNNER = "apache_beam.runners.portability.fn_api_runner.FnApiRunner"


def read_waveform(file: fileio.ReadableFile) -> np.ndarray:
    """The samples of one file, float32 [samples]."""
    return np.frombuffer(file.read(), dtype="<f4")


class LogSpectrum(beam.DoFn):
    """A list of waveforms in, their log-spectra out."""

    def setup(self) -> None:
        """Makes the graph, once a worker."""
        self._run = tf.function(
            lambda waveform: tf.math.log(tf.abs(tf.signal.rfft(waveform)) + EPSILON), reduce_retracing=True
        )

    def process(self, element: list[np.ndarray]) -> Iterator[np.ndarray]:
        """Computes one batch."""
        yield from self._run(np.stack(element)).numpy()


def extract(files: Sequence[Path], out: Path) -> int:
    """Writes the log-spectra of all files to eight TFRecord files; returns how many."""
    with beam.Pipeline(runner=RUNNER) as pipeline:
        _ = (
            pipeline
            | fileio.MatchFiles(str(files[0].parent / "*.raw"))  # file metadata
            | fileio.ReadMatches()  # ReadableFile
            | beam.Map(read_waveform)  # waveform
            | beam.BatchElements(BATCH_SIZE, BATCH_SIZE)  # [waveform]
            | beam.ParDo(LogSpectrum())  # spectrum
            | beam.Map(serialize_example)  # bytes
            | WriteToTFRecord(str(out / "spectra"), file_name_suffix=".tfrecord", num_shards=SHARDS)
        )
    return len(files)

"""Baseline: a tf.data input pipeline, a distribution strategy, and one TFRecord file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tensorflow as tf
from tf_examples import serialize_example

SAMPLES, BATCH_SIZE, EPSILON = 16384, 64, 1e-6


def read_waveform(path: Any) -> Any:
    """The samples of one file, a float32 tensor [samples]."""
    samples = tf.io.decode_raw(tf.io.read_file(path), tf.float32, little_endian=True)
    return tf.reshape(samples, [SAMPLES])


@tf.function(input_signature=[tf.TensorSpec([None, SAMPLES], tf.float32)])
def log_spectrum(waveform: Any) -> Any:
    """float32 [batch, samples] to float32 [batch, bins]."""
    return tf.math.log(tf.abs(tf.signal.rfft(waveform)) + EPSILON)


def extract(files: Sequence[Path], out: Path) -> int:
    """Writes the log-spectra of all files to one TFRecord file; returns how many."""
    strategy = tf.distribute.MirroredStrategy()
    waveforms = (
        tf.data.Dataset.from_tensor_slices([str(file) for file in files])
        .map(read_waveform, num_parallel_calls=tf.data.AUTOTUNE)
        .batch(BATCH_SIZE)
        .prefetch(tf.data.AUTOTUNE)
    )
    examples = 0
    with tf.io.TFRecordWriter(str(out / "spectra.tfrecord")) as writer:
        for batch in strategy.experimental_distribute_dataset(waveforms):
            spectra = strategy.run(log_spectrum, args=(batch,))
            for replica in strategy.experimental_local_results(spectra):
                for spectrum in replica.numpy():
                    writer.write(serialize_example(spectrum))
                    examples += 1
    return examples

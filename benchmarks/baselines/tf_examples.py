"""How the TensorFlow tutorials make a tf.train.Example of an array."""

from __future__ import annotations

import numpy as np
import tensorflow as tf


def serialize_example(spectrum: np.ndarray) -> bytes:
    """A serialized tf.train.Example with float32 [bins] under the key `spectrum`."""
    floats = tf.train.Feature(float_list=tf.train.FloatList(value=spectrum))
    return tf.train.Example(features=tf.train.Features(feature={"spectrum": floats})).SerializeToString()

"""Rows to tf.train.Example records.

The small values of a batch are encoded by tfx-bsl. A feature's row is large and has a fixed shape, so its
bytes are the same constant prefix and then the array's own memory: it is spliced in without a copy, which
takes a fifth of the encoder's time. Serialised messages may be concatenated, so a record stays a plain
tf.train.Example.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from .device import load_tensorflow
from .elements import Batch
from .schema import FeatureSpec

_LENGTH_DELIMITED = 2


# One serialised tf.train.Example in pieces, to be written one after the other.
Record = tuple[bytes, ...]


class ExampleEncoder:
    """Encodes batches whose examples have the given keys; the same input gives the same bytes.

    tfx-bsl writes an example's features in no fixed order, hence the second, deterministic serialisation.
    """

    def __init__(self, specs: Mapping[str, FeatureSpec]):
        from tfx_bsl.coders.example_coder import RecordBatchToExamplesEncoder

        self._encoder = RecordBatchToExamplesEncoder()
        self._example: Any = load_tensorflow().train.Example
        self._context = sorted(name for name, spec in specs.items() if spec.is_small)
        self._prefixes = {
            name: (_prefix(name, spec), spec.num_bytes)
            for name, spec in sorted(specs.items())
            if not spec.is_small
        }

    def encode(self, batch: Batch, features: Mapping[str, np.ndarray]) -> list[Record]:
        """The records of the batch's real examples, in order.

        Args:
          batch: the examples' small values and mask.
          features: key to array [examples, …], float32, or int16 for a waveform as it came.
        """
        rows = np.flatnonzero(batch.mask)
        contexts = self._encode_context(batch, rows)
        pieces: list[list[bytes]] = [contexts]
        fixed = 0
        for key, (prefix, num_bytes) in self._prefixes.items():
            array = features[key]
            pieces += [[prefix] * len(rows), [array[row].tobytes() for row in rows.tolist()]]
            fixed += len(prefix) + num_bytes
        headers = [_field(1, fixed + len(context)) for context in contexts]
        return list(zip(headers, *pieces, strict=True))

    def _encode_context(self, batch: Batch, rows: np.ndarray) -> list[bytes]:
        """Serialised `Features` messages with the small values alone."""
        named = {
            "channel": batch.channel,
            "recording": batch.recording,
            "start": batch.start,
            **batch.context,
        }
        columns = {name: _column(named[name], rows) for name in self._context}
        one_each = pa.array(np.arange(len(rows) + 1, dtype=np.int32))
        lists = [pa.ListArray.from_arrays(one_each, columns[name]) for name in self._context]
        encoded = self._encoder.encode(pa.RecordBatch.from_arrays(lists, self._context))
        parse = self._example.FromString
        return [parse(example).features.SerializeToString(deterministic=True) for example in encoded]


def _column(values: np.ndarray | list[bytes], rows: np.ndarray) -> pa.Array:
    if isinstance(values, np.ndarray):
        return pa.array(values[rows])
    return pa.array([values[row] for row in rows.tolist()], pa.binary())


def _prefix(name: str, spec: FeatureSpec) -> bytes:
    """What stands before the values of a feature with a fixed shape, in a serialised `Features` message.

    Features { map<string, Feature> feature = 1; }, each entry { string key = 1; Feature value = 2; },
    Feature { BytesList bytes_list = 1; FloatList float_list = 2; }, each list { repeated value = 1 [packed]; }
    (https://protobuf.dev/programming-guides/encoding).
    """
    values = _field(1, spec.num_bytes)
    in_list = len(values) + spec.num_bytes
    feature = _field(1 if spec.dtype == "int16" else 2, in_list) + values
    in_feature = len(feature) + spec.num_bytes
    key = _field(1, len(name)) + name.encode()
    value = _field(2, in_feature)
    return _field(1, len(key) + len(value) + in_feature) + key + value + feature


def _field(number: int, length: int) -> bytes:
    return bytes([number << 3 | _LENGTH_DELIMITED]) + _varint(length)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)

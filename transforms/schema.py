"""What an example holds: names, types and shapes, for the writer, for readers and for the metadata."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping
from typing import Any

# Small values that every example has.
CONTEXT = {
    "channel": "int64",
    "recording": "bytes",
    "sample_rate": "float32",
    "start": "int64",
    "valid": "int64",
}
RESERVED = frozenset(
    {*CONTEXT, "label", "labels", "target", "start_time_ns", "carry", "waveform", "target_waveform"}
)


@dataclasses.dataclass(frozen=True)
class FeatureSpec:
    """One key of an example.

    Attributes:
      dtype: float32, int64, bytes, or int16: little-endian samples in one bytes value.
      shape: of the decoded value, without the batch axis; () for a single value.
    """

    dtype: str
    shape: tuple[int, ...] = ()

    @property
    def is_small(self) -> bool:
        """Whether it is a single value, such as a label or a name."""
        return self.shape == ()

    @property
    def num_bytes(self) -> int:
        """Bytes of the values of a feature or waveform, float32 or int16."""
        return {"float32": 4, "int16": 2}[self.dtype] * math.prod(self.shape)

    @property
    def estimated_bytes(self) -> int:
        """About the bytes of the values in a record: integers and names vary in length."""
        return {"int64": 3, "bytes": 32}.get(self.dtype) or self.num_bytes

    def to_json(self) -> dict[str, Any]:
        """As it stands under `features` in spectrabeam.json."""
        return {"dtype": self.dtype, "shape": list(self.shape)}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> FeatureSpec:
        """The inverse of `to_json`."""
        return FeatureSpec(value["dtype"], tuple(value["shape"]))


def context_specs(more: Mapping[str, str], *, channel: bool = True) -> dict[str, FeatureSpec]:
    """The small values of an example.

    Args:
      more: types of those that not every dataset has, such as a label.
      channel: whether an example is of one channel.
    """
    names = {name: dtype for name, dtype in CONTEXT.items() if channel or name != "channel"}
    return {name: FeatureSpec(dtype) for name, dtype in (names | dict(more)).items()}


def example_bytes(specs: Mapping[str, FeatureSpec]) -> int:
    """Estimated length of a record, from the static shapes; its framing included."""
    return 16 + 8 + sum(len(name) + 16 + spec.estimated_bytes for name, spec in specs.items())


def parse_spec(specs: Mapping[str, FeatureSpec], keys: Iterable[str] | None = None) -> dict[str, Any]:
    """What `tf.io.parse_example` takes to read `keys` (all by default).

    An int16 waveform comes as one string; `tf.io.decode_raw(value, tf.int16)` gives its samples.
    """
    from .device import load_tensorflow

    tf = load_tensorflow()
    types = {"float32": tf.float32, "int64": tf.int64, "bytes": tf.string, "int16": tf.string}
    return {
        name: tf.io.FixedLenFeature(
            [] if specs[name].dtype == "int16" else specs[name].shape, types[specs[name].dtype]
        )
        for name in (specs if keys is None else keys)
    }

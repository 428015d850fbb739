"""schema.pbtxt: the TensorFlow Metadata schema of the examples, for TFX, TFDV and TFXIO."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..transforms.dataset import Layout, replace_file
from ..transforms.schema import FeatureSpec


def write_tfx_schema(layout: Layout, metadata: Mapping[str, Any]) -> None:
    """Writes type, fixed shape and presence of every key of an example; of labels the classes' range, too.

    Args:
      layout: of the dataset.
      metadata: the content of spectrabeam.json.
    """
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    types = {
        "float32": schema_pb2.FLOAT,
        "int64": schema_pb2.INT,
        "bytes": schema_pb2.BYTES,
        "int16": schema_pb2.BYTES,
    }
    schema = schema_pb2.Schema()
    for key, value in sorted(metadata["features"].items()):
        spec = FeatureSpec.from_json(value)
        feature = schema.feature.add(name=key, type=types[spec.dtype])
        feature.presence.min_fraction = 1.0
        feature.presence.min_count = 1
        feature.shape.SetInParent()  # a single value, unless it has dimensions
        for size in () if spec.dtype == "int16" else spec.shape:  # int16 samples are one bytes value
            feature.shape.dim.add(size=size)
        if key == "label":
            kept = metadata["settings"]["missing_label"] == "keep"
            feature.int_domain.min = -1 if kept else 0
            feature.int_domain.max = len(metadata["label_names"]) - 1
            feature.int_domain.is_categorical = True
    content = text_format.MessageToString(schema, as_utf8=True)
    replace_file(f"{layout.root}/schema.pbtxt", content.encode(), layout.temporary)

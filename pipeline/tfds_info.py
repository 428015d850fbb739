"""dataset_info.json and features.json, by which TensorFlow Datasets opens the folder."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..transforms.dataset import Layout, replace_file
from ..transforms.schema import FeatureSpec

_TEMPLATE = "{DATASET}-{SPLIT}-{SHARD_INDEX}.{FILEFORMAT}"
_NAME = "spectrabeam"  # as the shards' names begin
_VERSION = "1.0.0"


def write_tfds_info(layout: Layout, metadata: Mapping[str, Any]) -> None:
    """Writes what `tfds.builder_from_directory` reads; nothing for compressed shards, which it cannot read.

    Args:
      layout: of the dataset.
      metadata: the content of spectrabeam.json.
    """
    if metadata["compression"] != "none":
        return
    import tensorflow_datasets as tfds

    template = tfds.core.ShardedFileTemplate(
        template=_TEMPLATE,
        dataset_name=_NAME,
        data_dir=tfds.core.Path(layout.root),
        filetype_suffix="tfrecord",
    )
    splits = [
        tfds.core.SplitInfo(
            name=name,
            shard_lengths=[shard["examples"] for shard in split["shards"]],
            num_bytes=sum(shard["bytes"] for shard in split["shards"]),
            filename_template=template.replace(split=name),
        )
        for name, split in metadata["splits"].items()
    ]
    features = {
        key: _feature(key, FeatureSpec.from_json(value), metadata["label_names"])
        for key, value in metadata["features"].items()
    }
    info = tfds.core.DatasetInfo(
        builder=tfds.core.DatasetIdentity(
            name=_NAME, version=tfds.core.Version(_VERSION), data_dir=layout.root, module_name=""
        ),
        features=tfds.features.FeaturesDict(features),
        description="Features of waveforms, computed by Spectrabeam.",
    )
    info.set_file_format(tfds.core.FileFormat.TFRECORD)
    info.set_splits(tfds.core.splits.SplitDict(splits))
    folder = os.path.join(layout.temporary, f"tfds.{os.getpid()}")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    info.write_to_directory(folder)
    for name in sorted(
        os.listdir(folder), key=lambda name: name == "dataset_info.json"
    ):  # last what makes it one
        with open(os.path.join(folder, name), "rb") as file:
            replace_file(os.path.join(layout.root, name), file.read(), layout.temporary)
    shutil.rmtree(folder)


def _feature(key: str, spec: FeatureSpec, label_names: Sequence[str] | None) -> Any:
    import tensorflow_datasets as tfds

    if spec.dtype == "bytes":
        return tfds.features.Text()
    if key == "label" and label_names and all(_stays(name) for name in label_names):
        return tfds.features.ClassLabel(names=list(label_names))
    if spec.dtype == "int16":
        return tfds.features.Tensor(shape=spec.shape, dtype=np.int16, encoding="bytes")
    if spec.is_small:
        return tfds.features.Scalar(dtype=np.dtype(spec.dtype))
    return tfds.features.Tensor(shape=spec.shape, dtype=np.dtype(spec.dtype))


def _stays(name: str) -> bool:
    """Whether a name comes back from a file with one name a line."""
    return name.splitlines() == [name] and name == name.strip()

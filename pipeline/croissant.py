"""croissant.json: what the dataset is, in the vocabulary of MLCommons Croissant, by which catalogues find and show it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from ..transforms.dataset import METADATA, Layout, json_bytes, write_json
from .about import describe_dataset, license_url, shared_settings, title_of

# https://docs.mlcommons.org/croissant/docs/croissant-spec-1.1.html, appendix 1: every document carries it whole.
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isArray": "cr:isArray",
    "arrayShape": "cr:arrayShape",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
_TYPES = {"float32": "cr:Float32", "int64": "cr:Int64", "bytes": "sc:Text", "int16": "cr:Int16"}
_CONFORMS_TO = ("http://mlcommons.org/croissant/1.1", "http://mlcommons.org/croissant/RAI/1.0")


def write_croissant(layout: Layout, metadata: Mapping[str, Any]) -> None:
    """Writes croissant.json: files, examples, settings, and what the user says of the dataset.

    Of its files spectrabeam.json bears a SHA-256, and holds the length and CRC-32C of every shard.

    Args:
      layout: of the dataset.
      metadata: the content of spectrabeam.json.
    """
    about = metadata["about"]
    content: dict[str, Any] = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": list(_CONFORMS_TO),
        "name": title_of(layout, metadata),
        "description": about["description"] or describe_dataset(metadata),
        "version": "1.0.0",
        "distribution": [_metadata_file(metadata), *(_shards(split) for split in _filled(metadata))],
        "recordSet": [_examples(split, metadata) for split in _filled(metadata)],
        "rai:dataPreprocessingProtocol": "Spectrabeam's settings: "
        + json.dumps(shared_settings(metadata), sort_keys=True),
    }
    if about["license"]:
        content["license"] = license_url(about["license"])
    if about["creator"]:
        content["creator"] = {"@type": "sc:Organization", "name": about["creator"]}
    if about["homepage"]:
        content["url"] = about["homepage"]
    if about["citation"]:
        content["citeAs"] = about["citation"]
    write_json(layout.croissant, content, layout.temporary)


def _filled(metadata: Mapping[str, Any]) -> list[str]:
    return [name for name, split in metadata["splits"].items() if split["shards"]]


def _metadata_file(metadata: Mapping[str, Any]) -> dict[str, Any]:
    content = json_bytes(metadata)
    return {
        "@type": "cr:FileObject",
        "@id": METADATA,
        "name": METADATA,
        "description": "Settings, axes, counts, and the length and CRC-32C of every shard.",
        "contentUrl": METADATA,
        "contentSize": f"{len(content)} B",
        "encodingFormat": "application/json",
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def _shards(split: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileSet",
        "@id": f"{split}-shards",
        "name": f"{split}-shards",
        "description": f"TFRecord files of tf.train.Example, split {split}.",
        "encodingFormat": "application/x-tfrecord",
        "includes": f"spectrabeam-{split}-*.tfrecord",
    }


def _examples(split: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    fields = []
    for key, value in metadata["features"].items():
        field: dict[str, Any] = {
            "@type": "cr:Field",
            "@id": f"{split}/{key}",
            "name": key,
            "dataType": _TYPES[value["dtype"]],
            "source": {"fileSet": {"@id": f"{split}-shards"}, "extract": {"column": key}},
        }
        if value["shape"]:
            field |= {"isArray": True, "arrayShape": ",".join(str(size) for size in value["shape"])}
        fields.append(field)
    return {"@type": "cr:RecordSet", "@id": split, "name": split, "field": fields}

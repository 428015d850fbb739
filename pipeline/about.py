"""What a user may say of a dataset: title, licence and the like, for its data card and its Croissant metadata."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Mapping
from typing import Any

import pydantic

from ..transforms.dataset import Layout
from ..transforms.declare import setting, settings_group


@settings_group
class AboutSettings:
    """What is told of the dataset beside its content."""

    title: str | None = setting(None, "of the dataset, for people", content=False, metavar="TEXT")
    description: str | None = setting(
        None,
        "of the dataset, a few sentences; of its kinds and counts if not given",
        content=False,
        metavar="TEXT",
    )
    license: str | None = setting(
        None,
        "of the dataset: an SPDX identifier, such as CC-BY-4.0, or a URL",
        content=False,
        metavar="LICENSE",
    )
    creator: str | None = setting(None, "who made the recordings", content=False, metavar="NAME")
    homepage: str | None = setting(
        None, "web address where the recordings come from", content=False, metavar="URL"
    )
    citation: str | None = setting(None, "how the recordings are cited", content=False, metavar="TEXT")

    @pydantic.field_validator("homepage")
    @classmethod
    def _check_url(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"https?://\S+", value):
            raise ValueError(f"{value!r} must be a web address that begins with https:// or http://")
        return value


def about_of(settings: AboutSettings) -> dict[str, str | None]:
    """What the user says, by name."""
    return {field.name: getattr(settings, field.name) for field in dataclasses.fields(AboutSettings)}  # type: ignore[arg-type]


def shared_settings(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that say how the dataset was made, without paths of the machine where it was."""
    hidden = {"input", "manifest", "normalize_with", *metadata["about"]}
    return {
        name: value
        for name, value in metadata["settings"].items()
        if name not in hidden and value not in (None, "", [], {})
    }


def title_of(layout: Layout, metadata: Mapping[str, Any]) -> str:
    """As the user says, else the folder's name."""
    return metadata["about"]["title"] or os.path.basename(os.path.abspath(layout.root))


def license_url(license: str) -> str:
    """The address that a licence's SPDX identifier stands for; any other text as it is."""
    return (
        f"https://spdx.org/licenses/{license}.html"
        if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.+-]*", license)
        else license
    )


def describe_dataset(metadata: Mapping[str, Any]) -> str:
    """A sentence or two on what the examples are."""
    kinds = ", ".join(value["kind"] for value in metadata["settings"]["features"].values()) or "samples"
    counts = metadata["counts"]
    sentence = (
        f"{kinds} of {counts['segments']['examples']:,} segments of {metadata['segment_length']} samples at "
        f"{metadata['sample_rate']:g} Hz, from {counts['recordings']['used']:,} recordings"
    )
    labels = metadata["label_names"]
    return sentence + (f" of {len(labels)} classes." if labels else ".")

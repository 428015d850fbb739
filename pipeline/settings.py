"""The settings of a run: one dataclass, and what names and compares it."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import typing
from collections.abc import Mapping, Sequence
from typing import Any

import pydantic

from ..transforms import frontend
from ..transforms.declare import Size, setting, settings_group
from ..transforms.formats.choose import READERS, load_plugins
from ..transforms.settings import ShardSettings
from .about import AboutSettings, about_of
from .labels import LabelSettings
from .match import split_name
from .split_settings import SplitSettings

MOST_BATCH_BYTES = 2 << 30


class SettingsError(ValueError):
    """Wrong settings; the message says which, where, the value, the rule and the cure."""


@settings_group
class Settings(AboutSettings, SplitSettings, LabelSettings, ShardSettings):
    """All settings of `extract`; a group of settings stands beside the code that obeys it."""

    input: tuple[str, ...] = setting(
        (),
        "folders, files or globs; NAME=PATH gives the ids of one input a prefix",
        content=False,
        metavar="PATH",
    )
    output: str | None = setting(None, "the dataset's folder", content=False, metavar="DIR")
    shard_size: Size = setting(
        128 << 20,
        "bytes of one shard before compression, estimated; 128MiB and the like",
        ge=1,
        metavar="SIZE",
    )
    num_shards: int | None = setting(
        None, "shards in all, shared over the splits by size; instead of shard_size", ge=1
    )
    normalize_with: str | None = setting(
        None,
        "another dataset, by whose mean and standard deviation of each bin features are normalised",
        content=False,  # its statistics are, wherever it lies
        metavar="DATASET",
    )
    max_reject_fraction: float = setting(
        0.05,
        "fraction of recordings or segments that may be rejected before the run fails",
        ge=0,
        le=1,
        content=False,
    )
    overwrite: bool = setting(
        False, "start over: remove the dataset that is in the output folder", content=False
    )
    verbose: bool = setting(False, "show tracebacks and debug messages", content=False)
    beam: dict[str, Any] = setting({}, "Beam's own options, with underscores", content=False)

    @pydantic.field_validator("input", mode="before")
    @classmethod
    def _one_input(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @pydantic.model_validator(mode="before")
    @classmethod
    def _no_booleans_as_numbers(cls, values: Any) -> Any:
        for name, value in (values.kwargs or {}).items():
            numeric = (
                {int, float} & {info(name).annotation, *typing.get_args(info(name).annotation)}
                if name in {field.name for field in fields()}
                else ()
            )
            if isinstance(value, bool) and numeric:
                raise ValueError(f"{name}={str(value).lower()} must be a number: {info(name).description}")
        return values

    @pydantic.field_validator("jit", mode="before")
    @classmethod
    def _yaml_switch(cls, value: Any) -> Any:
        return (
            {True: "on", False: "off"}[value] if isinstance(value, bool) else value
        )  # YAML reads on and off so

    @pydantic.field_validator("beam", mode="before")
    @classmethod
    def _check_option_names(cls, value: Any) -> Any:
        for key in value if isinstance(value, dict) else ():
            if not isinstance(key, str):
                raise ValueError(f"keys are option names, not {key!r}")
        return value

    @pydantic.model_validator(mode="after")
    def _check_combinations(self) -> Settings:
        load_plugins(self.plugins)
        if self.input_format != "auto" and self.input_format not in READERS:
            raise ValueError(
                f"input_format={self.input_format} is not known: use auto, {', '.join(sorted(READERS))}, or a plugin's"
            )
        if self.target_columns and self.manifest is None:
            raise ValueError(
                f"target_columns={','.join(self.target_columns)} are columns of a manifest: set it"
            )
        if None not in (self.normalize_with, self.output) and _same_path(self.normalize_with, self.output):
            raise ValueError(
                f"normalize_with={self.normalize_with} is the output itself: name another dataset, or another output"
            )
        frontend.feature_settings(self)
        if 4 * self.batch_size * self.segment_length > MOST_BATCH_BYTES:
            raise ValueError(
                f"batch_size={self.batch_size} segments of segment_length={self.segment_length} take "
                f"{4 * self.batch_size * self.segment_length / 2**30:,.1f} GiB, and a batch may take 2: lower either"
            )
        if self.features == {} and not self.keep_waveform:
            raise ValueError(
                "features: is empty, so an example would hold nothing: name a feature or set keep_waveform"
            )
        return self


def _same_path(one: Any, other: Any) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def content_settings(settings: Settings) -> dict[str, Any]:
    """Everything that can change an example's content or place, as JSON values."""
    values = pydantic.TypeAdapter(Settings).dump_python(settings, mode="json")
    content = {
        field.name: values[field.name] for field in fields() if info(field.name).json_schema_extra["content"]
    }
    content["hop_length"] = settings.hop
    # the order of splits matters in time, and where the first of several values decides; a JSON object keeps none
    if "time" in settings.split_by or any(isinstance(share, dict) for share in settings.splits.values()):
        content["splits"] = [[name, share] for name, share in content["splits"].items()]
    content["features"] = frontend.settings_json(frontend.feature_settings(settings))
    content |= dict.fromkeys(frontend.FEATURE_FLAGS)
    content["duplicates"] = "reject" if settings.duplicates == "reject" else "off"
    return content


def stored_settings(settings: Settings) -> dict[str, Any]:
    """The `settings` of spectrabeam.json, from which `--config` repeats a run."""
    return content_settings(settings) | {
        "input": [_absolute(path) for path in settings.input],
        "manifest": None if settings.manifest is None else os.path.abspath(settings.manifest),
        "normalize_with": None
        if settings.normalize_with is None
        else os.path.abspath(settings.normalize_with),
        "max_reject_fraction": settings.max_reject_fraction,
        **about_of(settings),
    }


def fingerprint(content: Mapping[str, Any]) -> str:
    """Names content settings, and the version of what is computed from them."""
    text = json.dumps([content, frontend.ALGORITHM_VERSION], sort_keys=True, ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Each setting that differs, with both values."""
    return [
        f"{name}: {json.dumps(old.get(name), ensure_ascii=False)} in the folder, "
        f"{json.dumps(new.get(name), ensure_ascii=False)} now"
        for name in sorted({*old, *new})
        if old.get(name) != new.get(name)
    ]


def fields() -> Sequence[dataclasses.Field]:
    """All settings, input and output first."""
    every = dataclasses.fields(Settings)  # type: ignore[arg-type]
    return sorted(every, key=lambda field: field.name not in ("input", "output"))


def info(name: str) -> Any:
    """How a setting was declared."""
    return Settings.__pydantic_fields__[name]  # type: ignore[attr-defined]


def _absolute(given: str) -> str:
    name, path = split_name(given)
    return f"{name}={os.path.abspath(path)}" if name else os.path.abspath(path)

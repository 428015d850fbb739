"""The settings of a run: the flags, the YAML keys and the checks that follow from one dataclass."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import hashlib
import json
import os
import re
import reprlib
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import pydantic
import yaml

from ..transforms import frontend, schema
from ..transforms.dataset import METADATA, DatasetError, read_json
from ..transforms.declare import Size, setting, settings_group
from ..transforms.settings import ShardSettings
from .match import split_name

_MOST_BATCH_BYTES = 2 << 30
_NESTED = ("beam", "features", "input", "splits")
_SPLIT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


class SettingsError(ValueError):
    """Wrong settings; the message says which, where, the value, the rule and the cure."""


def _parse_splits(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    splits = {}
    for item in value.split(","):
        name, equals, fraction = (part.strip() for part in item.partition("="))
        if not equals or name in splits:
            raise ValueError(
                f"{value!r}: write each split once as NAME=FRACTION, such as train=0.8,validation=0.1,test=0.1"
            )
        splits[name] = fraction
    return splits


@settings_group
class Settings(ShardSettings):
    """All settings of `extract`; a group of settings stands beside the code that obeys it."""

    input: tuple[str, ...] = setting(
        (),
        "folders, files or globs; NAME=PATH gives the ids of one input a prefix",
        content=False,
        metavar="PATH",
    )
    output: str | None = setting(None, "the dataset's folder", content=False, metavar="DIR")
    label_from: str | None = setting(
        None,
        "where labels come from: path:REGEX with a group (?P<label>…), searched in the id",
        metavar="path:REGEX",
    )
    splits: dict[str, float] = setting(
        {"train": 0.8, "validation": 0.1, "test": 0.1},
        "split names and their fractions, by hash of the file",
        metavar="NAME=FRACTION,…",
    )
    seed: int = setting(0, "salt of the hashes that choose splits and the order of blocks")
    shard_size: Size = setting(
        128 << 20,
        "bytes of one shard before compression, estimated; 128MiB and the like",
        ge=1,
        metavar="SIZE",
    )
    num_shards: int | None = setting(
        None, "shards in all, shared over the splits by size; instead of shard_size", ge=1
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

    _split_text = pydantic.field_validator("splits", mode="before")(_parse_splits)

    @pydantic.field_validator("input", mode="before")
    @classmethod
    def _one_input(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @pydantic.model_validator(mode="before")
    @classmethod
    def _no_booleans_as_numbers(cls, values: Any) -> Any:
        for name, value in (values.kwargs or {}).items():
            numeric = (
                {int, float} & {_info(name).annotation, *typing.get_args(_info(name).annotation)}
                if name in _names()
                else ()
            )
            if isinstance(value, bool) and numeric:
                raise ValueError(f"{name}={str(value).lower()} must be a number: {_info(name).description}")
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

    @pydantic.field_validator("splits")
    @classmethod
    def _check_splits(cls, splits: dict[str, float]) -> dict[str, float]:
        for name, fraction in splits.items():
            if not _SPLIT_NAME.fullmatch(name):
                raise ValueError(f"{name!r} cannot be a split's name: use letters, digits and _")
            if isinstance(fraction, bool) or not 0 < fraction <= 1:
                raise ValueError(f"{name}={fraction} must be above 0 and at most 1")
        if abs(sum(splits.values()) - 1) > 1e-6:
            raise ValueError(f"the fractions add up to {sum(splits.values()):g}, not to 1")
        return splits

    @pydantic.field_validator("label_from")
    @classmethod
    def _check_label_from(cls, value: str | None) -> str | None:
        if value is None:
            return None
        kind, _, pattern = value.partition(":")
        if kind != "path":
            raise ValueError(f"{value!r} must begin with path: and a regular expression")
        try:
            groups = re.compile(pattern).groupindex
        except re.error as error:
            raise ValueError(f"{pattern!r} is no regular expression: {error}") from None
        if "label" not in groups:
            raise ValueError(f"{pattern!r} has no group (?P<label>…)")
        return value

    @pydantic.model_validator(mode="after")
    def _check_combinations(self) -> Settings:
        if self.features is not None and self.epsilon is not None:
            raise ValueError(
                "epsilon: is a flag of the default spectrum; where features is given, set it in its mapping"
            )
        if 4 * self.batch_size * self.segment_length > _MOST_BATCH_BYTES:
            raise ValueError(
                f"batch_size={self.batch_size} segments of segment_length={self.segment_length} take "
                f"{4 * self.batch_size * self.segment_length / 2**30:,.1f} GiB, and a batch may take 2: lower either"
            )
        if self.features == {} and not self.keep_waveform:
            raise ValueError(
                "features: is empty, so an example would hold nothing: name a feature or set keep_waveform"
            )
        return self

    @property
    def label_pattern(self) -> re.Pattern[str] | None:
        """What finds the label in a recording's id."""
        return None if self.label_from is None else re.compile(self.label_from.partition(":")[2])


def example_specs(settings: Settings) -> dict[str, schema.FeatureSpec]:
    """Every key of the examples that these settings make."""
    specs = schema.context_specs(labels=settings.label_from is not None)
    specs |= frontend.feature_specs(frontend.feature_settings(settings), settings.segment_length)
    if settings.keep_waveform:
        specs["waveform"] = schema.FeatureSpec(settings.keep_waveform, (settings.segment_length,))
    return dict(sorted(specs.items()))


def content_settings(settings: Settings) -> dict[str, Any]:
    """Everything that can change an example's content or place, as JSON values."""
    values = pydantic.TypeAdapter(Settings).dump_python(settings, mode="json")
    content = {field.name: values[field.name] for field in _fields() if _extra(field.name)["content"]}
    content["hop_length"] = settings.hop
    content["features"] = frontend.settings_json(frontend.feature_settings(settings))
    content["epsilon"] = None
    return content


def stored_settings(settings: Settings) -> dict[str, Any]:
    """The `settings` of spectrabeam.json, from which `--config` repeats a run."""
    return content_settings(settings) | {
        "input": [_absolute(path) for path in settings.input],
        "max_reject_fraction": settings.max_reject_fraction,
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


def add_flags(parser: argparse.ArgumentParser) -> None:
    """A flag for every setting but `beam`."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="settings in YAML; or a dataset's spectrabeam.json, to repeat its run",
    )
    for field in _fields():
        if field.name == "beam":
            continue
        shown = _display(field.name)
        text = _info(field.name).description + (f" (default: {shown})" if shown else "")
        options: dict[str, Any] = {"help": text.replace("%", "%%"), "metavar": _metavar(field.name)}
        if field.name == "input":
            options |= {"nargs": "+", "action": "extend"}
        elif _default(field.name) is False:
            options |= {"nargs": "?", "const": _extra(field.name)["const"]}
        parser.add_argument("--" + field.name.replace("_", "-"), dest=field.name, **options)


def load_settings(arguments: argparse.Namespace) -> Settings:
    """Settings from the YAML file, with the flags above it.

    Raises:
      SettingsError: a file cannot be read, a key is unknown, a value breaks its rule.
    """
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    if arguments.config is not None:
        given = _read_config(arguments.config)
        values = {
            key.replace("-", "_") if isinstance(key, str) else key: value for key, value in given.items()
        }
        sources = dict.fromkeys(values, f" ({arguments.config})")
        known = {field.name for field in _fields()}
        for key in values:
            if key not in known:
                raise SettingsError(f"{key}: no such setting{sources[key]}{suggest(str(key), known)}")
    flags = {name: value for name, value in vars(arguments).items() if name != "config" and value is not None}
    for name in flags:
        sources[name] = ""
    values |= {name: value for name, value in flags.items() if name in {field.name for field in _fields()}}
    try:
        return Settings(**{name: value for name, value in values.items() if value is not None})
    except pydantic.ValidationError as error:
        raise SettingsError(_explain(error, sources)) from None
    except TypeError as error:
        raise SettingsError(str(error)) from None


def suggest(name: str, known: Iterable[str]) -> str:
    """`: did you mean …?`, or nothing."""
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f": did you mean {close[0]}?" if close else ""


class _StrictLoader(yaml.SafeLoader):
    """Safe, and refuses a key that stands twice, where YAML would take the last silently."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, str) and key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"{key!r} stands twice", key_node.start_mark
                )
            if isinstance(key, str):
                seen.add(key)
        return super().construct_mapping(node, deep)


def _read_config(path: str) -> dict[str, Any]:
    try:
        if os.path.basename(path) == METADATA:
            stored = read_json(path).get("settings")
            if not isinstance(stored, dict):
                raise SettingsError(f"config={path} holds no settings: it is not the metadata of a dataset")
            return {"output": os.path.dirname(os.path.abspath(path))} | stored
        with open(path, encoding="utf-8") as file:
            values = yaml.load(file, _StrictLoader)
    except SettingsError:
        raise
    except OSError as error:
        raise SettingsError(f"config={path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"config={path} is no text in UTF-8") from None
    except DatasetError as error:
        raise SettingsError(f"config: {error}") from None
    except RecursionError:
        raise SettingsError(f"config={path} is nested too deep") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise SettingsError(f"config={path} is no YAML{where}: {getattr(error, 'problem', error)}") from None
    except (ValueError, OverflowError) as error:
        raise SettingsError(f"config={path} holds a value that is none: {error}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise SettingsError(
            f"config={path} holds a {type(values).__name__}, not settings: write lines of NAME: VALUE"
        )
    return values


def _explain(error: pydantic.ValidationError, sources: Mapping[str, str]) -> str:
    """Every problem as setting=value (file): rule."""
    return "; ".join(
        dict.fromkeys(_explain_one(problem, sources) for problem in error.errors(include_url=False))
    )


def _explain_one(problem: Mapping[str, Any], sources: Mapping[str, str]) -> str:
    path = [str(part) for part in problem["loc"]]
    message = problem["msg"].removeprefix("Value error, ")
    if not path:
        return message
    name = ".".join(path) if path[0] in _NESTED else path[0]
    where = sources.get(path[0], "")
    if problem["type"] == "unexpected_keyword_argument":
        known = [field.name for field in dataclasses.fields(frontend.LogSpectrum)]  # type: ignore[arg-type]
        return f"{name}: no such setting{where}{suggest(path[-1], known)}"
    if problem["type"] == "value_error":
        return f"{name}{where}: {message}"
    value = problem.get("input")
    shown = "" if isinstance(value, (dict, tuple, list)) else f"={reprlib.repr(value)}"
    meaning = "" if len(path) > 1 and path[0] in _NESTED else f" ({_info(path[0]).description})"
    return f"{name}{shown}{where}: {message[0].lower()}{message[1:]}{meaning}"


def _fields() -> Sequence[dataclasses.Field]:
    fields = dataclasses.fields(Settings)  # type: ignore[arg-type]
    return sorted(fields, key=lambda field: field.name not in ("input", "output"))


def _names() -> set[str]:
    return {field.name for field in _fields()}


def _info(name: str) -> Any:
    return Settings.__pydantic_fields__[name]  # type: ignore[attr-defined]


def _extra(name: str) -> dict[str, Any]:
    return _info(name).json_schema_extra


def _default(name: str) -> Any:
    return _info(name).get_default(call_default_factory=True)


def _display(name: str) -> str:
    """The default as one would write it, or "" where there is none or the switch is off."""
    default = _default(name)
    if default is None or default is False or default in ((), {}):
        return ""
    if name == "splits":
        return ",".join(f"{split}={fraction:g}" for split, fraction in default.items())
    return f"{default >> 20}MiB" if name == "shard_size" else str(default)


def _metavar(name: str) -> str:
    """What stands for the value in the help."""
    annotation = _info(name).annotation
    if _extra(name)["metavar"]:
        return _extra(name)["metavar"]
    if typing.get_origin(annotation) is Literal:
        return "{" + ",".join(str(choice).lower() for choice in typing.get_args(annotation)) + "}"
    kinds = {annotation, *typing.get_args(annotation)} - {type(None)}
    if kinds & {int}:
        return "N"
    return "X" if kinds & {float} else "true"


def _absolute(given: str) -> str:
    name, path = split_name(given)
    return f"{name}={os.path.abspath(path)}" if name else os.path.abspath(path)


def table() -> str:
    """Every setting as a Markdown table, for docs/settings.md."""
    lines = ["| key (flag with dashes) | values | default | meaning |", "| --- | --- | --- | --- |"]
    for field in _fields():
        default = "false" if _default(field.name) is False else _display(field.name)
        values = "" if field.name == "beam" else f"`{_metavar(field.name)}`"
        cells = (f"`{field.name}`", values, default and f"`{default}`", _info(field.name).description)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"

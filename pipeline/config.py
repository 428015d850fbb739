"""Settings from flags and YAML: the flags, the file, and errors in the words of both."""

from __future__ import annotations

import argparse
import dataclasses
import os
import reprlib
import typing
from collections.abc import Mapping
from typing import Any, Literal

import pydantic
import yaml

from ..transforms import frontend
from ..transforms.dataset import METADATA, DatasetError, read_json
from ..transforms.declare import suggest
from .settings import Settings, SettingsError, fields, info

_NESTED = ("beam", "features", "input", "splits")


def add_flags(parser: argparse.ArgumentParser) -> None:
    """A flag for every setting but `beam`."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="settings in YAML; or a dataset's spectrabeam.json, to repeat its run",
    )
    for field in fields():
        if field.name == "beam":
            continue
        shown = _display(field.name)
        text = info(field.name).description + (f" (default: {shown})" if shown else "")
        options: dict[str, Any] = {"help": text.replace("%", "%%"), "metavar": _metavar(field.name)}
        if field.name == "input":
            options |= {"nargs": "+", "action": "extend"}
        elif field.name == "band":
            options |= {"nargs": "+", "metavar": ("LOW", "HIGH")}
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
        values = _beside_config(values, arguments.config)
        sources = dict.fromkeys(values, f" ({arguments.config})")
        known = {field.name for field in fields()}
        for key in values:
            if key not in known:
                raise SettingsError(f"{key}: no such setting{sources[key]}{suggest(str(key), known)}")
    flags = {name: value for name, value in vars(arguments).items() if name != "config" and value is not None}
    for name in flags:
        sources[name] = ""
    values |= {name: value for name, value in flags.items() if name in {field.name for field in fields()}}
    try:
        return Settings(**{name: value for name, value in values.items() if value is not None})
    except pydantic.ValidationError as error:
        raise SettingsError(_explain(error, sources)) from None
    except TypeError as error:
        raise SettingsError(str(error)) from None


def _beside_config(values: dict[str, Any], config: str) -> dict[str, Any]:
    """A manifest or dataset that a file names is looked for beside that file first."""
    found = {}
    for name in ("manifest", "normalize_with"):
        named = values.get(name)
        if isinstance(named, str) and not os.path.isabs(named):
            beside = os.path.join(os.path.dirname(config), named)
            if os.path.exists(beside):
                found[name] = beside
    return values | found


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


# What librosa, scipy and torchaudio call settings of features.
_ELSEWHERE = {
    "hop_length": "frame_step",
    "n_fft": "fft_length",
    "n_mels": "mel_bins",
    "n_mfcc": "coefficients",
    "nfft": "fft_length",
    "nperseg": "frame_length",
    "win_length": "frame_length",
}


def _explain_one(problem: Mapping[str, Any], sources: Mapping[str, str]) -> str:
    path = [str(part) for part in problem["loc"]]
    message = problem["msg"].removeprefix("Value error, ")
    if not path:
        return message
    kind = frontend.KINDS.get(path[2]) if path[0] == "features" and len(path) > 2 else None
    if kind is not None:  # of a union; the user did not write it there
        del path[2]
    name = ".".join(path) if path[0] in _NESTED else path[0]
    where = sources.get(path[0], "")
    if problem["type"] == "unexpected_keyword_argument":
        known = [field.name for field in dataclasses.fields(kind or frontend.LogSpectrum)]
        ours = _ELSEWHERE.get(path[-1])
        near = f": it is {ours} here" if ours in known else suggest(path[-1], known)
        return f"{name}: no such setting{where}{near}"
    if problem["type"] == "union_tag_not_found":
        return f"{name}{where}: set its kind, such as kind: log_spectrum"
    if problem["type"] == "union_tag_invalid":
        return f"{name}{where}: {frontend.unknown_kind(problem['ctx']['tag'])}"
    if problem["type"] == "value_error":
        return f"{name}{where}: {message}"
    value = problem.get("input")
    shown = "" if isinstance(value, (dict, tuple, list)) else f"={reprlib.repr(value)}"
    meaning = "" if len(path) > 1 and path[0] in _NESTED else f" ({info(path[0]).description})"
    return f"{name}{shown}{where}: {message[0].lower()}{message[1:]}{meaning}"


def _extra(name: str) -> dict[str, Any]:
    return info(name).json_schema_extra


def _default(name: str) -> Any:
    return info(name).get_default(call_default_factory=True)


def _display(name: str) -> str:
    """The default as one would write it, or "" where there is none or the switch is off."""
    default = _default(name)
    if default is None or default is False or default in ((), {}):
        return ""
    if name == "splits":
        return ",".join(f"{split}={fraction:g}" for split, fraction in default.items())
    return f"{default >> 20}MiB" if name in ("shard_size", "decode_limit") else str(default)


def _metavar(name: str) -> str:
    """What stands for the value in the help."""
    annotation = info(name).annotation
    choices = [each for each in typing.get_args(annotation) if typing.get_origin(each) is Literal]
    annotation = choices[0] if choices else annotation
    if _extra(name)["metavar"]:
        return _extra(name)["metavar"]
    if typing.get_origin(annotation) is Literal:
        names = [str(choice).lower() for choice in typing.get_args(annotation)]
        return ("|" if any("," in name for name in names) else ",").join(names).join("{}")
    kinds = {annotation, *typing.get_args(annotation)} - {type(None)}
    if kinds & {int}:
        return "N"
    return "X" if kinds & {float} else "true"


def table() -> str:
    """Every setting as a Markdown table, for docs/settings.md."""
    lines = ["| key (flag with dashes) | values | default | meaning |", "| --- | --- | --- | --- |"]
    for field in fields():
        default = "false" if _default(field.name) is False else _display(field.name)
        values = "" if field.name == "beam" else f"`{_metavar(field.name)}`"
        cells = (f"`{field.name}`", values, default and f"`{default}`", info(field.name).description)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"

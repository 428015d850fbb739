"""What stands beside recordings: NAME.json or NAME.yaml of one, recordings.yaml of a folder."""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping
from typing import Any

import pydantic
import yaml

from ..transforms.formats.settings import ReadSettings
from ..transforms.rejects import Reason, RejectError, text
from .match import Found
from .recording import NOTHING_SAID, Said
from .times import parse_time_ns

_ENDINGS = (b".json", b".yaml", b".yml")
_FOLDER_NAMES = tuple(b"recordings" + ending for ending in _ENDINGS)
_MOST_BYTES = 1 << 20
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times as fast, where libyaml is there
_READ_KEYS = (
    "raw_dtype",
    "raw_channels",
    "raw_layout",
    "raw_header_bytes",
    "raw_footer_bytes",
    "partial_frame",
    "iq",
    "scale",
    "array_axes",
)


class Sidecars:
    """Finds and reads sidecars; each folder is listed once.

    Args:
      settings: what a sidecar's read settings are laid over.
      of_all: whether files of their own are looked for beside recordings of every format, not headerless ones alone.
    """

    def __init__(self, settings: ReadSettings, *, of_all: bool):
        self._settings = settings
        self._of_all = of_all
        self._names: dict[bytes, frozenset[bytes]] = {}
        self._folders: dict[tuple[bytes, bytes], Mapping[str, Any]] = {}
        self._loaded: dict[bytes, dict[str, Any] | RejectError] = {}
        self._said: dict[str, Said] = {}

    def said(self, found: Found, *, headerless: bool) -> Said:
        """What sidecars say of a file's recordings.

        Raises:
          RejectError: one of them cannot be understood.
        """
        folder = os.path.dirname(found.uri)
        values = dict(self._of_folder(folder, found.root))
        if headerless or self._of_all:
            for name in self._beside(found.uri, folder):
                values |= _load(os.path.join(folder, name))
        if not values:
            return NOTHING_SAID
        try:
            key = json.dumps(values, sort_keys=True, default=str)
        except (TypeError, ValueError) as error:
            message = f"the sidecar holds what is no plain value: {error}: correct it"
            raise RejectError(Reason.BAD_SIDECAR, message) from error
        if key not in self._said:  # mostly the folder's alone, so the same for many
            self._said[key] = _interpret(values, self._settings)
        return self._said[key]

    def _beside(self, uri: bytes, folder: bytes) -> list[bytes]:
        names = self._list(folder)
        own = os.path.basename(uri)
        stems = dict.fromkeys((os.path.splitext(own)[0], own))
        return [
            stem + ending
            for stem in stems
            for ending in _ENDINGS
            if stem + ending in names and stem + ending != own
        ]

    def _list(self, folder: bytes) -> frozenset[bytes]:
        if folder not in self._names:
            try:
                names = frozenset(name for name in os.listdir(folder) if name.endswith(_ENDINGS))
            except OSError:
                names = frozenset()
            self._names[folder] = names
        return self._names[folder]

    def _of_folder(self, folder: bytes, root: bytes) -> Mapping[str, Any]:
        """What the folder's own file says, over those of the folders above it within the input."""
        key = (folder, root)
        if key not in self._folders:
            root = root.rstrip(b"/") or b"/"
            is_below = folder != root and folder.startswith(root.rstrip(b"/") + b"/")
            values = dict(self._of_folder(os.path.dirname(folder), root)) if is_below else {}
            for name in _FOLDER_NAMES:
                if name in self._list(folder):
                    values |= self._load_once(os.path.join(folder, name))
            self._folders[key] = values
        return self._folders[key]

    def _load_once(self, path: bytes) -> dict[str, Any]:
        """A folder's file, which many recordings share; also a failure is remembered."""
        if path not in self._loaded:
            try:
                self._loaded[path] = _load(path)
            except RejectError as error:
                self._loaded[path] = error
        loaded = self._loaded[path]
        if isinstance(loaded, RejectError):
            raise RejectError(loaded.reason, str(loaded))
        return loaded


def _load(path: bytes) -> dict[str, Any]:
    name = text(os.path.basename(path))
    try:
        if os.path.getsize(path) > _MOST_BYTES:
            raise RejectError(
                Reason.BAD_SIDECAR,
                f"{name} beside it has more than {_MOST_BYTES} bytes: it is no sidecar of ours",
            )
        with open(path, encoding="utf-8") as file:
            values = json.load(file) if path.endswith(b".json") else yaml.load(file, _LOADER)
    except RejectError:
        raise
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as error:
        message = " ".join((getattr(error, "strerror", None) or str(error)).split())
        raise RejectError(
            Reason.BAD_SIDECAR, f"{name} beside it cannot be read: {message}: correct or remove it"
        ) from error
    if values is None:
        return {}
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise RejectError(Reason.BAD_SIDECAR, f"{name} beside it holds no settings: write NAME: VALUE")
    return values


def _interpret(values: dict[str, Any], settings: ReadSettings) -> Said:
    read = {key: values[key] for key in _READ_KEYS if key in values}
    try:
        checked = dataclasses.replace(settings, **read)  # type: ignore[type-var]
        return Said(
            sample_rate=_number(values, "sample_rate"),
            unit=None if values.get("unit") is None else str(values["unit"]),
            factors=factors_of(values.get("sensitivity")),
            channel_names=tuple(str(name) for name in values.get("channel_names") or ()),
            start_time_ns=parse_time_ns(values.get("start_time")),
            group=None if values.get("group") is None else str(values["group"]),
            overrides={key: getattr(checked, key) for key in sorted(read)},
            fields={key: value for key, value in values.items() if isinstance(value, (str, int, float))},
        )
    except pydantic.ValidationError as error:
        problem = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in problem["loc"])
        raise RejectError(
            Reason.BAD_SIDECAR,
            f"the sidecar's {where}={problem.get('input')!r}: {problem['msg'].removeprefix('Value error, ')}: correct it",
        ) from None
    except (TypeError, ValueError, OverflowError) as error:
        raise RejectError(
            Reason.BAD_SIDECAR, f"the sidecar says what cannot be: {error}: correct it"
        ) from None


def _number(values: Mapping[str, Any], key: str) -> float | None:
    value = values.get(key)
    if value is None:
        return None
    if isinstance(value, bool):
        raise ValueError(f"{key}={value} is no number")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{key}={value!r} is no number") from None


def factors_of(sensitivity: Any) -> tuple[float, ...]:
    """One divided by the sensitivity, of all channels or of each.

    Raises:
      ValueError: one is no number, or 0.
    """
    if sensitivity is None:
        return ()
    given = sensitivity if isinstance(sensitivity, (list, tuple)) else [sensitivity]
    numbers = [_number({"sensitivity": each}, "sensitivity") for each in given]
    if not numbers or any(not number or not math.isfinite(number) for number in numbers):
        raise ValueError(f"sensitivity={sensitivity} cannot be divided by")
    return tuple(1.0 / number for number in numbers if number)

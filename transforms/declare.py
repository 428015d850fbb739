"""How a setting is declared: once, with its default, unit, rule and help.

A group of settings is a frozen dataclass beside the code that obeys it; `pipeline.settings` joins the
groups into one flat set, from which flags, YAML keys, help and the documented table follow.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from typing import Annotated, Any

import pydantic
from pydantic.dataclasses import dataclass as _dataclass
from typing_extensions import dataclass_transform

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(B|[kKMGT]i?B)?")
_UNITS = {"": 1, "B": 1, "kB": 1000, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "TB": 1000**4}
_UNITS |= {"kiB": 1 << 10, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}


def _parse_size(value: Any) -> Any:
    if isinstance(value, str):
        match = _SIZE.fullmatch(value.strip())
        if not match:
            raise ValueError(
                f"{value!r} is no size: write bytes or a number with kB, MB, GB, KiB, MiB or GiB, such as 128MiB"
            )
        return int(float(match[1]) * _UNITS[match[2] or ""])
    return value


def _split_words(value: Any) -> Any:
    if isinstance(value, str):
        return tuple(word.strip() for word in value.split(",") if word.strip())
    return value


# Types of settings: bytes, perhaps with a unit; and several words, which a flag has with commas.
Size = Annotated[int, pydantic.BeforeValidator(_parse_size)]
Words = Annotated[tuple[str, ...], pydantic.BeforeValidator(_split_words)]


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(pydantic.Field,))
def settings_group(cls: type) -> type:
    """Makes `cls` a frozen, self-checking, keyword-only dataclass that refuses unknown keys."""
    config = pydantic.ConfigDict(extra="forbid", allow_inf_nan=False, validate_default=True)
    return _dataclass(frozen=True, kw_only=True, config=config)(cls)


def suggest(name: str, known: Iterable[str], before: str = ": ") -> str:
    """`: did you mean …?` for a name that is near a known one, else nothing."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"{before}did you mean {close[0]}?" if close else ""


def problems_of(error: pydantic.ValidationError) -> str:
    """What is wrong with the values of a group of settings, in a line."""
    return "; ".join(
        f"{'.'.join(str(part) for part in each['loc'])}: {each['msg'].removeprefix('Value error, ')}"
        for each in error.errors(include_url=False)
    )


def setting(
    default: Any, help: str, *, content: bool = True, const: str = "true", metavar: str = "", **rules: Any
) -> Any:
    """One setting.

    Args:
      default: its value where nothing is said; lists and dicts are copied.
      help: one phrase: meaning, unit, and what other values do.
      content: whether it can change an example's content or place, and so belongs to the fingerprint.
      const: what the bare flag means for settings that are switches.
      metavar: what stands for the value in the help, where its type does not say enough.
      **rules: pydantic's constraints (`ge`, `gt`, `le`, `pattern` …).
    """
    extra = {"content": content, "const": const, "metavar": metavar}
    if isinstance(default, (list, dict)):
        kind, value = type(default), default
        return pydantic.Field(
            default_factory=lambda: kind(value), description=help, json_schema_extra=extra, **rules
        )
    return pydantic.Field(default=default, description=help, json_schema_extra=extra, **rules)

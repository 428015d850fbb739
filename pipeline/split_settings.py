"""Which recordings go into which split: the settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pydantic

from ..transforms.declare import Words, setting, settings_group

SPLIT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def as_text(value: Any) -> str:
    """A field's value as settings and group keys have it: 3 for 3.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


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


def _is_number(value: Any) -> bool:
    try:
        return bool(np.isfinite(float(value)))
    except (TypeError, ValueError):
        return False


def _as_values(value: Any) -> Any:
    """A mapping from field to values, which may be written as numbers or as one."""
    if not isinstance(value, dict):
        return value
    return {
        str(field): tuple(
            as_text(each) for each in (values if isinstance(values, (list, tuple)) else [values])
        )
        for field, values in value.items()
    }


@settings_group
class SplitSettings:
    """Which recordings go into which split."""

    splits: dict[str, float | dict[str, tuple[str, ...]]] = setting(
        {"train": 0.8, "validation": 0.1, "test": 0.1},
        "split names and their fractions, by hash of the group; in YAML also by value first: test: {load: ['3']}",
        metavar="NAME=FRACTION,…",
    )
    split_by: Words = setting(
        (),
        "what must not be torn apart: the file if not given; fields such as path groups or manifest columns; recording: "
        "each member of a file; time: each group is cut in time, in the order of the splits, with one segment of gap",
        metavar="FIELD,…|recording|time",
    )
    stratify: bool = setting(
        False, "share each label's groups over the splits, instead of all groups by hash alone"
    )
    seed: int = setting(0, "salt of the hashes that choose splits and the order of blocks")
    duplicates: Literal["off", "warn", "reject"] = setting(
        "off", "read everything once before to find recordings of the same samples in different splits"
    )

    _split_text = pydantic.field_validator("splits", mode="before")(_parse_splits)

    @pydantic.field_validator("splits", mode="before")
    @classmethod
    def _values(cls, splits: Any) -> Any:
        if isinstance(splits, (list, tuple)):  # pairs, as a dataset's own settings keep their order
            splits = dict(splits)
        if not isinstance(splits, dict):
            return splits
        for name, share in splits.items():
            if not isinstance(share, dict) and (isinstance(share, bool) or not _is_number(share)):
                raise ValueError(
                    f"{name}={share!r} is no fraction: write a number, or {{field: [value]}} in YAML"
                )
        return {name: _as_values(each) for name, each in splits.items()}

    @pydantic.field_validator("splits")
    @classmethod
    def _check_splits(cls, splits: dict[str, Any]) -> dict[str, Any]:
        if not splits:
            raise ValueError("no split is named: write NAME=FRACTION")
        for name, share in splits.items():
            if not SPLIT_NAME.fullmatch(name):
                raise ValueError(f"{name!r} cannot be a split's name: use letters, digits and _")
            if isinstance(share, dict):
                if not share or not all(share.values()):
                    raise ValueError(f"{name} names no field or no value: write {name}: {{field: [value]}}")
            elif not 0 < share <= 1:
                raise ValueError(f"{name}={share} must be above 0 and at most 1")
        fractions = fractions_of(splits)
        if fractions and abs(sum(fractions.values()) - 1) > 1e-6:
            raise ValueError(f"the fractions add up to {sum(fractions.values()):g}, not to 1")
        return splits

    @pydantic.model_validator(mode="after")
    def _check_stratify(self) -> SplitSettings:
        if self.stratify and "time" in self.split_by:
            raise ValueError(
                "stratify: split_by=time gives every group to all splits, so there is nothing to share"
            )
        return self

    @pydantic.field_validator("split_by")
    @classmethod
    def _check_split_by(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if "file" in value:
            rest = tuple(name for name in value if name != "file")
            if rest not in ((), ("time",)):
                raise ValueError("file stands alone or with time: a file has one value of every other field")
            return rest
        if "recording" in value and len(value) > 1:
            raise ValueError("recording stands alone: a recording has one value of every field")
        return value


def fractions_of(splits: Mapping[str, Any]) -> dict[str, float]:
    """The splits that are a fraction, in their order."""
    return {name: share for name, share in splits.items() if not isinstance(share, dict)}


def fields_needed(settings: SplitSettings) -> set[str]:
    """Names of the fields that decide splits."""
    by_value = {field for share in settings.splits.values() if isinstance(share, dict) for field in share}
    return by_value | (set(settings.split_by) - {"time", "recording", "file"})

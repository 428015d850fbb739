"""What an example says beside its features: label, labels, target, times, carried fields."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import multimode
from typing import Any

import numpy as np
import pyarrow as pa

from ..transforms import frontend, schema
from ..transforms.features.base import Feature
from ..transforms.rejects import Reason, RejectError
from .labels import Facts
from .recording import Recording, Step
from .settings import Settings, SettingsError
from .words import counted

_ARROW = {"int64": pa.int64(), "float32": pa.float32(), "bytes": pa.binary()}


@dataclasses.dataclass(frozen=True)
class Context:
    """The keys of an example that come from what is known about its recording, and their values.

    Attributes:
      small: type of each single value, by key, without the label.
      has_label: whether there is one.
      values: [recordings] of the small values, by key.
      vectors: [recordings] of float vectors, by key.
      has_times: whether any start time is known.
      paired: whether each recording has another one that belongs to it.
      warnings: fields that not every recording has.
    """

    small: Mapping[str, str]
    has_label: bool
    values: Mapping[str, Sequence[Any]]
    vectors: Mapping[str, Sequence[tuple[float, ...]]]
    has_times: bool
    paired: bool
    warnings: Sequence[str] = ()

    def specs(
        self,
        features: Mapping[str, Feature],
        settings: Settings,
        stacked: int | None,
        *,
        is_complex: bool = False,
    ) -> dict[str, schema.FeatureSpec]:
        """Every key of the examples.

        Args:
          features: by key.
          settings: what is kept.
          stacked: channels of an example, or None where it is of one.
          is_complex: whether samples are complex; of these both parts are stored.
        """
        small = dict(self.small)
        if self.has_label:
            small["label"] = "int64"
        if self.has_times:
            small["start_time_ns"] = "int64"
        specs = schema.context_specs(small, channel=stacked is None)
        front = () if stacked is None else (stacked,)
        for key, spec in frontend.feature_specs(features).items():
            specs[key] = dataclasses.replace(spec, shape=(*front, *spec.shape))
        waveform = (*front, settings.segment_length, *([2] if is_complex else []))
        if settings.keep_waveform:
            specs["waveform"] = schema.FeatureSpec(settings.keep_waveform, waveform)
        if self.paired:
            specs["target_waveform"] = schema.FeatureSpec("float32", waveform)
        for key, values in self.vectors.items():
            if len(values):
                specs[key] = schema.FeatureSpec("float32", (len(values[0]),))
        return dict(sorted(specs.items()))

    def arrow_types(self) -> tuple[pa.StructType, pa.StructType]:
        """Types of a block's context and vectors."""
        small = {key: _ARROW[dtype] for key, dtype in self.small.items()}
        vectors = [(key, pa.list_(pa.float32())) for key in sorted(self.vectors)]
        return pa.struct(sorted(small.items())), pa.struct(vectors)


def context_of(
    recordings: Sequence[Recording],
    columns: Sequence[str],
    label_names: Sequence[str],
    settings: Settings,
    *,
    labelled: bool,
    has_times: bool,
) -> Context:
    """Gathers what the settings ask for of the usable recordings.

    Args:
      recordings: the usable ones.
      columns: of the manifest, or ().
      label_names: the classes.
      settings: carry, target_columns.
      labelled: whether examples have a label.
      has_times: whether any start time is known.

    Raises:
      SettingsError: a field that is asked for is nowhere, or its name is taken.
    """
    facts = Facts(settings)
    known = [facts.fields(recording) for recording in recordings] if settings.carry else []
    values: dict[str, list[Any]] = {}
    small: dict[str, str] = {}
    warnings: list[str] = []
    taken = schema.RESERVED | set(frontend.feature_settings(settings))
    for name in settings.carry:
        if name in taken:
            raise SettingsError(
                f"carry={name}: the key is taken by something else in an example: rename the column"
            )
        given = [fields.get(name) for fields in known]
        small[name], values[name] = _column(name, given)
        if lacking := given.count(None):
            stored = "NaN" if small[name] == "float32" else "an empty text"
            warnings.append(
                f"carry={name}: {counted(lacking, 'recording')} without a value, stored as {stored}"
            )
    vectors: dict[str, Sequence[tuple[float, ...]]] = {}
    if settings.target_columns:
        vectors["target"] = [_target(recording, settings) for recording in recordings]
    if "labels" in columns:
        index = {name: place for place, name in enumerate(label_names)}
        vectors["labels"] = [_multi_hot(recording.said.labels or (), index) for recording in recordings]
    return Context(
        small=small,
        has_label=labelled,
        values=values,
        vectors=vectors,
        has_times=has_times,
        paired="target" in columns,
        warnings=warnings,
    )


def _column(name: str, given: list[Any]) -> tuple[str, list[Any]]:
    """The narrowest type that holds all values, and the values in it."""
    present = [value for value in given if value is not None]
    if given and not present:
        raise SettingsError(
            f"carry={name}: no recording has such a field: name a manifest column, a path group or an attribute"
        )
    if len(present) == len(given) and all(_as_int(value) is not None for value in present):
        return "int64", [_as_int(value) for value in given]
    if all(_fits_float32(value) for value in present):
        return "float32", [math.nan if value is None else _as_float(value) for value in given]
    return "bytes", [
        b"" if value is None else str(value).encode("utf-8", "surrogateescape") for value in given
    ]


def _as_int(value: Any) -> int | None:
    if isinstance(value, (bool, int)):
        return int(value) if -(2**63) <= int(value) < 2**63 else None
    if (
        isinstance(value, str)
        and len(value) < 20
        and value.removeprefix("-").isdecimal()
        and value == str(int(value))
    ):
        return _as_int(int(value))
    return None


def _as_float(value: Any) -> float | None:
    if isinstance(value, str) and value[:1] == "0" and value[1:].isdecimal() and len(value) > 1:
        return None  # such as 007, which is a name
    return _number(value)


def _fits_float32(value: Any) -> bool:
    """Whether it is a number that float32 holds: a fraction is rounded, a whole number must not be."""
    number = _as_float(value)
    if number is None:
        return False
    is_whole = isinstance(value, int) or _as_int(value) is not None
    return not is_whole or (math.isfinite(number) and int(np.float32(number)) == int(value))


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _target(recording: Recording, settings: Settings) -> tuple[float, ...]:
    numbers: list[float] = []
    for name in settings.target_columns:
        value = recording.said.fields.get(name)
        for each in value if isinstance(value, (list, tuple)) else [value]:
            number = None if each is None else _number(each)
            numbers.append(math.nan if number is None else number)
    return tuple(numbers)


def _multi_hot(labels: Sequence[str], index: Mapping[str, int]) -> tuple[float, ...]:
    vector = [0.0] * len(index)
    for label in labels:
        if label in index:
            vector[index[label]] = 1.0
    return tuple(vector)


def usual_target(recordings: Iterable[Recording], settings: Settings) -> int:
    """Numbers in the target vectors of most recordings."""
    return min(multimode(len(_target(recording, settings)) for recording in recordings), default=0)


def with_target(length: int, settings: Settings) -> Step:
    """The step that leaves out a recording whose target vector lacks a number or has not the usual length."""

    def step(recording: Recording) -> Recording:
        target = _target(recording, settings)
        if len(target) == length and np.isfinite(np.array(target, np.float32)).all():
            return recording
        raise RejectError(
            Reason.TARGET_MISMATCH,
            f"target_columns={','.join(settings.target_columns)} give {list(target)}, and {length} finite numbers are "
            "expected: correct its row in the manifest",
        )

    return step

"""What is known about recordings: labels, and fields for splits and examples."""

from __future__ import annotations

import dataclasses
import fnmatch
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal

import pydantic

from ..transforms.declare import Words, setting, settings_group
from ..transforms.rejects import Reason, RejectError, text
from .recording import Recording, Step

_KINDS = ("path", "member", "file", "sidecar")


def _pattern(value: str) -> re.Pattern[str]:
    try:
        return re.compile(value)
    except re.error as error:
        raise ValueError(f"{value!r} is no regular expression: {error}") from None


@settings_group
class LabelSettings:
    """Where labels and other facts about recordings come from."""

    manifest: str | None = setting(
        None,
        "CSV, JSONL or Parquet file with a row for each recording or part of one: uri, and any of channel, start, end, "
        "label, labels, split, group, sample_rate, scale, unit, sensitivity, id, start_time, target",
        content=False,
        metavar="FILE",
    )
    manifest_rows: Literal["regions", "labels"] = setting(
        "regions",
        "rows with start and end: regions are cut into segments each on its own; labels go to the segments that they "
        "cover most of",
    )
    manifest_times: Literal["auto", "samples", "seconds"] = setting(
        "auto",
        "start and end of a manifest; auto: seconds where any of them is a fraction or written with a decimal point",
    )
    label_from: str | None = setting(
        None,
        "where labels come from: path:REGEX or member:REGEX with a group (?P<label>…), file:NAME of an attribute, "
        "variable, key or column, or sidecar:NAME; not needed where the manifest has a column label",
        metavar="path:REGEX|…",
    )
    fields_from: str | None = setting(
        None,
        "path:REGEX whose named groups are fields of a recording, for split_by, splits and carry; those of label_from "
        "are, too",
        metavar="path:REGEX",
    )
    label_names: Words = setting(
        (), "all classes, in their order; those found, sorted, if not given", metavar="NAME,…"
    )
    missing_label: Literal["reject", "keep"] = setting(
        "reject",
        "recordings without a label, or with one not in label_names: reject them, or keep them as -1",
    )
    carry: Words = setting(
        (), "fields that go into the examples: manifest columns, path groups, attributes", metavar="NAME,…"
    )
    target_columns: Words = setting(
        (), "manifest columns of numbers that make up the float vector target", metavar="NAME,…"
    )

    @pydantic.field_validator("label_names", "carry", "target_columns")
    @classmethod
    def _check_once(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        twice = next((name for name in value if value.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"{twice!r} stands there twice: leave one out")
        return value

    @pydantic.field_validator("label_from")
    @classmethod
    def _check_label_from(cls, value: str | None) -> str | None:
        if value is None:
            return None
        kind, colon, rest = value.partition(":")
        if kind not in _KINDS or not colon or not rest:
            raise ValueError(
                f"{value!r} must begin with path: or member: and a regular expression, or file: or sidecar: and a name"
            )
        if kind in ("path", "member") and "label" not in _pattern(rest).groupindex:
            raise ValueError(f"{rest!r} has no group (?P<label>…)")
        return value

    @pydantic.field_validator("fields_from")
    @classmethod
    def _check_fields_from(cls, value: str | None) -> str | None:
        if value is not None:
            kind, _, rest = value.partition(":")
            if kind != "path":
                raise ValueError(f"{value!r} must begin with path: and a regular expression")
            if not _pattern(rest).groupindex:
                raise ValueError(f"{rest!r} has no named group such as (?P<speaker>…)")
        return value


class Facts:
    """Fields and labels of recordings, as the settings find them."""

    def __init__(self, settings: LabelSettings):
        self._settings = settings
        kind, _, rest = (settings.label_from or "").partition(":")
        self._kind = kind
        self._name = rest
        self._label = _pattern(rest) if kind in ("path", "member") else None
        fields = (settings.fields_from or "").partition(":")[2]
        self._fields = _pattern(fields) if fields else None

    def fields(self, recording: Recording) -> dict[str, Any]:
        """Everything known by name: what the file says, then path groups, then manifest and sidecar."""
        known: dict[str, Any] = dict(recording.description.attributes)
        for pattern in (self._label if self._kind == "path" else None, self._fields):
            found = pattern and _search(pattern, recording)
            if found:
                known |= {name: value for name, value in found.groupdict().items() if value is not None}
        return known | dict(recording.said.fields)

    def label(self, recording: Recording) -> str | None:
        """The recording's class name: the manifest's, where it says one, else by label_from."""
        if recording.said.label is not None:
            return recording.said.label
        if self._kind == "sidecar":
            return _word(recording.said.fields.get(self._name))
        if self._kind == "file":
            return _word(_lookup(recording.description.attributes, self._name))
        if self._label is None:
            return None
        if self._kind == "member":
            found = self._label.search(recording.description.member or "")
        else:
            found = _search(self._label, recording)
        return (found["label"] or None) if found else None


def _search(pattern: re.Pattern[str], recording: Recording) -> re.Match[str] | None:
    """In the path; where it is not there, in the whole id, with its member."""
    return pattern.search(text(recording.found.recording)) or pattern.search(text(recording.id))


def _lookup(attributes: Mapping[str, Any], name: str) -> Any:
    if name in attributes:
        return attributes[name]
    return next((attributes[key] for key in sorted(attributes) if fnmatch.fnmatchcase(key, name)), None)


def _word(value: Any) -> str | None:
    if value is None or value == "":
        return None
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def has_labels(settings: LabelSettings, columns: Sequence[str], recordings: Sequence[Recording]) -> bool:
    """Whether examples have a label.

    Args:
      settings: where labels come from.
      columns: of the manifest.
      recordings: some may be examples of a dataset that has labels.
    """
    if settings.label_from is not None or "label" in columns:
        return True
    return any(recording.origin is not None and recording.said.label is not None for recording in recordings)


def with_label(settings: LabelSettings, *, labelled: bool = True) -> Step:
    """The step that gives a recording its label, where examples have one, and holds labels against label_names."""
    facts = Facts(settings)
    wanted = frozenset(settings.label_names)
    keep = settings.missing_label == "keep"

    def step(recording: Recording) -> Recording:
        if labelled and recording.intervals is not None:
            recording = _known_intervals(recording, wanted)
        elif labelled:
            label = facts.label(recording)
            if label is None and not keep:
                raise RejectError(Reason.LABEL_MISSING, _missing(settings))
            recording = dataclasses.replace(recording, label=label)
        if not wanted:
            return recording  # every label is one
        words = (*(recording.said.labels or ()), *([] if recording.label is None else [recording.label]))
        strange = next((word for word in words if word not in wanted), None)
        if strange is not None and not keep:
            raise RejectError(Reason.LABEL_UNKNOWN, _unknown(strange, settings))
        return recording if recording.label in wanted else dataclasses.replace(recording, label=None)

    return step


def _known_intervals(recording: Recording, wanted: frozenset[str]) -> Recording:
    assert recording.intervals is not None
    if not wanted:
        return recording
    kept = tuple(each for each in recording.intervals if each.label in wanted)
    return dataclasses.replace(recording, intervals=kept)


def _unknown(label: str, settings: LabelSettings) -> str:
    names = ", ".join(settings.label_names[:20])
    return f"label {label!r} is not among label_names={names}: add it, or correct it"


def _missing(settings: LabelSettings) -> str:
    if settings.label_from is None:
        return f"its row in manifest={settings.manifest} has no label: add one, or set missing_label=keep"
    return (
        f"label_from={settings.label_from} finds no label: mend the expression, leave the file out, or set "
        "missing_label=keep"
    )


def class_names(found: Collection[str], settings: LabelSettings) -> list[str]:
    """All classes: as given, or those found, sorted."""
    return list(settings.label_names) or sorted(found)

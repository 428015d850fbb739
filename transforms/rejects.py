"""Why a recording or segment did not become an example: reasons, lines, JSON."""

from __future__ import annotations

import dataclasses
import enum
import json
import re
from collections.abc import Iterable


class Reason(str, enum.Enum):
    """One code a cause; counters and `rejects.jsonl` use the value."""

    EMPTY = "empty"
    NOT_A_FILE = "not_a_file"
    UNREADABLE = "unreadable"
    VANISHED = "vanished"
    CHANGED = "changed"
    PARTIAL_FRAME = "partial_frame"
    UNKNOWN_FORMAT = "unknown_format"
    BAD_FORMAT = "bad_format"
    TRUNCATED = "truncated"
    CORRUPT = "corrupt"
    TOO_LARGE = "too_large"
    NO_MEMBER = "no_member"
    AMBIGUOUS_AXES = "ambiguous_axes"
    COMPLEX_SAMPLES = "complex_samples"
    CHANNEL_MISMATCH = "channel_mismatch"
    BAD_SIDECAR = "bad_sidecar"
    NOT_FOUND = "not_found"
    TOO_SHORT = "too_short"
    RATE_MISMATCH = "rate_mismatch"
    RATE_INVALID = "rate_invalid"
    LABEL_MISSING = "label_missing"
    LABEL_UNKNOWN = "label_unknown"
    TARGET_MISMATCH = "target_mismatch"
    PAIR_MISMATCH = "pair_mismatch"
    DUPLICATE = "duplicate"
    BETWEEN_SPLITS = "between_splits"
    DTYPE_MISMATCH = "dtype_mismatch"
    NON_FINITE = "non_finite"


_ESCAPE = re.compile(r"\\x[89a-f][0-9a-f]")

# Causes outside the file's content: these may be gone when the run is started again.
PASSING = frozenset({Reason.UNREADABLE, Reason.VANISHED, Reason.CHANGED, Reason.NOT_A_FILE})


class RejectError(ValueError):
    """A recording or range of it that cannot be used. Only this and `OSError` become rejects; a bug never does.

    Args:
      reason: the code.
      message: what is wrong, the value, the rule, the cure.
      member: the member of a container that cannot be used, or None where it is the whole file.
    """

    def __init__(self, reason: Reason, message: str, member: str | None = None):
        super().__init__(message)
        self.reason = reason
        self.member = member


@dataclasses.dataclass(frozen=True)
class Reject:
    """One rejected recording, or some segments of it.

    Attributes:
      recording: the id, bytes as on disk.
      stage: match, plan, read or compute.
      reason: the code.
      message: what is wrong, the value, the rule, the cure.
      segments: how many planned segments it cost; 0 before planning.
      where: (channel, start) of those segments; only the first ten are written.
    """

    recording: bytes
    stage: str
    reason: Reason
    message: str
    segments: int = 0
    where: tuple[tuple[int, int], ...] = ()

    def to_json(self) -> dict:
        """The line in `rejects.jsonl` and in a shard's sidecar."""
        return {
            "recording": text(self.recording),
            "stage": self.stage,
            "reason": self.reason.value,
            "message": self.message,
            "segments": self.segments,
            "where": [list(pair) for pair in self.where[:10]],
        }


def text(name: bytes) -> str:
    """A file name as text, different for different names.

    Bytes that are not UTF-8 are shown as escapes, \\xff; in such a name, and in one that really holds those
    characters, backslashes are doubled, so that the two differ.
    """
    try:
        valid = name.decode()
    except UnicodeDecodeError:
        return name.replace(b"\\", b"\\\\").decode("utf-8", "backslashreplace")
    return valid.replace("\\", "\\\\") if _ESCAPE.search(valid) else valid


def merge(lines: Iterable[dict]) -> list[dict]:
    """One line a recording, stage and reason, sorted: a recording's shards each report their part."""
    merged: dict[tuple, dict] = {}
    for line in lines:
        key = (line["recording"], line["stage"], line["reason"])
        if key in merged:
            known = merged[key]
            known["segments"] += line["segments"]
            known["where"] = known["where"] + line["where"]
            known["message"] = min(known["message"], line["message"])
        else:
            merged[key] = dict(line)
    for line in merged.values():
        line["where"] = sorted(line["where"])[:10]
    return [merged[key] for key in sorted(merged)]


def to_lines(lines: Iterable[dict]) -> str:
    """The text of `rejects.jsonl`."""
    return "".join(json.dumps(line, ensure_ascii=False, sort_keys=True) + "\n" for line in lines)

"""Plans of headerless files that are not there: planning them opens nothing."""

from __future__ import annotations

from spectrabeam.pipeline.match import Found, Matches
from spectrabeam.pipeline.plan import Plan, make_plan
from spectrabeam.pipeline.settings import Settings
from spectrabeam.transforms.rejects import Reason, Reject

SEGMENT_LENGTH = 64


def found(*names: str | bytes, frames: int = SEGMENT_LENGTH) -> list[Found]:
    """Matched files of `frames` float32 samples, sorted."""
    encoded = [name if isinstance(name, bytes) else name.encode() for name in names]
    return [Found(name, b"/not/there/" + name, 4 * frames, 5, "raw") for name in sorted(encoded)]


def names(count: int) -> list[str]:
    """Names of `count` files, in order."""
    return [f"r{number:05d}.raw" for number in range(count)]


def settings(**values: object) -> Settings:
    """Settings for these files."""
    return Settings(**{"raw_dtype": "<f4", "sample_rate": 1e3, "segment_length": SEGMENT_LENGTH} | values)


def plan(
    files: list[Found],
    rejects: tuple[Reject, ...] | list[Reject] = (),
    left_out: dict[str, int] | None = None,
    **values: object,
) -> Plan:
    """The plan of matched files, with settings."""
    return make_plan(Matches(files, list(rejects), left_out or {}), settings(**values))


def split_of(result: Plan) -> dict[str, str | None]:
    """Recording to split, as in the ledger."""
    return dict(zip(*(result.recordings.column(key).to_pylist() for key in ("id", "split")), strict=True))


def rejected(result: Plan) -> list[tuple[bytes, Reason, str]]:
    """Recording, reason and message of each reject."""
    return [(reject.recording, reject.reason, reject.message) for reject in result.rejects]


def segments_of(result: Plan) -> dict[str, dict[str, int]]:
    """Split to label to planned segments, counted in the parts; the label is "" where there is none."""
    table: dict[str, dict[str, int]] = {}
    for shard in result.shards:
        counts = table.setdefault(shard.name.split, {})
        for row in result.part(shard).to_pylist():
            label = row["label"]
            name = "" if label is None or result.label_names is None else result.label_names[label]
            counts[name] = counts.get(name, 0) + row["count"]
    return table


def order_of(result: Plan) -> list[bytes]:
    """The recording of each block, in the order of the shards."""
    return [name for shard in result.shards for name in result.part(shard).column("recording").to_pylist()]

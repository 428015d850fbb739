"""The output folder: whose it is, one writer at a time, what an earlier attempt left, starting over."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..transforms import parts
from ..transforms.dataset import (
    METADATA,
    Dataset,
    DatasetError,
    Layout,
    ShardName,
    load_dataset,
    read_json,
    write_json,
)
from ..transforms.normalization import save_normalization
from ..transforms.rejects import PASSING
from ..transforms.write import checksum
from .about import about_of
from .plan import Plan
from .settings import Settings, content_settings, differences, fingerprint, stored_settings

_SAVED_MODEL = {
    "assets",
    "variables",
    "saved_model.pb",
    "fingerprint.pb",
    "assets.extra",
    "keras_metadata.pb",
}
_WORK_FOLDERS = {"plan", "shards", "tmp"}
_DOCUMENTS = {
    "README.md",
    "croissant.json",
    "features.json",
    "label.labels.txt",
    "recordings.parquet",
    "rejects.jsonl",
    "runs.jsonl",
    "schema.pbtxt",
    "statistics.npz",
}


class FolderError(ValueError):
    """The output folder cannot be used; the message says why and what to do."""


@dataclasses.dataclass(frozen=True)
class Work:
    """What is left to do in a folder.

    Attributes:
      todo: numbers of the shards to make.
      kept: shards that an earlier attempt finished.
      committed: the dataset is there and is what this run would make.
      note: what the user should know about it.
    """

    todo: list[int]
    kept: list[ShardName]
    committed: bool
    note: str = ""


@contextlib.contextmanager
def claim(layout: Layout) -> Iterator[None]:
    """Holds the folder's lock; a killed process frees it.

    Raises:
      FolderError: the folder holds other things, cannot be written, or another process is writing to it.
    """
    refuse_others(layout)
    try:
        for folder in (layout.root, layout.work, layout.plan, layout.sidecars, layout.temporary):
            os.makedirs(folder, exist_ok=True)
        handle = os.open(layout.lock, os.O_RDWR | os.O_CREAT, 0o666)
    except OSError as error:
        raise FolderError(f"output={layout.root} cannot be written: {error.strerror}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(handle, 100).decode("ascii", "replace").strip()
            raise FolderError(
                f"output={layout.root} is being written by another run ({owner or 'unknown'}): wait for it, or choose another folder"
            ) from None
        os.ftruncate(handle, 0)
        os.write(handle, f"process {os.getpid()} on {os.uname().nodename}\n".encode())
        yield
    finally:
        os.close(handle)


def refuse_others(layout: Layout) -> None:
    """Refuses a folder that holds files but was not made by this program.

    Raises:
      FolderError: it is one, or no folder at all.
    """
    try:
        entries = os.listdir(layout.root)
    except FileNotFoundError:
        return
    except NotADirectoryError:
        raise FolderError(f"output={layout.root} is a file: name a folder") from None
    except OSError as error:
        raise FolderError(f"output={layout.root} cannot be read: {error.strerror}") from None
    if entries and not _is_ours(layout, entries):
        raise FolderError(
            f"output={layout.root} holds other files ({sorted(entries)[0]} …) and was not made by spectrabeam: "
            "name an empty or a new folder"
        )
    frontend = set(os.listdir(layout.frontend)) if os.path.isdir(layout.frontend) else set()
    if frontend - _SAVED_MODEL:
        raise FolderError(
            f"{layout.frontend} holds files that are not ours: move them, or name another folder"
        )


def _is_ours(layout: Layout, entries: list[str]) -> bool:
    """Whether a folder bears this program's marks: its lock, metadata that it wrote, or the start of a claim."""
    if os.path.exists(layout.lock):
        return True
    work = os.path.basename(layout.work)
    if entries == [work] and os.path.isdir(layout.work):
        return set(os.listdir(layout.work)) <= _WORK_FOLDERS | {os.path.basename(layout.lock)}
    try:
        return "format_version" in read_json(layout.metadata)
    except (OSError, DatasetError, TypeError):
        return False


def clear(layout: Layout) -> None:
    """Removes a dataset: first what makes it one, then files whose names are ours; nothing else."""
    for name in (METADATA, "dataset_info.json"):
        _remove(os.path.join(layout.root, name))
    _empty(layout.sidecars)
    for name in os.listdir(layout.root):
        if ShardName.parse(name) or name in _DOCUMENTS:
            _remove(os.path.join(layout.root, name))
    _remove(layout.frontend)
    _empty(layout.plan)
    _empty(layout.temporary)
    _remove(layout.outcome)


def prepare(layout: Layout, plan: Plan, settings: Settings) -> Work:
    """Writes the plan and finds what an earlier attempt finished of it.

    Raises:
      FolderError: a dataset or finished shards of other settings, or a dataset of another input, are there.
    """
    content = content_settings(settings)
    if os.path.exists(layout.metadata):
        dataset = _same_dataset(layout, plan, settings, content)
        if _is_whole(dataset) and dataset.metadata.get("about") == about_of(settings):
            return Work(
                [], [shard.name for shard in plan.shards], committed=True, note=_modified(layout, plan)
            )
        _remove(layout.metadata)  # a shard is missing, or something else is said: what follows makes it again
    _refuse_other_settings(layout, plan, settings, content)
    _remove(layout.outcome)
    _empty(layout.temporary)
    _empty(
        layout.plan, keep=layout.plan_summary
    )  # names the settings of finished shards until the new one is there
    digests = [parts.write_part(layout.plan_part(n), s.name, plan.part(s)) for n, s in enumerate(plan.shards)]
    pq.write_table(plan.recordings, layout.plan_recordings)
    if plan.normalization:
        save_normalization(layout.plan_normalization, plan.normalization)
    write_json(layout.plan_summary, _summary(plan, settings, digests), layout.temporary)
    settings_name = plan.fingerprint(settings)
    with ThreadPoolExecutor() as pool:
        checks = [
            pool.submit(_is_finished, layout, shard.name, shard.segments, digest, settings_name)
            for shard, digest in zip(plan.shards, digests, strict=True)
        ]
    finished = {number for number, check in enumerate(checks) if check.result()}
    kept = [plan.shards[number].name for number in sorted(finished)]
    _remove_stale(layout, set(kept))
    return Work([n for n in range(len(plan.shards)) if n not in finished], kept, committed=False)


def _summary(plan: Plan, settings: Settings, digests: list[str]) -> dict[str, Any]:
    """What Finalize needs to know, beside the parts and the ledger."""
    return {
        "settings": stored_settings(settings),
        "fingerprint": plan.fingerprint(settings),
        "normalized_by": plan.normalized_by,
        "features": {name: spec.to_json() for name, spec in plan.specs.items()},
        "splits": plan.splits,
        "shards": [
            {
                "shard": str(shard.name),
                "file": shard.name.file_name,
                "segments": shard.segments,
                "digest": digest,
            }
            for shard, digest in zip(plan.shards, digests, strict=True)
        ],
        "plan": plan_digest(plan, digests),
        "rejects": [reject.to_json() for reject in plan.rejects],
        "left_out": plan.left_out,
        "label_names": plan.label_names,
        "sample_rate": plan.sample_rate,
        "is_complex": plan.is_complex,
        "unit": plan.unit,
        "resampled": plan.resampled,
        "warnings": plan.warnings,
        "segments": plan.segments,
    }


def plan_digest(plan: Plan, digests: list[str]) -> str:
    """Names the whole input as planned: every part, and every reject."""
    rejects = [[reject.to_json()["recording"], reject.reason.value] for reject in plan.rejects]
    groups = plan.recordings.column("group").to_pylist()
    said = {"labels": plan.label_names, "unit": plan.unit, "groups": fingerprint({"groups": groups})}
    if plan.is_complex:
        said["is_complex"] = True
    return fingerprint({"shards": digests, "rejects": rejects, **said})


def _modified(layout: Layout, plan: Plan) -> str:
    """A note where files of the same size were written to since; their content was not compared."""
    try:
        old = pq.read_table(layout.ledger, columns=["modified"]).column("modified")
    except (OSError, ValueError):
        return ""
    new = plan.recordings.column("modified")
    same = pc.or_(pc.fill_null(pc.equal(old, new), False), pc.and_(pc.is_null(old), pc.is_null(new)))
    changed = pc.sum(pc.invert(same)).as_py() or 0
    return (
        f"; {changed:,} files have another modification time than then: --overwrite reads them again"
        if changed
        else ""
    )


def _is_whole(dataset: Dataset) -> bool:
    """Whether every shard of a committed dataset is there in its full length."""
    shards = [shard for shards in dataset.splits.values() for shard in shards]
    try:
        return all(
            os.stat(os.path.join(dataset.layout.root, shard["file"])).st_size == shard["bytes"]
            for shard in shards
        )
    except FileNotFoundError:
        return False


def _same_dataset(layout: Layout, plan: Plan, settings: Settings, content: Mapping[str, Any]) -> Dataset:
    """The committed dataset, which must be what this plan makes.

    Raises:
      FolderError: it is damaged, or another; the message says in what.
    """
    try:
        dataset = load_dataset(layout.root)
    except DatasetError as error:
        raise FolderError(f"{error}; --overwrite starts over") from None
    stored = {name: value for name, value in dataset.metadata["settings"].items() if name in content}
    if changed := differences(stored, content):
        raise FolderError(
            f"output={layout.root} was made with other settings ({'; '.join(changed)}): use the same, another folder, or --overwrite"
        )
    _refuse_other_normalization(layout, dataset.metadata, plan, settings)
    if bool(dataset.metadata.get("is_complex")) != plan.is_complex:
        kinds = "complex", "real"
        before, now = kinds if dataset.metadata.get("is_complex") else kinds[::-1]
        raise FolderError(
            f"output={layout.root} was made of {before} samples, and these are {now}: use another folder, or --overwrite"
        )
    if dataset.metadata["fingerprint"] != plan.fingerprint(settings):
        raise FolderError(
            f"output={layout.root} was made by a version of spectrabeam that computes otherwise: "
            "use another folder, or --overwrite"
        )
    digests = [parts.digest(shard.name, plan.part(shard)) for shard in plan.shards]
    if dataset.metadata["plan"] == plan_digest(plan, digests):
        return dataset
    try:
        ledger = pq.read_table(layout.ledger, columns=plan.recordings.column_names)
    except (OSError, ValueError) as error:
        raise FolderError(f"{layout.ledger} cannot be read ({error}): --overwrite starts over") from None
    raise FolderError(
        f"output={layout.root} was made from another input ({_change(ledger, plan.recordings)}): "
        "use another folder, or --overwrite to start over"
    )


def _change(old: pa.Table, new: pa.Table) -> str:
    """How many recordings came and went, or in what the same ones differ."""
    few = ["id", "size", "frames", "label", "segments_planned"]
    before, after = ({tuple(row.values()) for row in table.select(few).to_pylist()} for table in (old, new))
    if before != after:
        return f"+{len(after - before)} −{len(before - after)} recordings"
    differing = [
        name
        for name in ("dtype", "sample_rate", "channels", "unit", "start_time", "group", "split")
        if not old.column(name).equals(new.column(name))
    ]
    return f"the same recordings with another {', '.join(differing) or 'target, channel, or carried field'}"


def _refuse_other_normalization(
    layout: Layout, stored: Mapping[str, Any], plan: Plan, settings: Settings
) -> None:
    """Refuses a dataset, or a plan of one, whose features are normalised by other statistics, or not at all."""
    if stored.get("normalized_by") == plan.normalized_by:
        return
    before = stored["settings"].get("normalize_with")
    told, cure = "was not normalised", "leave normalize_with out"
    if before:
        changed = before == stored_settings(settings)["normalize_with"]
        told = (
            f"was normalised by the statistics of {before}{', which have changed since' if changed else ''}"
        )
        cure = f"set normalize_with={before}" if not changed else "restore them"
    raise FolderError(f"output={layout.root} {told}: {cure}, or use another folder, or --overwrite")


def _refuse_other_settings(
    layout: Layout, plan: Plan, settings: Settings, content: Mapping[str, Any]
) -> None:
    if not any(os.scandir(layout.sidecars)):
        return
    try:
        summary = read_json(layout.plan_summary)
        stored = {name: value for name, value in summary["settings"].items() if name in content}
    except (OSError, DatasetError, KeyError, TypeError, AttributeError):
        return  # missing or damaged: shards of other settings bear another fingerprint and are made again
    if changed := differences(stored, content):
        raise FolderError(
            f"output={layout.root} holds an unfinished run with other settings ({'; '.join(changed)}): "
            "use the same to finish it, another folder, or --overwrite"
        )
    _refuse_other_normalization(layout, summary, plan, settings)


def _is_finished(layout: Layout, shard: ShardName, segments: int, digest: str, settings: str) -> bool:
    """Whether a shard is there as planned, byte for byte, and none of its rejects may have passed since."""
    try:
        sidecar = read_json(layout.sidecar(shard))
        same = (sidecar["digest"], sidecar["settings"]) == (digest, settings)
        rejected = sum(reject["segments"] for reject in sidecar["rejects"])
        same = same and sidecar["examples"] + rejected == segments and "computed_by" in sidecar
        same = same and checksum(layout.shard(shard)) == (sidecar["bytes"], sidecar["crc32c"])
        same = same and checksum(layout.shard_statistics(shard)) == tuple(sidecar["statistics"])
        causes = {reject["reason"] for reject in sidecar["rejects"]}
    except (OSError, DatasetError, KeyError, TypeError):
        return False
    return same and not (causes & {reason.value for reason in PASSING})


def _remove_stale(layout: Layout, kept: set[ShardName]) -> None:
    """Removes shards and sidecars that are not part of the plan as it is now."""
    names = {str(shard) + suffix for shard in kept for suffix in (".json", ".npz")}
    for name in os.listdir(layout.sidecars):
        if name not in names:
            _remove(os.path.join(layout.sidecars, name))
    for name in os.listdir(layout.root):
        shard = ShardName.parse(name)
        if shard is not None and shard not in kept:
            _remove(os.path.join(layout.root, name))


def _empty(folder: str, keep: str | None = None) -> None:
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if path != keep:
            _remove(path)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
        return
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)

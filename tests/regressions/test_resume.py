"""Runs that were killed, and shards and sidecars that are not what they should be."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.pipelines import extract, hashes, metadata, read_examples, rejects, run
from tests.helpers.processes import (
    LIMIT_S,
    after_planning,
    extract_arguments,
    identities,
    run_and_kill,
)
from tests.helpers.signals import noise, write_raw, write_recordings

SIX = ("--splits", "all=1", "--num-shards", "6")
NONE, ALL = ("--max-reject-fraction", "0"), ("--max-reject-fraction", "1")
OURS = {
    "spectrabeam.json", "recordings.parquet", "rejects.jsonl", "runs.jsonl", "statistics.npz", "frontend", ".spectrabeam",
    "README.md", "croissant.json", "dataset_info.json", "features.json", "label.labels.txt", "schema.pbtxt",
}  # fmt: skip


def sidecars(dataset: Path) -> list[str]:
    """Names of finished shards, as the folder tells."""
    folder = dataset / ".spectrabeam" / "shards"
    return sorted(path.name for path in folder.glob("*.json")) if folder.exists() else []


def finished(dataset: Path) -> dict[str, tuple[int, int]]:
    """The identities of the shards that have a sidecar."""
    done = {f"spectrabeam-{name[: -len('.json')]}.tfrecord" for name in sidecars(dataset)}
    return {name: identity for name, identity in identities(dataset).items() if name in done}


def assert_tidy(dataset: Path) -> None:
    """Nothing is in the folder but what the layout and the metadata name, and nothing is half done."""
    shards = {shard["file"] for split in metadata(dataset)["splits"].values() for shard in split["shards"]}
    assert {path.name for path in dataset.iterdir()} - OURS == shards
    assert not list((dataset / ".spectrabeam" / "tmp").iterdir())
    assert len(sidecars(dataset)) == len(shards)
    assert len(list((dataset / ".spectrabeam" / "shards").iterdir())) == 2 * len(shards)
    assert run("verify", dataset).code == 0


@pytest.fixture
def unfinished(tmp_path):
    """A run with all its six shards but without commit, by one reject too many; and what it is to become."""
    write_recordings(tmp_path / "source", 24)
    (tmp_path / "source" / "empty.raw").touch()
    extract(tmp_path / "source", tmp_path / "out", *SIX, *NONE, code=3)
    extract(tmp_path / "source", tmp_path / "once", *SIX, *ALL)
    assert len(finished(tmp_path / "out")) == 6
    assert not (tmp_path / "out" / "spectrabeam.json").exists()
    return tmp_path


def finish(folder: Path) -> set[str]:
    """Runs again; returns the shards that were made again."""
    before = identities(folder / "out")
    extract(folder / "source", folder / "out", *SIX, *ALL)
    assert hashes(folder / "out") == hashes(folder / "once")
    assert_tidy(folder / "out")
    return {name for name, identity in identities(folder / "out").items() if before.get(name) != identity}


def test_a_rerun_with_all_shards_there_makes_none_again(unfinished):
    """B26: only the last step runs."""
    assert finish(unfinished) == set()


@pytest.mark.parametrize(
    "damage", ["cut by 10 bytes", "longer by 10 bytes", "emptied", "removed", "now a link to nothing"]
)
def test_a_damaged_shard_is_made_again_and_no_other(unfinished, damage):
    """B26: a file is not trusted because it exists."""
    path = unfinished / "out" / "spectrabeam-all-00003.tfrecord"
    if damage == "longer by 10 bytes":
        with path.open("ab") as file:
            file.write(bytes(10))
    elif damage.startswith(("cut", "emptied")):
        os.truncate(path, path.stat().st_size - 10 if damage.startswith("cut") else 0)
    else:
        path.unlink()
    if damage == "now a link to nothing":
        path.symlink_to("nowhere")
    assert finish(unfinished) == {path.name}


@pytest.mark.parametrize(
    "damage",
    [
        "removed", "emptied", "cut in half", "zeros", "no UTF-8", "another type", "a key missing",
        "another shard's", "of other settings", "of another plan",
    ],
)  # fmt: skip
def test_a_shard_with_a_damaged_sidecar_is_made_again_and_no_other(unfinished, damage):
    """B26: a file system that lost power leaves empty files, or files of zeros."""
    path = unfinished / "out" / ".spectrabeam" / "shards" / "all-00003.json"
    content = path.read_bytes()
    value = json.loads(content)
    if damage == "removed":
        path.unlink()
    elif damage == "another shard's":
        path.write_bytes(path.with_name("all-00002.json").read_bytes())
    elif damage == "a key missing":
        del value["digest"]
        path.write_text(json.dumps(value))
    elif damage == "of other settings":
        path.write_text(json.dumps(value | {"settings": "0" * 32}))
    elif damage == "of another plan":
        path.write_text(json.dumps(value | {"digest": "0" * 32}))
    else:
        path.write_bytes(
            {
                "emptied": b"",
                "cut in half": content[: len(content) // 2],
                "zeros": bytes(len(content)),
                "no UTF-8": b"\xff" + content,
                "another type": b"[]",
            }[damage]
        )
    assert finish(unfinished) == {"spectrabeam-all-00003.tfrecord"}


def test_a_damaged_plan_is_made_again(unfinished):
    """B26: the plan's own files are not trusted either."""
    plan = unfinished / "out" / ".spectrabeam" / "plan"
    for path in plan.glob("*.parquet"):
        path.write_bytes(b"")
    (plan / "plan.json").unlink()
    assert finish(unfinished) == set()


def test_leftovers_of_a_killed_writer_are_removed(unfinished):
    """B26: temporary files of a process that is no more, also folders."""
    temporary = unfinished / "out" / ".spectrabeam" / "tmp"
    (temporary / "all-00001.99999.tfrecord").write_bytes(b"half a record")
    (temporary / "frontend.99999" / "variables").mkdir(parents=True)
    (temporary / "frontend.99999" / "saved_model.pb").write_bytes(b"half a model")
    (unfinished / "out" / ".spectrabeam" / "shards" / "all-00001.json.99999.tmp").write_bytes(b"{")
    assert finish(unfinished) == set()


def test_a_flipped_byte_in_a_finished_shard_never_passes_verify(unfinished):
    """B26: a resume looks at lengths; what it cannot see, `verify` does."""
    path = unfinished / "out" / "spectrabeam-all-00003.tfrecord"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    extract(unfinished / "source", unfinished / "out", *SIX, *ALL)
    if hashes(unfinished / "out") != hashes(unfinished / "once"):
        result = run("verify", unfinished / "out")
        assert result.code == 1
        assert path.name in result.out


def test_other_settings_for_an_unfinished_run_are_refused_by_name(unfinished):
    """B26: a mixture of shards would be worse than none."""
    before = identities(unfinished / "out")
    refused = extract(unfinished / "source", unfinished / "out", *SIX, *ALL, "--epsilon", "0.001", code=2)
    assert "unfinished run with other settings" in refused.err
    assert "1e-06" in refused.err
    assert "0.001" in refused.err
    assert identities(unfinished / "out") == before


def test_threads_and_reject_fraction_are_no_other_settings(unfinished):
    """B26: the pair to it; what cannot change a byte may change between attempts."""
    before = identities(unfinished / "out")
    extract(unfinished / "source", unfinished / "out", *SIX, *ALL, "--read-threads", "5", "--device", "cpu")
    assert identities(unfinished / "out") == before
    assert hashes(unfinished / "out") == hashes(unfinished / "once")


def test_an_input_that_changed_before_the_commit_is_planned_again(unfinished):
    """B26: shards that hold a changed recording are made again, and equal ones are kept."""
    path = unfinished / "source" / "a" / "r004.raw"
    touched = {
        f"spectrabeam-all-{number:05d}.tfrecord"
        for number in range(6)
        if path.name in part_names(unfinished / "out", number)
    }
    assert len(touched) == 1
    write_raw(path, noise(200, 4))  # another size, as many segments
    before = identities(unfinished / "out")
    extract(unfinished / "source", unfinished / "out", *SIX, *ALL)
    after = identities(unfinished / "out")
    assert {name for name in after if after[name] != before[name]} == touched
    extract(unfinished / "source", unfinished / "again", *SIX, *ALL)
    assert hashes(unfinished / "out") == hashes(unfinished / "again")


def part_names(dataset: Path, number: int) -> set[str]:
    """Base names of the recordings in a part of the plan."""
    from spectrabeam.transforms.dataset import Layout
    from spectrabeam.transforms.parts import read_part

    blocks = read_part(Layout(str(dataset)).plan_part(number)).blocks()
    return {os.fsdecode(block.recording).rpartition("/")[2] for block in blocks}


def test_shards_that_lost_a_file_for_a_moment_are_made_again(tmp_path, monkeypatch):
    """B26: what was away when it was to be read, and is back, is no reject for ever."""
    paths = write_recordings(tmp_path / "source", 24)
    with monkeypatch.context() as patch:
        after_planning(patch, lambda: paths[3].rename(tmp_path / "away"))
        extract(tmp_path / "source", tmp_path / "out", *SIX, *NONE, code=3)
    assert [line["reason"] for line in rejects(tmp_path / "out")] == ["vanished"]
    (tmp_path / "away").rename(paths[3])
    before = identities(tmp_path / "out")
    extract(tmp_path / "source", tmp_path / "out", *SIX, *NONE)
    after = identities(tmp_path / "out")
    assert len([name for name in after if after[name] != before[name]]) == 1
    extract(tmp_path / "source", tmp_path / "once", *SIX, *NONE)
    assert hashes(tmp_path / "out") == hashes(tmp_path / "once")


# A process that is gone the moment before it would give a file its name.
_DIE_BEFORE_RENAME = """
import os, signal, sys
replace = os.replace
def dying(source, target, **keywords):
    if os.path.basename(os.fspath(target)) == sys.argv[1]:
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(source, target, **keywords)
os.replace = dying
from spectrabeam.pipeline.__main__ import main
sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "target",
    ["frontend", "dataset_info.json", "spectrabeam.json"],
)
def test_a_run_that_is_killed_before_a_rename_resumes_to_the_same_bytes(tmp_path, target):
    """B26: exactly at a moment at which something is half done."""
    write_recordings(tmp_path / "source", 24)
    killed = subprocess.run(
        [
            sys.executable, "-c", _DIE_BEFORE_RENAME, target,
            *extract_arguments(tmp_path / "source", tmp_path / "out", *SIX),
        ],
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not (tmp_path / "out" / "spectrabeam.json").exists()
    before = finished(tmp_path / "out")
    extract(tmp_path / "source", tmp_path / "out", *SIX)
    extract(tmp_path / "source", tmp_path / "once", *SIX)
    assert hashes(tmp_path / "out") == hashes(tmp_path / "once")
    assert identities(tmp_path / "out").items() >= before.items()
    assert_tidy(tmp_path / "out")


@pytest.mark.slow
def test_runs_that_are_killed_at_random_moments_end_with_the_same_bytes(tmp_path):
    """B26: killed three times in mid-run, then finished; what was finished is never touched again."""
    for number in range(3000):
        write_raw(tmp_path / "source" / f"{number % 10}" / f"r{number:04d}.raw", noise(4096, number % 50))
    settings = ("--segment-length", "4096", "--num-shards", "36")
    arguments = extract_arguments(tmp_path / "source", tmp_path / "out", *settings)
    chance = random.Random(26)
    kills, kept = 0, {}
    for _ in range(3):
        wanted = len(sidecars(tmp_path / "out")) + chance.randint(1, 6)
        if wanted > 30:  # hardly a moment is left
            break

        def is_time(wanted=wanted) -> bool:
            return len(sidecars(tmp_path / "out")) >= wanted

        kills += run_and_kill(arguments, is_time, delay_s=chance.uniform(0, 0.05))
        if (tmp_path / "out" / "spectrabeam.json").exists():
            break
        done = finished(tmp_path / "out")
        assert len(done) >= wanted
        assert run("verify", tmp_path / "out").code == 2
        time.sleep(0.01)  # another modification time, should a shard be written again
        assert done.items() >= kept.items()
        kept = done
    assert kills >= 2
    result = extract(tmp_path / "source", tmp_path / "out", *settings, "--device", "cpu")
    assert f"Kept        {len(kept)} shards" in result.out
    assert identities(tmp_path / "out").items() >= kept.items()
    extract(tmp_path / "source", tmp_path / "once", *settings, "--device", "cpu")
    assert hashes(tmp_path / "out") == hashes(tmp_path / "once")
    assert len(read_examples(tmp_path / "out")) == 3000
    assert_tidy(tmp_path / "out")
    attempts = [json.loads(line) for line in (tmp_path / "out" / "runs.jsonl").read_text().splitlines()]
    assert attempts[-1]["outcome"] == "done"
    assert attempts[-1]["shards_kept"] == len(kept)

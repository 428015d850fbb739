"""The set of files of a dataset: nothing stale, nothing stranded, nothing of anybody else's; compression as recorded."""

from __future__ import annotations

import errno
import json
import os
import threading
import zlib
from pathlib import Path

import pytest
import tensorflow as tf

from spectrabeam.pipeline import folder
from tests.helpers.pipelines import extract, hashes, metadata, read_examples, rejects, run
from tests.helpers.processes import after_planning, identities
from tests.helpers.signals import noise, write_raw, write_recordings

ONE_SPLIT = ("--splits", "all=1")
OURS = {
    "spectrabeam.json", "recordings.parquet", "rejects.jsonl", "runs.jsonl", "statistics.npz", "frontend", ".spectrabeam",
    "README.md", "croissant.json", "dataset_info.json", "features.json", "label.labels.txt", "schema.pbtxt",
}  # fmt: skip


def names(dataset: Path) -> set[str]:
    """Everything in the folder that the layout does not name, and the shards."""
    return {path.name for path in dataset.iterdir()} - OURS


def shards(dataset: Path) -> set[str]:
    """The shards that the metadata names."""
    return {shard["file"] for split in metadata(dataset)["splits"].values() for shard in split["shards"]}


def fail_rename(monkeypatch, what: str, error: int = errno.EIO) -> None:
    """Lets renames fail whose target's name holds `what`."""
    replace = os.replace

    def failing(source, target, **keywords):
        if what in os.path.basename(os.fspath(target)):
            raise OSError(error, os.strerror(error), target)
        return replace(source, target, **keywords)

    monkeypatch.setattr(os, "replace", failing)


@pytest.mark.parametrize(
    "what",
    [
        "spectrabeam-all-00002.tfrecord",
        "all-00002.json",
        "rejects.jsonl",
        "recordings.parquet",
        "frontend",
        "dataset_info.json",
        "croissant.json",
        "spectrabeam.json",
    ],
)
def test_a_rename_that_fails_fails_the_run_and_a_rerun_repairs_it(tmp_path, monkeypatch, what):
    """B14: never a green run with records in a temporary folder; afterwards nothing is left over."""
    write_recordings(tmp_path / "source", 20)
    settings = (*ONE_SPLIT, "--num-shards", "5")
    with monkeypatch.context() as patch:
        fail_rename(patch, what)
        result = extract(tmp_path / "source", tmp_path / "out", *settings, code=1)
    assert os.strerror(errno.EIO) in result.err
    assert result.err.count("\n") == 1
    assert not (tmp_path / "out" / "spectrabeam.json").exists()
    assert run("verify", tmp_path / "out").code == 2
    finished = identities(tmp_path / "out")
    finished.pop("spectrabeam-all-00002.tfrecord", None)
    extract(tmp_path / "source", tmp_path / "out", *settings)
    extract(tmp_path / "source", tmp_path / "once", *settings)
    assert hashes(tmp_path / "out") == hashes(tmp_path / "once")
    assert identities(tmp_path / "out").items() >= finished.items()
    assert names(tmp_path / "out") == shards(tmp_path / "out")
    assert not list((tmp_path / "out" / ".spectrabeam" / "tmp").iterdir())


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_full_disk_fails_the_run_and_rejects_nothing(tmp_path, monkeypatch, compression):
    """B14: an error of the output is no fault of a recording."""
    write_recordings(tmp_path / "source", 20)
    settings = (*ONE_SPLIT, "--num-shards", "4", "--compression", compression)

    def full(handle, pieces):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "writev", full)
        result = extract(tmp_path / "source", tmp_path / "out", *settings, code=1)
    assert os.strerror(errno.ENOSPC) in result.err
    assert not (tmp_path / "out" / "spectrabeam.json").exists()
    assert not list((tmp_path / "out").glob("*.tfrecord"))
    assert not list((tmp_path / "out" / ".spectrabeam" / "tmp").iterdir())
    extract(tmp_path / "source", tmp_path / "out", *settings)
    assert rejects(tmp_path / "out") == []
    assert len(read_examples(tmp_path / "out")) == 20


def test_a_write_that_takes_only_a_part_is_gone_on_with(tmp_path, monkeypatch):
    """B14: a system call may write less than it was given, without any error."""
    write_recordings(tmp_path / "source", 20)
    extract(tmp_path / "source", tmp_path / "whole")
    monkeypatch.setattr(os, "writev", lambda handle, pieces: os.write(handle, b"".join(pieces)[:777]))
    extract(tmp_path / "source", tmp_path / "parts")
    assert hashes(tmp_path / "parts") == hashes(tmp_path / "whole")


def test_a_shard_that_is_not_as_it_was_written_is_never_committed(tmp_path, monkeypatch):
    """B14: the commit looks at the files, not only at what was said about them."""
    write_recordings(tmp_path / "source", 20)
    finalize = "spectrabeam.pipeline.build.finalize"
    from spectrabeam.pipeline.build import finalize as commit

    def cut_and_commit(root, settings):
        with (Path(root) / "spectrabeam-all-00001.tfrecord").open("r+b") as file:
            file.truncate(100)
        return commit(root, settings)

    settings = (*ONE_SPLIT, "--num-shards", "4")
    with monkeypatch.context() as patch:
        patch.setattr(finalize, cut_and_commit)
        result = extract(tmp_path / "source", tmp_path / "out", *settings, code=1)
    assert "spectrabeam-all-00001.tfrecord does not fit: its length is 100" in result.err
    assert not (tmp_path / "out" / "spectrabeam.json").exists()
    extract(tmp_path / "source", tmp_path / "out", *settings)
    assert len(read_examples(tmp_path / "out")) == 20


def test_other_shard_counts_are_refused_and_overwriting_leaves_no_stale_shard(tmp_path):
    """B15: 8 rows in 4 shards, then in 2: a reader sees 8 rows, a glob sees 2 files."""
    write_recordings(tmp_path / "source", 8)
    output = tmp_path / "out"
    extract(tmp_path / "source", output, *ONE_SPLIT, "--num-shards", "4")
    assert len(names(output)) == 4
    before = hashes(output)
    refused = extract(tmp_path / "source", output, *ONE_SPLIT, "--num-shards", "2", code=2)
    assert "num_shards: 4 in the folder, 2 now" in refused.err
    assert "--overwrite" in refused.err
    assert hashes(output) == before

    extract(tmp_path / "source", output, *ONE_SPLIT, "--num-shards", "2", "--overwrite")
    assert len(names(output)) == 2
    assert names(output) == shards(output)
    assert len(read_examples(output)) == 8
    extract(tmp_path / "source", tmp_path / "once", *ONE_SPLIT, "--num-shards", "2")
    assert hashes(output) == hashes(tmp_path / "once")
    assert run("verify", output).code == 0


@pytest.mark.parametrize(
    ("settings", "splits"),
    [(("--splits", "other=1"), {"other"}), (("--splits", "a=0.5,b=0.5"), {"a", "b"})],
)
def test_overwriting_with_other_splits_leaves_no_shard_of_the_old_ones(tmp_path, settings, splits):
    """B15: stale files of another name are as stale."""
    write_recordings(tmp_path / "source", 40)
    extract(tmp_path / "source", tmp_path / "out", "--num-shards", "9")
    extract(tmp_path / "source", tmp_path / "out", *settings, "--overwrite")
    assert names(tmp_path / "out") == shards(tmp_path / "out")
    assert {name.split("-")[1] for name in names(tmp_path / "out")} == splits
    sidecars = {path.name for path in (tmp_path / "out" / ".spectrabeam" / "shards").iterdir()}
    assert sidecars == {
        name[len("spectrabeam-") : -len(".tfrecord")] + suffix
        for name in shards(tmp_path / "out")
        for suffix in (".json", ".npz")
    }


def test_shards_that_an_unfinished_run_left_are_gone_when_a_smaller_one_commits(tmp_path):
    """B15: the input shrank before the commit, so fewer shards are planned."""
    paths = write_recordings(tmp_path / "source", 20)
    (tmp_path / "source" / "empty.raw").touch()
    settings = (*ONE_SPLIT, "--shard-size", "3000")
    extract(tmp_path / "source", tmp_path / "out", *settings, "--max-reject-fraction", "0", code=3)
    assert len(list((tmp_path / "out").glob("*.tfrecord"))) > 3
    for path in paths[4:]:
        path.unlink()
    extract(tmp_path / "source", tmp_path / "out", *settings, "--max-reject-fraction", "0.5")
    assert len(shards(tmp_path / "out")) < 3
    assert names(tmp_path / "out") == shards(tmp_path / "out")
    assert len(read_examples(tmp_path / "out")) == 4


def test_overwriting_leaves_files_of_others_alone(tmp_path):
    """B15: also where their names resemble ours."""
    write_recordings(tmp_path / "source", 8)
    output = tmp_path / "out"
    extract(tmp_path / "source", output)
    strangers = [
        "notes.txt", "model.tfrecord", "spectrabeam.txt", "spectrabeam-notes.txt", "spectrabeam-train.tfrecord",
        "spectrabeam-train-00000.tfrecord.bak", "spectrabeam-train-00000-of-00001.tfrecord",
        "spectrabeam-train-1.tfrecord", "my-spectrabeam-train-00000.tfrecord", "runs/1/log.txt",
        ".spectrabeam-notes",
    ]  # fmt: skip
    for name in strangers:
        (output / name).parent.mkdir(parents=True, exist_ok=True)
        (output / name).write_text(name)
    extract(tmp_path / "source", output, "--overwrite", "--num-shards", "3")
    assert [(output / name).read_text() for name in strangers] == strangers
    assert names(output) - {name.partition("/")[0] for name in strangers} == shards(output)


@pytest.mark.parametrize("flags", [(), ("--overwrite",)])
@pytest.mark.parametrize(
    "stranger", ["notes.txt", "spectrabeam-train-00000.tfrecord", ".git/config", "rejects.jsonl"]
)
def test_a_folder_that_is_not_ours_is_refused_and_stays_as_it_is(tmp_path, flags, stranger):
    """B15."""
    write_recordings(tmp_path / "source", 4)
    path = tmp_path / "out" / stranger
    path.parent.mkdir(parents=True)
    path.write_text("precious")
    refused = extract(tmp_path / "source", tmp_path / "out", *flags, code=2)
    assert "was not made by spectrabeam" in refused.err
    assert path.read_text() == "precious"
    assert [
        each.relative_to(tmp_path / "out") for each in (tmp_path / "out").rglob("*") if each.is_file()
    ] == [Path(stranger)]


def test_an_empty_folder_is_taken(tmp_path):
    """B15: the pair to it."""
    write_recordings(tmp_path / "source", 4)
    (tmp_path / "out").mkdir()
    extract(tmp_path / "source", tmp_path / "out")


@pytest.mark.parametrize(
    "mistake",
    [("--raw-dtype", "f4"), ("--no-such-flag", "1"), ("--input", "/nowhere"), ("--segment-length", "0")],
)
def test_overwriting_with_a_mistake_in_the_command_destroys_nothing(tmp_path, mistake):
    """B15: the old dataset goes only when the new one can be planned."""
    write_recordings(tmp_path / "source", 4)
    extract(tmp_path / "source", tmp_path / "out")
    before = hashes(tmp_path / "out")
    extract(tmp_path / "source", tmp_path / "out", "--overwrite", *mistake, code=2)
    assert hashes(tmp_path / "out") == before
    assert run("verify", tmp_path / "out").code == 0


def test_a_changed_input_is_refused_with_what_changed(tmp_path):
    """B15: two files more, one less, one of another size; the dataset stays as it is."""
    paths = write_recordings(tmp_path / "source", 8)
    extract(tmp_path / "source", tmp_path / "out")
    before = hashes(tmp_path / "out")
    write_raw(tmp_path / "source" / "new1.raw", noise(256))
    write_raw(tmp_path / "source" / "new2.raw", noise(256))
    write_raw(paths[0], noise(512))
    paths[1].unlink()
    refused = extract(tmp_path / "source", tmp_path / "out", code=2)
    assert "+3 −2 recordings" in refused.err
    assert hashes(tmp_path / "out") == before


@pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])
def test_compression_is_recorded_and_obeyed_by_readers(tmp_path, compression):
    """B17: a reader that goes by the metadata reads each; `verify` and `inspect` do."""
    write_recordings(tmp_path / "source", 20)
    extract(tmp_path / "source", tmp_path / "plain")
    extract(tmp_path / "source", tmp_path / "out", "--compression", compression, "--num-shards", "5")
    assert metadata(tmp_path / "out")["compression"] == compression

    def rows(dataset):
        return sorted((each["recording"], each["spectrum"].tobytes()) for each in read_examples(dataset))

    assert rows(tmp_path / "out") == rows(tmp_path / "plain")
    first = min(tmp_path.glob("out/*.tfrecord")).read_bytes()
    wbits = {"gzip": 31, "zlib": 15}.get(compression)
    assert wbits is None or len(zlib.decompress(first, wbits)) > len(first)
    assert compression != "gzip" or first[4:8] == bytes(4)  # no time of writing, or no two runs were equal
    assert run("verify", tmp_path / "out").code == 0
    shown = run("inspect", tmp_path / "out")
    assert shown.code == 0
    assert f"compression {compression}" in shown.out


def test_reading_a_compressed_shard_as_plain_fails(tmp_path):
    """B17: what readers are spared who obey the metadata, so that the test above proves something."""
    write_recordings(tmp_path / "source", 4)
    extract(tmp_path / "source", tmp_path / "out", "--compression", "gzip")
    file = str(min(tmp_path.glob("out/*.tfrecord")))
    with pytest.raises(tf.errors.DataLossError):
        list(tf.data.TFRecordDataset(file))


@pytest.mark.parametrize(
    ("damage", "compression"),
    [
        ("flipped byte", "none"),
        ("flipped byte", "gzip"),
        ("cut", "gzip"),
        ("removed", "none"),
        ("swapped", "none"),
        ("stale shard", "none"),
    ],
)
def test_verify_finds_damage(tmp_path, damage, compression):
    """B17: and names the file."""
    write_recordings(tmp_path / "source", 20)
    settings = (*ONE_SPLIT, "--num-shards", "4", "--compression", compression)
    extract(tmp_path / "source", tmp_path / "out", *settings)
    path = tmp_path / "out" / "spectrabeam-all-00001.tfrecord"
    content = path.read_bytes()
    named = path.name
    if damage == "flipped byte":
        middle = len(content) // 2
        path.write_bytes(content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :])
    elif damage == "cut":
        path.write_bytes(content[:-10])
    elif damage == "removed":
        path.unlink()
    elif damage == "swapped":
        other = path.with_name("spectrabeam-all-00002.tfrecord")
        path.write_bytes(other.read_bytes())
        other.write_bytes(content)
    else:
        named = "spectrabeam-all-00009.tfrecord"
        path.with_name(named).write_bytes(content)
    result = run("verify", tmp_path / "out")
    assert result.code == 1
    assert named in result.out


def test_two_writers_at_once_are_refused(tmp_path, monkeypatch):
    """The second says who the first is, and harms nothing; the first ends as if alone."""
    write_recordings(tmp_path / "source", 8)
    second = []
    after_planning(
        monkeypatch,
        lambda: (
            second.append(
                (run_again("--overwrite"), run_again(), run_again("--num-shards", "7", "--overwrite"))
            )
            if not second
            else None
        ),
    )

    def run_again(*flags):
        return extract(tmp_path / "source", tmp_path / "out", *flags, code=2)

    extract(tmp_path / "source", tmp_path / "out")
    for result in second[0]:
        assert "is being written by another run" in result.err
        assert f"process {os.getpid()}" in result.err
    monkeypatch.undo()
    extract(tmp_path / "source", tmp_path / "once")
    assert hashes(tmp_path / "out") == hashes(tmp_path / "once")
    assert "nothing to do" in extract(tmp_path / "source", tmp_path / "out").out


def test_of_many_writers_that_start_together_one_at_a_time_holds_the_folder(tmp_path):
    """The same without luck of timing: the lock itself, from many threads."""
    from spectrabeam.transforms.dataset import Layout

    layout = Layout(str(tmp_path / "out"))
    inside, most, refused = [], [], []
    lock, start = threading.Lock(), threading.Barrier(8)

    def writer(number: int) -> None:
        start.wait()
        for _ in range(50):
            try:
                with folder.claim(layout):
                    with lock:
                        inside.append(number)
                        most.append(len(inside))
                    with lock:
                        inside.remove(number)
            except folder.FolderError as error:
                refused.append(str(error))

    threads = [threading.Thread(target=writer, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most
    assert max(most) == 1
    assert all("is being written by another run" in message for message in refused)


def test_the_commit_is_the_last_file_that_is_written(tmp_path, monkeypatch):
    """B14, B15: whoever sees spectrabeam.json sees everything that it names."""
    write_recordings(tmp_path / "source", 20)
    replace, order = os.replace, []

    def record(source, target, **keywords):
        order.append(os.path.basename(os.fspath(target)))
        return replace(source, target, **keywords)

    monkeypatch.setattr(os, "replace", record)
    extract(tmp_path / "source", tmp_path / "out", *ONE_SPLIT, "--num-shards", "3")
    assert order[-1] == "spectrabeam.json"
    for name in shards(tmp_path / "out"):
        sidecar = name[len("spectrabeam-") : -len(".tfrecord")] + ".json"
        assert order.index(name) < order.index(sidecar)
    about = json.loads((tmp_path / "out" / "spectrabeam.json").read_text())
    for shard in about["splits"]["all"]["shards"]:
        assert (tmp_path / "out" / shard["file"]).stat().st_size == shard["bytes"]

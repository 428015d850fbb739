"""What lies in folders beside recordings: hidden files, folders and pipes that bear their names, links that loop."""

from __future__ import annotations

import os
import socket

import pytest

from tests.helpers.pipelines import extract, metadata, read_examples, rejects, run
from tests.helpers.processes import after_planning, must_end
from tests.helpers.signals import noise, write_raw, write_recordings

ALL = ("--max-reject-fraction", "0.9")


def ids(dataset) -> list[bytes]:
    """The recordings of all examples."""
    return sorted(example["recording"] for example in read_examples(dataset))


def test_hidden_files_checkpoints_and_other_kinds_are_left_out_and_counted(tmp_path):
    """Not matched, so no rejects; but the metadata and the summary of `plan` say how many there were."""
    source = tmp_path / "source"
    write_recordings(source, 4)
    write_raw(source / ".hidden.raw", noise(256))
    write_raw(source / "._mac.raw", noise(256))
    write_raw(source / "a" / ".ipynb_checkpoints" / "r000-checkpoint.raw", noise(256))
    write_raw(source / ".git" / "deep" / "x.raw", noise(256))
    for name in ("notes.txt", "raw", "x.raw.part", "a/table.csv"):
        (source / name).write_text("no samples")
    extract(source, tmp_path / "out")
    assert len(ids(tmp_path / "out")) == 4
    assert rejects(tmp_path / "out") == []
    counts = metadata(tmp_path / "out")["counts"]
    assert counts["left_out"] == {
        "files of other kinds": 3,
        "hidden files and folders": 4,
        "tables beside recordings of other formats": 1,
    }
    assert counts["recordings"]["matched"] == 4
    planned = run("plan", "--input", source, "--raw-dtype", "<f4", "--sample-rate", "1000")
    assert "4 hidden files and folders" in planned.out
    assert "3 files of other kinds" in planned.out
    assert "1 table beside recordings of other formats" in planned.out


def test_a_folder_named_as_a_recording_is_walked_or_rejected(tmp_path):
    """One that holds recordings is a folder like any other; one that holds none is a reject, not a crash."""
    source = tmp_path / "source"
    write_recordings(source, 2)
    write_raw(source / "full.raw" / "inside.raw", noise(256))
    (source / "empty.raw").mkdir()
    (source / "other.raw" / "deeper").mkdir(parents=True)
    (source / "other.raw" / "notes.txt").write_text("no samples")
    extract(source, tmp_path / "out", *ALL)
    assert ids(tmp_path / "out") == [b"a/r000.raw", b"b/r001.raw", b"full.raw/inside.raw"]
    assert [(line["recording"], line["reason"], line["stage"]) for line in rejects(tmp_path / "out")] == [
        ("empty.raw", "not_a_file", "match"),
        ("other.raw", "not_a_file", "match"),
    ]
    assert metadata(tmp_path / "out")["counts"]["recordings"] == {"matched": 5, "used": 3, "rejected": 2}


@pytest.mark.parametrize("given", ["", "x.raw", "*.raw"], ids=["folder", "file", "glob"])
def test_a_fifo_named_as_a_recording_is_rejected_and_never_waited_for(tmp_path, given):
    """Opening a FIFO waits until somebody writes into it."""
    source = tmp_path / "source"
    write_recordings(tmp_path / "good", 4)
    source.mkdir()
    os.mkfifo(source / "x.raw")
    with must_end(source / "x.raw"):
        extract(source / given, tmp_path / "out", "--input", tmp_path / "good", *ALL)
    assert len(ids(tmp_path / "out")) == 4
    (line,) = rejects(tmp_path / "out")
    assert (line["recording"], line["reason"]) == ("x.raw", "not_a_file")
    assert "pipe" in line["message"]


@pytest.mark.parametrize("name", ["x.raw", "x.wav", "x"])
def test_inspect_does_not_wait_for_a_fifo(tmp_path, name):
    """The same kind: the one other verb that opens files by name."""
    os.mkfifo(tmp_path / name)
    with must_end(tmp_path / name):
        result = run("inspect", tmp_path / name, "--raw-dtype", "<f4", "--sample-rate", "1000")
    assert "pipe" in result.out + result.err


def test_a_fifo_that_takes_a_files_place_after_planning_is_not_waited_for(tmp_path, monkeypatch):
    """The same kind: a reader thread that waits for ever would hang the whole run."""
    paths = write_recordings(tmp_path / "source", 8)

    def swap() -> None:
        paths[0].unlink()
        os.mkfifo(paths[0])

    after_planning(monkeypatch, swap)
    with must_end(paths[0]):
        extract(tmp_path / "source", tmp_path / "out", *ALL)
    assert len(ids(tmp_path / "out")) == 7
    assert [line["recording"] for line in rejects(tmp_path / "out")] == ["a/r000.raw"]


def test_sockets_and_devices_are_rejected(tmp_path):
    """Reading /dev/zero would never end."""
    source = tmp_path / "source"
    write_recordings(source, 4)
    (source / "zero.raw").symlink_to("/dev/zero")
    here = os.getcwd()
    os.chdir(source)  # a socket's path has at most 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind("socket.raw")
    finally:
        os.chdir(here)
    extract(source, tmp_path / "out", *ALL)
    assert len(ids(tmp_path / "out")) == 4
    assert [(line["recording"], line["reason"]) for line in rejects(tmp_path / "out")] == [
        ("socket.raw", "not_a_file"),
        ("zero.raw", "not_a_file"),
    ]


def test_links_that_loop_end_and_lose_nothing(tmp_path):
    """A link to itself, to its own folder, to a folder above, and two folders that link to each other."""
    source = tmp_path / "source"
    write_raw(source / "a" / "one.raw", noise(256, 1))
    write_raw(source / "b" / "two.raw", noise(256, 2))
    (source / "a" / "here").symlink_to(".")
    (source / "a" / "above").symlink_to("..")
    (source / "a" / "to-b").symlink_to("../b")
    (source / "b" / "to-a").symlink_to("../a")
    (source / "self.raw").symlink_to("self.raw")
    (source / "dangling.raw").symlink_to("nowhere")
    extract(source, tmp_path / "out", *ALL)
    assert {b"a/one.raw", b"b/two.raw"} <= set(ids(tmp_path / "out"))
    assert max(recording.count(b"/") for recording in ids(tmp_path / "out")) <= 3
    assert [(line["recording"], line["reason"]) for line in rejects(tmp_path / "out")] == [
        ("dangling.raw", "unreadable"),
        ("self.raw", "unreadable"),
    ]
    left_out = metadata(tmp_path / "out")["counts"]["left_out"]
    assert left_out["links that lead back to their own folder"] >= 3


def test_a_link_to_a_file_or_folder_elsewhere_is_followed(tmp_path):
    """Archives are often trees of links."""
    write_raw(tmp_path / "store" / "deep" / "one.raw", noise(256, 1))
    write_raw(tmp_path / "store" / "deep" / "two.raw", noise(256, 2))
    source = tmp_path / "source"
    source.mkdir()
    (source / "folder").symlink_to(tmp_path / "store")
    (source / "file.raw").symlink_to(tmp_path / "store" / "deep" / "one.raw")
    extract(source, tmp_path / "out")
    assert ids(tmp_path / "out") == [b"file.raw", b"folder/deep/two.raw"]  # one.raw counts once


def test_a_file_that_is_matched_twice_counts_once(tmp_path, monkeypatch):
    """By two inputs, by two ways to write one input, and by a folder and a glob."""
    source = tmp_path / "source"
    write_recordings(source, 4)
    monkeypatch.chdir(tmp_path)
    again = ["--input", source / "*" / "*.raw", "--input", "source/", "--input", "./source/../source"]
    extract(source, tmp_path / "out", *again)
    assert len(ids(tmp_path / "out")) == 4
    assert metadata(tmp_path / "out")["counts"]["recordings"]["matched"] == 4


@pytest.mark.parametrize("kind", ["two files", "a file and a reject"])
def test_two_files_that_would_be_one_recording_are_refused(tmp_path, kind):
    """Else splits, labels and the ledger would take one for the other."""
    write_raw(tmp_path / "one" / "x.raw", noise(256, 1))
    write_raw(tmp_path / "one" / "y.raw", noise(256, 2))
    if kind == "two files":
        write_raw(tmp_path / "two" / "x.raw", noise(256, 3))
    else:
        (tmp_path / "two" / "x.raw").mkdir(parents=True)
    inputs = (tmp_path / "one", tmp_path / "out", "--input", tmp_path / "two", *ALL)
    refused = extract(*inputs, code=2)
    assert "would both be recording x.raw" in refused.err
    named = (f"one={tmp_path / 'one'}", tmp_path / "out", "--input", f"two={tmp_path / 'two'}", *ALL)
    extract(*named)
    assert {b"one/x.raw", b"one/y.raw"} <= set(ids(tmp_path / "out"))


def test_datasets_and_the_output_folder_are_left_out_of_the_input(tmp_path):
    """A second run over a folder that holds the first one's output sees the same input."""
    source = tmp_path / "source"
    write_recordings(source, 4)
    extract(source, source / "features")
    write_raw(source / "features" / "x.raw", noise(256))
    assert "nothing to do" in extract(source, source / "features").out
    extract(source, tmp_path / "out")
    assert len(ids(tmp_path / "out")) == 4
    assert metadata(tmp_path / "out")["counts"]["left_out"] == {"datasets of spectrabeam": 1}

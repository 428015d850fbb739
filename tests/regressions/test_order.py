"""Order and place of rows: from input and settings alone, scattered over recordings, never torn across splits."""

from __future__ import annotations

import collections
import itertools
import os
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from tests.helpers.pipelines import extract, hashes, metadata, read_examples
from tests.helpers.processes import LIMIT_S, extract_arguments, run_fresh
from tests.helpers.signals import noise, write_raw, write_recordings

ONE_SPLIT = ("--splits", "all=1")


@pytest.mark.slow
def test_two_runs_give_equal_bytes(tmp_path):
    """B24: in two processes, with other hash seeds, other threads and another working directory."""
    write_recordings(tmp_path / "source", 40, samples=600)
    settings = ("--num-shards", "7", "--label-from", "path:(?P<label>[ab])/")
    extract(tmp_path / "source", tmp_path / "one", *settings)
    arguments = extract_arguments(tmp_path / "source", tmp_path / "two", *settings, "--read-threads", "9")
    done = subprocess.run(
        [sys.executable, "-m", "spectrabeam.pipeline", *arguments],
        env=os.environ | {"PYTHONHASHSEED": "12345", "TZ": "Asia/Tokyo", "LC_ALL": "C"},
        cwd=tmp_path,
        capture_output=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert hashes(tmp_path / "one") == hashes(tmp_path / "two")
    assert len(hashes(tmp_path / "one")) == 3 + 7


def test_the_order_of_files_on_disk_does_not_matter(tmp_path, monkeypatch):
    """B24: folders are listed in another order on another disk."""
    write_recordings(tmp_path / "source", 40)
    extract(tmp_path / "source", tmp_path / "out", "--num-shards", "5")
    scandir = os.scandir

    class Shuffled:
        def __init__(self, path="."):
            with scandir(path) as entries:
                self.entries = list(entries)
            random.Random(len(self.entries)).shuffle(self.entries)

        def __iter__(self):
            return iter(self.entries)

        def __enter__(self):
            return self.entries

        def __exit__(self, *ignored):
            return None

        def close(self):
            return None

    def names(path):
        return [entry.name for entry in Shuffled(path)]

    assert names(tmp_path / "source" / "a") != sorted(names(tmp_path / "source" / "a"))
    monkeypatch.setattr(os, "scandir", Shuffled)
    extract(tmp_path / "source", tmp_path / "shuffled", "--num-shards", "5")
    assert hashes(tmp_path / "out") == hashes(tmp_path / "shuffled")


def test_where_the_input_lies_does_not_decide_bytes(tmp_path):
    """B24: the same files in another place give the same shards, since ids are relative."""
    shards = []
    for place in ("here", "there/deeper"):
        write_recordings(tmp_path / place, 20)
        extract(tmp_path / place, tmp_path / "out" / place, "--num-shards", "5")
        found = hashes(tmp_path / "out" / place)
        shards.append({name: value for name, value in found.items() if name.endswith(".tfrecord")})
    assert shards[0] == shards[1]


@pytest.mark.slow
def test_two_worker_processes_make_each_shard_once_and_the_same_bytes(tmp_path):
    """B28: work is spread, no shard is made twice, and nobody can tell by the dataset.

    B02: the launcher itself opens no recording and never loads TensorFlow.
    """
    random_samples = np.random.default_rng(0)
    for number in range(600):
        samples = random_samples.standard_normal(4096).astype(np.float32)
        write_raw(tmp_path / "source" / f"r{number:03d}.raw", samples)
    settings = ("--segment-length", "1024", "--num-shards", "24")
    extract(tmp_path / "source", tmp_path / "one", *settings)
    arguments = extract_arguments(
        tmp_path / "source", tmp_path / "two", *settings,
        "--direct_running_mode=multi_processing", "--direct_num_workers=2",
    )  # fmt: skip
    # Who makes a shard stands in the name of its temporary file; those that come and go unseen prove nothing.
    makers: dict[str, set[str]] = collections.defaultdict(set)
    temporary = tmp_path / "two" / ".spectrabeam" / "tmp"
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run_fresh, tmp_path, *arguments)
        while not running.done():
            for name in os.listdir(temporary) if temporary.exists() else ():
                if name.endswith(".tfrecord"):
                    shard, maker, *_ = name.split(".")
                    makers[shard].add(maker)
            time.sleep(0.002)
    launcher = running.result()
    assert launcher.code == 0, launcher.err
    assert not launcher.tensorflow
    assert not [name for name in launcher.opened if ".raw'" in name]
    assert hashes(tmp_path / "two") == hashes(tmp_path / "one")
    assert makers
    assert all(len(each) == 1 for each in makers.values())
    assert len(set.union(*makers.values())) == 2


@pytest.mark.parametrize("splits", ["train=1", "train=0.8,validation=0.1,test=0.1"])
def test_windows_of_one_recording_do_not_sit_together(tmp_path, splits):
    """C07: of 10 recordings with 100 segments each, the first 256 rows hold at least 8.

    Blocks of 8 segments are scattered, so this needs segments of 32768 samples and more; of shorter ones
    a block holds 1 MiB of samples, and fewer recordings are met as soon.
    """
    length = 32768
    for number in range(10):
        path = tmp_path / "source" / f"r{number}.raw"
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as file:
            file.truncate(100 * length)
    extract(
        tmp_path / "source", tmp_path / "out", "--raw-dtype", "i1", "--segment-length", length,
        "--splits", splits, "--num-shards", "3",
    )  # fmt: skip
    rows = [each["recording"] for each in read_examples(tmp_path / "out", "train")]
    used = len(set(rows))
    assert used >= (10 if splits == "train=1" else 6)
    assert len(set(rows[:256])) >= 0.8 * used
    longest = current = 1
    for before, after in itertools.pairwise(rows):
        current = current + 1 if before == after else 1
        longest = max(longest, current)
    assert longest <= 5 * 8  # five blocks of one recording in a row among ten: once in 10,000


def test_every_shard_holds_rows_of_most_recordings(tmp_path):
    """C07: also a reader that begins with another shard."""
    for number in range(5):
        write_raw(tmp_path / "source" / f"r{number}.raw", np.zeros(64 * 32768, np.int8), "i1")
    extract(
        tmp_path / "source", tmp_path / "out", "--raw-dtype", "i1", "--segment-length", "32768",
        *ONE_SPLIT, "--num-shards", "2",
    )  # fmt: skip
    rows = [each["recording"] for each in read_examples(tmp_path / "out")]
    half = metadata(tmp_path / "out")["splits"]["all"]["shards"][0]["examples"]
    assert len(set(rows[:half])) == len(set(rows[half:])) == 5


@pytest.mark.parametrize(("channels", "seed"), [(1, 0), (2, 1)])
def test_no_recording_is_in_two_splits(tmp_path, channels, seed):
    """C11: 20 files of 50 windows, whose blocks would fall into different splits if those were hashed."""
    for number in range(20):
        write_raw(tmp_path / "source" / f"r{number}.raw", np.zeros((50 * 32, channels), np.float32))
    splits = "train=0.6,validation=0.2,test=0.2"
    extract(
        tmp_path / "source", tmp_path / "out", "--segment-length", "32", "--splits", splits, "--seed", seed,
        "--num-shards", "9", "--raw-channels", channels, "--hop-length", "32",
    )  # fmt: skip
    where = collections.defaultdict(set)
    rows = 0
    for split in ("train", "validation", "test"):
        for each in read_examples(tmp_path / "out", split):
            where[each["recording"]].add(split)
            rows += 1
    assert rows == 20 * 50 * channels
    assert len(where) == 20
    assert all(len(each) == 1 for each in where.values())
    assert set.union(*where.values()) == {"train", "validation", "test"}


def test_long_recordings_of_many_blocks_stay_in_one_split(tmp_path):
    """C11: the same where one recording is many blocks and lies in many shards."""
    for number in range(8):
        path = tmp_path / "source" / f"r{number}.raw"
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as file:
            file.truncate(64 * 65536)
    extract(
        tmp_path / "source", tmp_path / "out", "--raw-dtype", "i1", "--segment-length", "65536",
        "--splits", "a=0.5,b=0.5", "--num-shards", "6",
    )  # fmt: skip
    a, b = ({each["recording"] for each in read_examples(tmp_path / "out", split)} for split in "ab")
    assert len(metadata(tmp_path / "out")["splits"]["a"]["shards"]) > 1
    assert len(a) + len(b) == 8
    assert a
    assert b
    assert not a & b


def test_other_recordings_do_not_move_a_recording_to_another_split(tmp_path):
    """C11: a grown archive keeps its test set."""
    placed = []
    for count in (20, 60):
        source, output = tmp_path / f"source{count}", tmp_path / f"out{count}"
        for number in range(count):
            write_raw(source / f"r{number:02d}.raw", noise(256, number))
        extract(source, output, "--splits", "a=0.5,b=0.5")
        placed.append({each["recording"]: s for s in "ab" for each in read_examples(output, s)})
    assert placed[0].items() <= placed[1].items()


@pytest.mark.parametrize(("count", "expected"), [(1, 3), (3, 3), (4, 4), (24, 24), (1000, 40)])
def test_num_shards_is_the_total_over_all_splits(tmp_path, count, expected):
    """B28, D05: at least one a non-empty split and at most one a block; none is empty."""
    write_recordings(tmp_path / "source", 40)
    extract(tmp_path / "source", tmp_path / "out", "--num-shards", count)
    splits = metadata(tmp_path / "out")["splits"]
    assert all(split["shards"] for split in splits.values())
    shards = [shard for split in splits.values() for shard in split["shards"]]
    assert all(shard["examples"] for shard in shards)
    assert len(shards) == expected


def test_shards_of_a_split_are_of_nearly_equal_size(tmp_path):
    """B28: no worker waits for one huge shard, though recordings differ by a factor of 100."""
    for number in range(60):
        write_raw(tmp_path / "source" / f"r{number}.raw", noise(256 * (100 if number % 20 == 0 else 1)))
    extract(tmp_path / "source", tmp_path / "out", *ONE_SPLIT, "--num-shards", "3", "--segment-length", "256")
    sizes = [shard["examples"] for shard in metadata(tmp_path / "out")["splits"]["all"]["shards"]]
    assert sum(sizes) == 357
    assert max(sizes) - min(sizes) <= 100  # no more than one block, which is here a recording


@pytest.mark.slow
def test_a_process_that_reads_nothing_new_writes_nothing_new(tmp_path):
    """B24: a third run into the same folder leaves every file as it is."""
    write_recordings(tmp_path / "source", 8)
    extract(tmp_path / "source", tmp_path / "out")
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir() if path.is_file()}
    result = run_fresh(tmp_path, *extract_arguments(tmp_path / "source", tmp_path / "out"))
    assert result.code == 0
    assert "nothing to do" in result.out
    assert not result.tensorflow
    after = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir() if path.is_file()}
    assert after == before

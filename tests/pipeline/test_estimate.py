"""The plan verb: what extract would do, from the same plan and the real steps, and nothing on disk."""

import tempfile

import numpy as np
import pytest

from tests.helpers.pipelines import RAW, extract, metadata, rejects, run
from tests.helpers.signals import noise, write_raw, write_recordings


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A folder that holds all that a run could write to."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def plan(source, *arguments, code=0):
    result = run("plan", "--input", source, *RAW, *arguments)
    assert result.code == code, (result.err, result.out)
    return result.out


def line(text, name):
    (found,) = [row for row in text.splitlines() if row.startswith(name)]
    return found.removeprefix(name).strip()


def content(folder):
    """Everything but the time of the folder in which the trial's own came and went, and what TensorFlow keeps there."""
    return {
        path: (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
        if path.name != "temporary" and not path.name.startswith("__autograph_generated_file")
    }


@pytest.mark.parametrize("output", [(), ("--output", "out"), ("--output", "there")])
def test_plan_leaves_nothing_on_disk(tree, output):
    write_recordings(tree / "in", 6)
    (tree / "there").mkdir()
    before = content(tree)
    assert plan(tree / "in", *output).endswith("Nothing was written.\n")
    assert content(tree) == before


def test_plan_leaves_a_dataset_as_it_is(tree):
    write_recordings(tree / "in", 6)
    extract(tree / "in", tree / "out")
    before = content(tree / "out")
    plan(tree / "in", "--output", tree / "out", "--overwrite")
    assert content(tree / "out") == before


def test_plan_tells_what_extract_then_does(tree):
    write_recordings(tree / "in", 20, samples=600)
    write_raw(tree / "in" / "bad.raw", noise(256), header=b"1")
    text = plan(tree / "in", "--num-shards", 5, "--max-segments", 2)
    assert line(text, "Recordings") == "21 matched = 20 planned + 1 rejected"
    assert line(text, "Segments") == "40 planned"
    assert line(text, "Left out") == "20 segments above max_segments"
    assert line(text, "Rejected") == "1 partial_frame"
    assert (
        "            bad.raw: 1025 bytes less a header and footer of 0 are no whole number of frames" in text
    )
    extract(tree / "in", tree / "out", "--num-shards", 5, "--max-segments", 2)
    made = metadata(tree / "out")
    assert made["counts"]["recordings"] == {"matched": 21, "used": 20, "rejected": 1}
    assert made["counts"]["segments"]["examples"] == 40
    assert [reject["reason"] for reject in rejects(tree / "out")] == ["partial_frame"]
    shards = sum(len(split["shards"]) for split in made["splits"].values())
    assert f", in {shards} shards" in line(text, "Bytes")
    for split, told in made["splits"].items():
        rows = [row.split()[1:] for row in text.splitlines() if row.startswith(split)]
        recordings = str(told["examples"] // 2)  # two segments of each, and each its own group
        assert rows == [[recordings, recordings, str(told["examples"])]]


def test_time_is_measured_on_the_real_steps(tree):
    write_recordings(tree / "in", 10)
    told = line(plan(tree / "in", "--batch-size", 4, "--splits", "all=1"), "Time")
    assert told.endswith(" examples/s, measured on 8 segments on this machine")


def test_rejects_of_the_trial_are_told(tree):
    write_raw(tree / "in" / "a.raw", np.full(256, np.nan))
    told = line(plan(tree / "in"), "Time")
    assert told.endswith("measured on 1 segments on this machine, of which 1 were rejected")


def test_without_any_segment_no_time_is_told(tree):
    write_raw(tree / "in" / "a.raw", noise(9), header=b"1")
    text = plan(tree / "in")
    assert line(text, "Segments") == "0 planned"
    assert "Time " not in text


def test_plan_checks_beams_options_too(tree):
    write_recordings(tree / "in", 1)
    result = run("plan", "--input", tree / "in", *RAW, "--runer=FlinkRunner")
    assert result.code == 2
    assert "did you mean --runner?" in result.err

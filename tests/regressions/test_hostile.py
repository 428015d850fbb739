"""Settings, folders and files that nobody should give, and what is said of them."""

import os

import pytest

from tests.helpers.pipelines import extract, hashes, metadata, run
from tests.helpers.signals import noise, write_raw, write_recordings


@pytest.mark.parametrize("pattern", ["{in}/**/*.raw", "{in}/*", "{in}"])
def test_links_never_double_a_file_nor_hang_a_glob(tmp_path, pattern):
    folder = tmp_path / "in"
    write_raw(folder / "a" / "x.raw", noise(256))
    os.symlink("a", folder / "b")
    os.symlink("a/x.raw", folder / "y.raw")
    os.symlink(".", folder / "s1")
    os.symlink(".", folder / "s2")
    result = run("extract", "--input", pattern.replace("{in}", str(folder)), "--output", tmp_path / "out",
                 "--raw-dtype", "<f4", "--sample-rate", 1000, "--segment-length", 256, "--jit", "off")  # fmt: skip
    assert result.code == 0, result.err
    assert metadata(tmp_path / "out")["counts"]["recordings"]["matched"] == 1


@pytest.mark.parametrize("mark", ["spectrabeam.json", ".spectrabeam/x"])
def test_folder_that_only_looks_like_ours_is_left_alone(tmp_path, mark):
    write_recordings(tmp_path / "in", 4)
    theirs = tmp_path / "web" / "frontend" / "app.js"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("theirs")
    path = tmp_path / "web" / mark
    path.parent.mkdir(exist_ok=True)
    path.write_text('{"input": "x"}')
    for more in ((), ("--overwrite",)):
        assert "not made by spectrabeam" in extract(tmp_path / "in", tmp_path / "web", *more, code=2).err
    assert theirs.read_text() == "theirs"


def test_files_of_others_in_our_frontend_folder_stop_the_run(tmp_path):
    write_recordings(tmp_path / "in", 4)
    extract(tmp_path / "in", tmp_path / "out")
    (tmp_path / "out" / "frontend" / "app.js").write_text("theirs")
    assert (
        "holds files that are not ours"
        in extract(tmp_path / "in", tmp_path / "out", "--overwrite", code=2).err
    )
    assert (tmp_path / "out" / "frontend" / "app.js").read_text() == "theirs"


def test_finished_shard_with_a_flipped_bit_is_made_again(tmp_path):
    write_recordings(tmp_path / "in", 40)
    extract(tmp_path / "in", tmp_path / "out", "--num-shards", 4)
    whole = hashes(tmp_path / "out")
    (tmp_path / "out" / "spectrabeam.json").unlink()
    shard = tmp_path / "out" / "spectrabeam-train-00000.tfrecord"
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    extract(tmp_path / "in", tmp_path / "out", "--num-shards", 4)
    assert hashes(tmp_path / "out") == whole


def test_files_modified_in_place_are_told(tmp_path):
    files = write_recordings(tmp_path / "in", 4)
    extract(tmp_path / "in", tmp_path / "out")
    os.utime(files[0], ns=(1, 1))
    told = extract(tmp_path / "in", tmp_path / "out").out
    assert "1 files have another modification time than then: --overwrite reads them again" in told


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--output", "s3://bucket/x"), "no local path"),
        (("--scale", "0"), "between 1e-30 and 1e30"),
        (("--scale", "1e300"), "between 1e-30 and 1e30"),
        (("--epsilon", "1e-50"), "greater than or equal to"),
        (("--segment-length", "1000000000000"), "a batch may take 2"),
        (("--splits", "a" * 65 + "=1"), "cannot be a split's name"),
        (("--inputs", "x"), "did you mean --input?"),
        (("--runner", "Nope"), "Nope"),
    ],
)
def test_nonsense_on_the_command_line_is_refused_in_a_line(tmp_path, arguments, message):
    write_recordings(tmp_path / "in", 2)
    result = extract(tmp_path / "in", tmp_path / "out", *arguments, code=2)
    assert message in result.err
    assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("segment_length: true", "segment_length=true must be a number"),
        ("max_reject_fraction: yes", "must be a number"),
        ("sample_rate: 2020-13-45", "holds a value that is none"),
        ("[" * 5000, "nested too deep"),
        ("seed: " + "9" * 5000, ""),
    ],
)
def test_nonsense_in_the_settings_file_is_refused_in_a_line(tmp_path, text, message):
    write_recordings(tmp_path / "in", 2)
    (tmp_path / "s.yaml").write_text(text)
    result = run("extract", "--config", tmp_path / "s.yaml", "--input", tmp_path / "in", "--output", tmp_path / "o",
                 "--raw-dtype", "<f4")  # fmt: skip
    assert (result.code, result.err.count("\n")) == (2, 1), result.err
    assert message in result.err


def test_unquoted_off_in_yaml_is_the_word(tmp_path):
    write_recordings(tmp_path / "in", 2)
    (tmp_path / "s.yaml").write_text("jit: off\n")
    result = run("extract", "--config", tmp_path / "s.yaml", "--input", tmp_path / "in", "--output", tmp_path / "out",
                 "--raw-dtype", "<f4", "--sample-rate", 1000, "--segment-length", 256)  # fmt: skip
    assert result.code == 0, result.err
    assert metadata(tmp_path / "out")["computed_by"][0]["xla"] is False


@pytest.mark.parametrize("content", ["{}", "[]", "null", "garbage"])
def test_damaged_plan_summary_is_no_obstacle(tmp_path, content):
    write_recordings(tmp_path / "in", 6)
    extract(tmp_path / "in", tmp_path / "out")
    whole = hashes(tmp_path / "out")
    (tmp_path / "out" / "spectrabeam.json").unlink()
    (tmp_path / "out" / ".spectrabeam" / "plan" / "plan.json").write_text(content)
    extract(tmp_path / "in", tmp_path / "out")
    assert hashes(tmp_path / "out") == whole


def test_empty_label_is_none(tmp_path):
    write_recordings(tmp_path / "in", 2)
    assert (
        "label_missing"
        in extract(tmp_path / "in", tmp_path / "out", "--label-from", "path:(?P<label>)", code=3).err
    )


def test_folder_of_a_run_killed_before_its_lock_is_ours(tmp_path):
    write_recordings(tmp_path / "in", 4)
    (tmp_path / "out" / ".spectrabeam" / "plan").mkdir(parents=True)
    extract(tmp_path / "in", tmp_path / "out")

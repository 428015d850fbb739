"""What must not depend on whether a run was interrupted."""

import shutil

import pytest

from spectrabeam.pipeline import extract as extract_module
from tests.helpers.pipelines import extract, hashes, metadata, rejects, run
from tests.helpers.signals import noise, write_raw, write_recordings, write_wav


def test_output_inside_the_input_is_the_same_after_an_interrupted_run(tmp_path, monkeypatch):
    write_recordings(tmp_path / "in", 12)
    out = tmp_path / "in" / "features"
    extract(tmp_path / "in", out, "--num-shards", 4)
    whole = hashes(out)
    shutil.rmtree(out)
    with monkeypatch.context() as patched:
        patched.setattr(extract_module, "_run_beam", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        extract(tmp_path / "in", out, "--num-shards", 4, code=1)
    extract(tmp_path / "in", out, "--num-shards", 4)
    assert hashes(out) == whole


def test_missing_gpu_leaves_the_old_dataset_alone(tmp_path):
    write_recordings(tmp_path / "in", 6)
    extract(tmp_path / "in", tmp_path / "out")
    before = hashes(tmp_path / "out")
    result = extract(tmp_path / "in", tmp_path / "out", "--overwrite", "--device", "gpu", code=1)
    assert "sees no GPU" in result.err
    assert hashes(tmp_path / "out") == before


def test_cut_wav_is_used_with_a_warning_in_the_ledger(tmp_path):
    import pyarrow.parquet as pq

    path = write_wav(tmp_path / "in" / "cut.wav", noise(1000) / 2, rate=1000)
    path.write_bytes(path.read_bytes()[:-600])
    extract(tmp_path / "in", tmp_path / "out", "--splits", "train=1")
    [row] = pq.read_table(tmp_path / "out" / "recordings.parquet").to_pylist()
    assert (row["frames"], row["frames_declared"]) == (700, 1000)
    assert row["warnings"] == ["the header promises 1000 frames, 700 frames are there"]
    assert metadata(tmp_path / "out")["counts"]["segments"]["examples"] == 3


def test_wav_file_named_raw_is_a_reject(tmp_path):
    write_recordings(tmp_path / "in", 30)
    wav = write_wav(tmp_path / "w.wav", noise(256) / 2)
    (tmp_path / "in" / "wav.raw").write_bytes(wav.read_bytes() + bytes(-wav.stat().st_size % 4))
    extract(tmp_path / "in", tmp_path / "out")
    [reject] = rejects(tmp_path / "out")
    assert (reject["recording"], reject["reason"]) == ("wav.raw", "bad_format")


@pytest.mark.parametrize(("scale", "warned"), [("1e-12", True), ("1", False)])
def test_data_below_epsilon_are_warned_about(tmp_path, scale, warned):
    write_raw(tmp_path / "in" / "a.raw", noise(1024))
    arguments = ("--raw-dtype", "<f4", "--sample-rate", 1000, "--segment-length", 256, "--scale", scale)
    for verb in (
        ("plan", "--input", tmp_path / "in", "--jit", "off"),
        ("inspect", tmp_path / "in" / "a.raw"),
    ):
        result = run(*verb, *arguments)
        assert result.code == 0, result.err
        assert ("lie within ten times epsilon" in result.out) == warned

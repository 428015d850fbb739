"""The main verb on files that the tests make: what is in the dataset, and what is said."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import tensorflow as tf

from tests.helpers.pipelines import extract, metadata, read_examples, rejects, run
from tests.helpers.references import assert_spectrum
from tests.helpers.signals import noise, write_raw, write_recordings, write_wav

LENGTH = 256


def test_every_file_becomes_one_right_example(tmp_path):
    files = write_recordings(tmp_path / "in", 150)
    extract(tmp_path / "in", tmp_path / "out")
    examples = read_examples(tmp_path / "out")
    assert {example["recording"].decode() for example in examples} == {
        str(file.relative_to(tmp_path / "in")) for file in files
    }
    assert len(examples) == 150
    for example in examples:
        samples = np.fromfile(tmp_path / "in" / example["recording"].decode(), "<f4")
        assert_spectrum(example["spectrum"], samples)
        assert (example["channel"], example["start"], example["valid"]) == (0, 0, LENGTH)
        assert example["sample_rate"] == 1000


@pytest.mark.parametrize("jit", ["on", "auto"])
def test_compiled_graph_gives_right_spectra(tmp_path, jit):
    write_recordings(tmp_path / "in", 70)
    extract(tmp_path / "in", tmp_path / "out", "--jit", jit)
    assert metadata(tmp_path / "out")["computed_by"][0]["xla"] is True
    for example in read_examples(tmp_path / "out"):
        assert_spectrum(
            example["spectrum"], np.fromfile(tmp_path / "in" / example["recording"].decode(), "<f4")
        )


def test_long_recording_is_cut_with_overlap_and_a_padded_tail(tmp_path):
    samples = noise(5 * LENGTH + 17)
    write_raw(tmp_path / "in" / "long.raw", samples)
    extract(tmp_path / "in", tmp_path / "out", "--hop-length", 100, "--batch-size", 8)
    examples = sorted(read_examples(tmp_path / "out"), key=lambda example: example["start"])
    total = 1 + -(-(len(samples) - LENGTH) // 100)
    assert [example["start"] for example in examples] == [100 * i for i in range(total)]
    for example in examples:
        segment = np.zeros(LENGTH)
        real = samples[example["start"] : example["start"] + LENGTH]
        segment[: len(real)] = real
        assert example["valid"] == len(real)
        assert_spectrum(example["spectrum"], segment)


def test_channels_are_separate_examples(tmp_path):
    left, right = noise(LENGTH, 1), noise(LENGTH, 2)
    write_raw(tmp_path / "in" / "two.raw", np.stack([left, right], axis=1), ">f8", header=b"head")
    extract(
        tmp_path / "in", tmp_path / "out", "--raw-dtype", ">f8", "--raw-channels", 2, "--raw-header-bytes", 4
    )
    examples = {int(example["channel"]): example for example in read_examples(tmp_path / "out")}
    assert_spectrum(examples[0]["spectrum"], left)
    assert_spectrum(examples[1]["spectrum"], right)


def test_wav_samples_are_in_full_scale(tmp_path):
    stored = (np.random.default_rng(0).integers(-(2**15), 2**15, LENGTH)).astype(np.int16)
    write_wav(tmp_path / "in" / "a.wav", stored, rate=8000)
    result = run(
        "extract", "--input", tmp_path / "in", "--output", tmp_path / "out", "--segment-length", LENGTH
    )
    assert result.code == 0, result.err
    [example] = read_examples(tmp_path / "out")
    assert example["sample_rate"] == 8000
    assert_spectrum(example["spectrum"], stored / 2.0**15)


@pytest.mark.parametrize("compression", ["none", "gzip", "zlib"])
def test_compression_is_recorded_and_read_back(tmp_path, compression):
    write_recordings(tmp_path / "in", 20)
    extract(tmp_path / "in", tmp_path / "out", "--compression", compression)
    assert metadata(tmp_path / "out")["compression"] == compression
    assert len(read_examples(tmp_path / "out")) == 20
    assert run("verify", tmp_path / "out").code == 0


def test_waveforms_alone_can_be_packed(tmp_path):
    samples = noise(3 * LENGTH)
    write_raw(tmp_path / "in" / "a.raw", samples)
    config = tmp_path / "settings.yaml"
    config.write_text("features: {}\nkeep_waveform: true\n")
    extract(tmp_path / "in", tmp_path / "out", "--config", config)
    for example in read_examples(tmp_path / "out"):
        assert "spectrum" not in example
        np.testing.assert_array_equal(
            example["waveform"], samples[example["start"] : example["start"] + LENGTH]
        )
    assert not (tmp_path / "out" / "frontend").exists()


def test_int16_waveforms_are_kept_as_they_came(tmp_path):
    stored = np.random.default_rng(0).integers(-(2**15), 2**15, LENGTH).astype(np.int16)
    write_wav(tmp_path / "in" / "a.wav", stored, rate=1000)
    write_raw(tmp_path / "in" / "b.raw", stored, ">i2")
    write_raw(tmp_path / "in" / "c.raw", stored[:-1], ">i2")
    extract(tmp_path / "in", tmp_path / "out", "--raw-dtype", ">i2", "--keep-waveform", "int16")
    for example in read_examples(tmp_path / "out"):
        kept = np.frombuffer(example["waveform"], "<i2")
        valid = int(example["valid"])
        np.testing.assert_array_equal(kept[:valid], stored[:valid])
        assert not kept[valid:].any()
        scale = 2.0**15 if example["recording"] == b"a.wav" else 1.0
        segment = np.where(np.arange(LENGTH) < valid, stored, 0) / scale
        assert_spectrum(example["spectrum"], segment)


def test_other_samples_are_not_kept_as_int16(tmp_path):
    write_raw(tmp_path / "in" / "a.raw", noise(LENGTH))
    extract(tmp_path / "in", tmp_path / "out", "--keep-waveform", "int16", code=3)
    assert rejects(tmp_path / "out")[0]["reason"] == "dtype_mismatch"


def test_max_segments_leaves_the_rest_out_and_counts_it(tmp_path):
    write_raw(tmp_path / "in" / "a.raw", noise(10 * LENGTH))
    result = extract(tmp_path / "in", tmp_path / "out", "--max-segments", 2, "--max-segments-from", "spread")
    assert sorted(example["start"] for example in read_examples(tmp_path / "out")) == [2 * LENGTH, 7 * LENGTH]
    assert metadata(tmp_path / "out")["counts"]["left_out"]["segments above max_segments"] == 8
    assert "8 segments above max_segments" in result.out


def test_labels_come_from_the_path(tmp_path):
    write_recordings(tmp_path / "in", 10)
    write_raw(tmp_path / "in" / "r.raw", noise(LENGTH))
    extract(
        tmp_path / "in",
        tmp_path / "out",
        "--label-from",
        "path:^(?P<label>[ab])/",
        "--max-reject-fraction",
        0.2,
    )
    names = metadata(tmp_path / "out")["label_names"]
    assert names == ["a", "b"]
    for example in read_examples(tmp_path / "out"):
        assert example["recording"].decode()[0] == names[example["label"]]
    [reject] = rejects(tmp_path / "out")
    assert (reject["recording"], reject["reason"]) == ("r.raw", "label_missing")


def test_ledger_accounts_for_every_recording(tmp_path):
    write_recordings(tmp_path / "in", 40, samples=3 * LENGTH)
    bad = noise(3 * LENGTH)
    bad[LENGTH + 3] = np.nan
    write_raw(tmp_path / "in" / "nan.raw", bad)
    (tmp_path / "in" / "empty.raw").touch()
    extract(tmp_path / "in", tmp_path / "out", "--num-shards", 7)
    ledger = pq.read_table(tmp_path / "out" / "recordings.parquet").to_pylist()
    assert [row["id"] for row in ledger] == sorted(row["id"] for row in ledger)
    assert len(ledger) == 42
    written = {}
    for example in read_examples(tmp_path / "out"):
        name = example["recording"].decode()
        written[name] = written.get(name, 0) + 1
    for row in ledger:
        assert row["segments_written"] == written.get(row["id"], 0)
        assert row["segments_planned"] == row["segments_written"] + row["segments_rejected"]
        for shard in row["shards"]:
            assert shard.startswith(row["split"])
    counts = metadata(tmp_path / "out")["counts"]
    assert counts["recordings"] == {"matched": 42, "used": 41, "rejected": 1}
    assert counts["segments"] == {"planned": 123, "examples": 122, "rejected": 1}


def test_saved_model_gives_the_stored_features(tmp_path):
    samples = noise(LENGTH)
    write_raw(tmp_path / "in" / "a.raw", samples)
    extract(tmp_path / "in", tmp_path / "out")
    model = tf.saved_model.load(str(tmp_path / "out" / "frontend"))
    served = model.signatures["serving_default"](waveform=tf.constant(np.stack([samples] * 3)))
    assert set(served) == {"spectrum"}
    [example] = read_examples(tmp_path / "out")
    for row in served["spectrum"].numpy():
        np.testing.assert_allclose(row, example["spectrum"], atol=1e-5)


def test_summary_reconciles_and_says_where_the_time_went(tmp_path):
    write_recordings(tmp_path / "in", 30)
    (tmp_path / "in" / "notes.txt").write_text("x")
    result = extract(tmp_path / "in", tmp_path / "out")
    for line in (
        "Recordings  30 matched = 30 used + 0 rejected",
        "Segments    30 planned = 30 examples + 0 rejected",
        "1 file of other kinds",
        "Stages ",
        "Bound by    starting",
        "spectrabeam inspect",
    ):
        assert line in result.out
    [attempt] = [json.loads(line) for line in (tmp_path / "out" / "runs.jsonl").read_text().splitlines()]
    assert attempt["examples"] == 30
    assert set(attempt["stage_s"]) == {"read", "compute", "statistics", "encode", "write"}
    assert attempt["outcome"] == "done"


def test_settings_of_a_dataset_repeat_its_run(tmp_path):
    write_recordings(tmp_path / "in", 20)
    extract(tmp_path / "in", tmp_path / "out", "--hop-length", 100, "--epsilon", 1e-3, "--seed", 5)
    again = run("extract", "--config", tmp_path / "out" / "spectrabeam.json", "--output", tmp_path / "again")
    assert again.code == 0, again.err
    for name in ("spectrabeam.json", "spectrabeam-train-00000.tfrecord", "recordings.parquet"):
        assert (tmp_path / "again" / name).read_bytes() == (tmp_path / "out" / name).read_bytes()
    same = run("extract", "--config", tmp_path / "out" / "spectrabeam.json")
    assert same.code == 0
    assert "nothing to do" in same.out


def test_the_numbers_of_the_summary_are_beam_metrics(tmp_path):
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    from spectrabeam.pipeline import build, folder
    from spectrabeam.pipeline.match import match
    from spectrabeam.pipeline.plan import make_plan
    from spectrabeam.pipeline.runners import LOCAL_RUNNER
    from spectrabeam.pipeline.settings import Settings
    from spectrabeam.transforms.dataset import Layout

    write_recordings(tmp_path / "in", 30)
    bad = noise(LENGTH)
    bad[3] = np.inf
    write_raw(tmp_path / "in" / "inf.raw", bad)
    settings = Settings(
        input=(str(tmp_path / "in"),), raw_dtype="<f4", sample_rate=1000, segment_length=LENGTH, jit="off"
    )
    layout = Layout(str(tmp_path / "out"))
    with folder.claim(layout):
        plan = make_plan(match(settings.input, settings), settings)
        work = folder.prepare(layout, plan, settings)
        pipeline = beam.Pipeline(options=PipelineOptions([f"--runner={LOCAL_RUNNER}"]))
        build.build(pipeline, layout, plan, work.todo, settings)
        result = pipeline.run()
        result.wait_until_finish()
    counters = {
        c.key.metric.name: c.committed
        for c in result.metrics().query()["counters"]
        if c.key.metric.namespace == "spectrabeam"
    }
    assert counters["examples_written"] == 30
    assert counters["segments_rejected"] == counters["segments_rejected_non_finite"] == 1
    assert counters["shards_written"] == len(plan.shards)
    assert counters["bytes_written"] == sum(
        path.stat().st_size for path in (tmp_path / "out").glob("*.tfrecord")
    )
    for stage in ("read", "compute", "statistics", "encode", "write"):
        assert counters[f"{stage}_us"] > 0

"""Batches: one trace for all of them, and rows that do not depend on where batches and shards end."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from spectrabeam.transforms import buffers as buffers_module
from spectrabeam.transforms import shard as shard_module
from spectrabeam.transforms.compute import CompiledFrontend
from tests.helpers.pipelines import extract, metadata, read_examples
from tests.helpers.references import assert_spectrum, magnitude
from tests.helpers.signals import noise, write_raw

ONE_SPLIT = ("--splits", "all=1")


def write_lengths(source, lengths, segment=256) -> dict[bytes, np.ndarray]:
    """One raw file for each number of segments."""
    samples = {}
    for number, length in enumerate(lengths):
        samples[f"r{number:03d}.raw".encode()] = noise(length * segment, number)
        write_raw(source / f"r{number:03d}.raw", noise(length * segment, number))
    return samples


def records(dataset) -> dict[tuple[bytes, int], bytes]:
    """(recording, start) to the spectrum's bytes; each row stands once."""
    examples = read_examples(dataset)
    rows = {(each["recording"], int(each["start"])): each["spectrum"].tobytes() for each in examples}
    assert len(rows) == len(examples)
    return rows


@pytest.fixture
def frontends(monkeypatch) -> list[CompiledFrontend]:
    """Every frontend that is made, with the number of its calls, `calls`."""
    made = []

    class Counted(CompiledFrontend):
        def __init__(self, *arguments, **more):
            self.calls = 0
            self.lock = threading.Lock()
            made.append(self)
            super().__init__(*arguments, **more)
            self.calls = 0  # without the start-up check

        def __call__(self, waveform, valid=None):
            with self.lock:
                self.calls += 1
            return super().__call__(waveform, valid)

    monkeypatch.setattr(shard_module, "CompiledFrontend", Counted)
    return made


@pytest.mark.parametrize("jit", ["off", "on"])
def test_uneven_shards_are_computed_with_one_trace_of_one_frontend(tmp_path, frontends, jit):
    """B05: batches of 64, 64, 37, 5 and 1 rows, as reported, in shards of their own."""
    write_lengths(tmp_path / "source", [64 + 64 + 37, 5, 1, 64])
    extract(tmp_path / "source", tmp_path / "out", *ONE_SPLIT, "--num-shards", "4", "--jit", jit)
    shards = metadata(tmp_path / "out")["splits"]["all"]["shards"]
    assert sorted(shard["examples"] for shard in shards) == [1, 5, 64, 165]
    (frontend,) = frontends
    assert frontend.traces == 1
    assert frontend.calls == 3 + 1 + 1 + 1


@pytest.mark.parametrize("jit", ["off", "on"])
def test_rows_do_not_depend_on_how_segments_are_bundled(tmp_path, jit):
    """B08: 1000 segments in 1, 3 and 13 shards meet other neighbours in other batches, bit for bit the same."""
    samples = write_lengths(tmp_path / "source", [10, 3, 40, 1, 1, 99, 7, 64, 65, 63, 128, 300, 219])
    wanted = {(name, start) for name, values in samples.items() for start in range(0, len(values), 256)}
    assert len(wanted) == 1000
    found = []
    for count in (1, 3, 13):
        output = tmp_path / f"out{count}"
        extract(tmp_path / "source", output, *ONE_SPLIT, "--num-shards", count, "--jit", jit)
        assert len(metadata(output)["splits"]["all"]["shards"]) == count
        found.append(records(output))
    assert found[0].keys() == wanted
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("batch_size", [1, 7, 1000])
def test_rows_do_not_depend_on_the_batch_size(tmp_path, batch_size):
    """B08: nothing is lost at a batch's end, and values agree to float32 rounding."""
    samples = write_lengths(tmp_path / "source", [10, 3, 40, 1, 64, 65])
    extract(tmp_path / "source", tmp_path / "out", *ONE_SPLIT, "--batch-size", batch_size)
    found = records(tmp_path / "out")
    assert found.keys() == {
        (name, start) for name, values in samples.items() for start in range(0, len(values), 256)
    }
    for (name, start), spectrum in found.items():
        assert_spectrum(np.frombuffer(spectrum, np.float32), samples[name][start : start + 256])


@pytest.mark.parametrize("segments", [1, 63, 64, 65, 129])
def test_no_row_is_lost_around_a_full_batch(tmp_path, segments):
    """B08: one recording that ends just before, at and after a batch of 64 does."""
    samples = write_lengths(tmp_path / "source", [segments])
    extract(tmp_path / "source", tmp_path / "out", *ONE_SPLIT)
    examples = read_examples(tmp_path / "out")
    assert [int(each["start"]) for each in examples] == list(range(0, 256 * segments, 256))
    for each in (examples[0], examples[-1]):
        start = int(each["start"])
        assert_spectrum(each["spectrum"], samples[b"r000.raw"][start : start + 256])


def test_rows_of_padded_segments_hold_nothing_of_earlier_batches(tmp_path):
    """B07, B08: batch arrays are used again, so what a short segment does not fill must be zero."""
    loud = 1e6 * np.ones(256 * 640, np.float32)
    write_raw(tmp_path / "source" / "loud.raw", loud)
    for number in range(200):
        write_raw(tmp_path / "source" / f"short{number}.raw", np.ones(1, np.float32))
    extract(tmp_path / "source", tmp_path / "out", *ONE_SPLIT, "--batch-size", "16", "--keep-waveform")
    short = [each for each in read_examples(tmp_path / "out") if each["recording"].startswith(b"short")]
    assert len(short) == 200
    for each in short:
        assert each["valid"] == 1
        assert each["waveform"].tolist() == [1.0] + [0.0] * 255
        # one sample of 1 has a flat spectrum of magnitude 1
        assert np.abs(np.exp(each["spectrum"].astype(np.float64)) - 1).max() < 1e-5


def test_waveforms_in_the_making_do_not_grow_with_the_shard(tmp_path, monkeypatch):
    """B07: a shard of 200 batches has no more of them in memory than one of 40."""
    most = {}
    for batches in (40, 200):
        made = []
        monkeypatch.setattr(
            buffers_module,
            "aligned_empty",
            lambda shape, dtype, made=made, empty=buffers_module.aligned_empty: (
                made.append(shape) or empty(shape, dtype)
            ),
        )
        source, output = tmp_path / f"source{batches}", tmp_path / f"out{batches}"
        write_lengths(source, [batches * 16], segment=16)
        extract(
            source, output, *ONE_SPLIT, "--batch-size", "16", "--segment-length", "16", "--read-threads", "3"
        )
        assert len(read_examples(output)) == batches * 16
        monkeypatch.undo()
        most[batches] = len(made)
        assert set(made) == {(16, 16)}
    assert 1 <= most[40] <= 20
    assert 1 <= most[200] <= 20


def test_a_sine_stays_on_its_bin_in_every_row_of_a_batch(tmp_path):
    """B08: rows do not leak into each other; each has its own sine, and nothing elsewhere."""
    segments = np.stack([np.sin(2 * np.pi * (1 + k) * np.arange(256) / 256) for k in range(100)])
    write_raw(tmp_path / "source" / "sines.raw", segments.reshape(-1).astype(np.float32))
    extract(tmp_path / "source", tmp_path / "out", *ONE_SPLIT)
    examples = read_examples(tmp_path / "out")
    assert [int(each["spectrum"].argmax()) for each in examples] == list(range(1, 101))
    for k, each in enumerate(examples):
        assert magnitude(segments[k])[1 + k] == pytest.approx(128)  # A·N/2
        found = np.exp(each["spectrum"].astype(np.float64))
        assert found[1 + k] == pytest.approx(128, rel=1e-6)
        assert np.delete(found, 1 + k).max() < 1e-4  # float32 rounding of samples around 1

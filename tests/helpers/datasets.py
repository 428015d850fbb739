"""What a run left behind, recording by recording: ledger, rejects, samples and spectra."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from .pipelines import metadata, read_examples, rejects, run
from .references import assert_spectrum


def ledger(dataset: Path) -> dict[str, dict]:
    """The rows of recordings.parquet by id."""
    rows = pq.read_table(dataset / "recordings.parquet").to_pylist()
    found = {row["id"]: row for row in rows}
    assert len(found) == len(rows)
    return found


def reasons(dataset: Path) -> dict[str, tuple[str, str, int]]:
    """Recording to (stage, reason, segments)."""
    lines = rejects(dataset)
    assert len({line["recording"] for line in lines}) == len(lines)
    return {line["recording"]: (line["stage"], line["reason"], line["segments"]) for line in lines}


def messages(dataset: Path) -> dict[str, str]:
    """Recording to the message of its reject."""
    return {line["recording"]: line["message"] for line in rejects(dataset)}


def spectra(dataset: Path) -> dict[tuple[bytes, int, int], np.ndarray]:
    """(recording, channel, start) to spectrum."""
    return {
        (example["recording"], int(example["channel"]), int(example["start"])): example["spectrum"]
        for example in read_examples(dataset)
    }


def signals(dataset: Path) -> dict[tuple[str, int], np.ndarray]:
    """(recording, channel) to its samples, float32, put together again from the kept waveforms.

    Where segments overlap they must agree, what is padded must be zero, and no sample may be missing.
    """
    parts: dict[tuple[str, int], list[tuple[int, int, np.ndarray]]] = {}
    for example in read_examples(dataset):
        key = example["recording"].decode(), int(example["channel"])
        start, valid = int(example["start"]), int(example["valid"])
        assert not example["waveform"][valid:].any()
        parts.setdefault(key, []).append((start, start + valid, example["waveform"][:valid]))
    joined = {}
    for key, pieces in parts.items():
        samples = np.empty(max(end for _, end, _ in pieces), np.float32)
        done = 0
        for start, end, piece in sorted(pieces, key=lambda item: item[0]):
            assert start <= done, (key, start, done)
            np.testing.assert_array_equal(samples[start:done], piece[: done - start])
            samples[start:end] = piece
            done = end
        joined[key] = samples
    return joined


def assert_signals(
    dataset: Path, expected: Mapping[tuple[str, int], np.ndarray], *, within: float = 0.0
) -> None:
    """The examples are those of these recordings, sample by sample, and each spectrum is that of float64.

    Args:
      dataset: made with `--keep-waveform`.
      expected: (recording, channel) to all its samples, rounded to float32 for the comparison.
      within: how much a sample may differ; if it is not 0, spectra are held against the kept samples.
    """
    found = signals(dataset)
    assert found.keys() == expected.keys()
    for key, samples in expected.items():
        stored = np.asarray(samples).astype(np.float32)
        assert found[key].shape == stored.shape, key
        if within:
            assert np.abs(found[key] - np.asarray(samples, np.float64)).max() <= within, key
        else:
            np.testing.assert_array_equal(found[key], stored, err_msg=str(key))
    for example in read_examples(dataset):
        samples = np.asarray(expected[example["recording"].decode(), int(example["channel"])], np.float64)
        segment, start = np.zeros(len(example["waveform"])), int(example["start"])
        real = samples[start : start + len(segment)]
        segment[: len(real)] = real
        assert example["valid"] == len(real)
        assert_spectrum(example["spectrum"], example["waveform"] if within else segment)


def assert_balanced(dataset: Path) -> None:
    """Metadata, ledger and reject lines tell the same story, and `verify` agrees."""
    counts = metadata(dataset)["counts"]
    assert counts["recordings"]["matched"] == counts["recordings"]["used"] + counts["recordings"]["rejected"]
    assert counts["segments"]["planned"] == counts["segments"]["examples"] + counts["segments"]["rejected"]
    assert counts["segments"]["examples"] == len(read_examples(dataset))
    rows = ledger(dataset).values()
    assert sum(row["segments_written"] for row in rows) == counts["segments"]["examples"]
    assert sum(row["segments_planned"] for row in rows) == counts["segments"]["planned"]
    for row in rows:
        assert row["segments_planned"] == row["segments_written"] + row["segments_rejected"], row["id"]
    assert run("verify", dataset).code == 0

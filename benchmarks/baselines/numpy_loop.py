"""Baseline: numpy, one file after another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

EPSILON = np.float32(1e-6)


def extract(files: Sequence[Path], out: Path) -> int:
    """Writes one .npy file with a float32 log-spectrum for each waveform file; returns how many."""
    for file in files:
        waveform = np.fromfile(file, dtype="<f4")
        spectrum = np.log(np.abs(np.fft.rfft(waveform)) + EPSILON)
        np.save(out / file.with_suffix(".npy").name, spectrum.astype(np.float32, copy=False))
    return len(files)

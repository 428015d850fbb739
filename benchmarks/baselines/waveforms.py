"""The input of the benchmark: simulated captures of bearing vibration, all different.

    python benchmarks/baselines/waveforms.py FOLDER COUNT

Writes COUNT headerless little-endian float32 files of 16384 samples (65,536 bytes) to a new folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

SAMPLES, SAMPLE_RATE = 16_384, 12_000
DISTINCT = 100  # the files are so many waveforms, times slightly different gains


def make_waveforms() -> np.ndarray:
    """Float32 [DISTINCT, SAMPLES]: shaft harmonics, impacts that ring a resonance, and noise."""
    random = np.random.default_rng(0)
    time_s = np.arange(SAMPLES) / SAMPLE_RATE
    waveforms = np.empty((DISTINCT, SAMPLES), np.float32)
    for waveform in waveforms:
        shaft_hz, impact_hz, resonance_hz = random.uniform((25, 80, 2000), (35, 180, 4000))
        since_impact_s = (time_s + random.uniform()) % (1 / impact_hz)
        waveform[:] = 0.05 * random.standard_normal(SAMPLES)
        waveform += 0.5 * np.exp(-900 * since_impact_s) * np.sin(2 * np.pi * resonance_hz * since_impact_s)
        for order in (1, 2, 3):
            phase = random.uniform(0, 2 * np.pi)
            waveform += 0.1 / order * np.sin(2 * np.pi * order * shaft_hz * time_s + phase)
    return waveforms


def write_waveforms(folder: Path, count: int) -> None:
    """Writes the files capture_0000000.raw and so on."""
    folder.mkdir(parents=True)
    waveforms = make_waveforms()
    for number in range(count):
        gain = np.float32(1 + 1e-6 * (number // DISTINCT))
        (waveforms[number % DISTINCT] * gain).astype("<f4").tofile(folder / f"capture_{number:07d}.raw")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    write_waveforms(Path(sys.argv[1]), int(sys.argv[2]))

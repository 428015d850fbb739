"""Simulated bearing vibration, with known peaks, to try things with.

A captured signal is the sum of
- shaft harmonics: a sine at 1, 2 and 3 times the shaft's rate;
- for a damaged bearing, impulses at the fault's characteristic frequency (with a little slip), each ringing
  a structural resonance as a damped sine; for an inner-race fault they swell once a turn, as the damage
  passes through the load zone, for a ball fault with the cage's rate;
- white noise.

Characteristic frequencies follow from the geometry (n balls of diameter d on a pitch circle of diameter D,
contact angle 0) in multiples of the shaft's rate: outer race n/2·(1 − d/D), inner race n/2·(1 + d/D), ball
D/d·(1 − (d/D)²) for a ball that strikes both races, cage ½·(1 − d/D). (R. B. Randall, J. Antoni, "Rolling
element bearing diagnostics — a tutorial", Mechanical Systems and Signal Processing 25, 2011.)
"""

from __future__ import annotations

import json
import os
import shutil

import numpy as np

from ..transforms.dataset import write_json
from .settings import SettingsError
from .summary import program

SAMPLE_RATE = 25_600.0
SAMPLES = 16_384
BIN_HZ = SAMPLE_RATE / SAMPLES  # 1.5625
SHAFT_BINS = (18, 19, 20, 21)  # so that the harmonics lie on bins: 28.1 to 32.8 Hz, 1688 to 1969 rpm
SHAFT_AMPLITUDES = (0.10, 0.05, 0.025)
BALLS, BALL_TO_PITCH = 9, 0.2032
CAGE = 0.5 * (1 - BALL_TO_PITCH)
# fault: (impulses per turn, resonance in Hz)
FAULTS = {
    "ball": ((1 - BALL_TO_PITCH**2) / BALL_TO_PITCH, 2_800.0),
    "inner_race": (BALLS / 2 * (1 + BALL_TO_PITCH), 4_200.0),
    "outer_race": (BALLS / 2 * (1 - BALL_TO_PITCH), 3_400.0),
}
CLASSES = (*sorted(FAULTS), "normal")
DAMPING = 900.0  # 1/s: an impulse has rung down to 1/e after 1.1 ms
IMPULSE, NOISE, SLIP = 0.8, 0.05, 0.005


def simulate(condition: str, shaft_bin: int, random: np.random.Generator) -> np.ndarray:
    """One capture, float32 [16384], in g.

    Args:
      condition: one of `CLASSES`.
      shaft_bin: the shaft's rate in bins of 1.5625 Hz.
      random: where noise, slip and phases come from.
    """
    time_s = np.arange(SAMPLES) / SAMPLE_RATE
    shaft_hz = shaft_bin * BIN_HZ
    signal = NOISE * random.standard_normal(SAMPLES)
    for order, amplitude in enumerate(SHAFT_AMPLITUDES, 1):
        signal += amplitude * np.sin(2 * np.pi * order * shaft_hz * time_s + random.uniform(0, 2 * np.pi))
    if condition in FAULTS:
        per_turn, resonance_hz = FAULTS[condition]
        signal += _ringing(condition, per_turn * shaft_hz, resonance_hz, shaft_hz, random)
    return signal.astype(np.float32)


def _ringing(
    condition: str, impulse_hz: float, resonance_hz: float, shaft_hz: float, random: np.random.Generator
) -> np.ndarray:
    """The fault's impulses, each a damped sine at the resonance."""
    count = int(SAMPLES / SAMPLE_RATE * impulse_hz) + 2
    slip = 1 + SLIP * random.standard_normal(count)
    times_s = (random.uniform(0, 1) + np.arange(count) + (slip - 1)) / impulse_hz
    turn_hz = {"inner_race": shaft_hz, "ball": CAGE * shaft_hz}.get(condition, 0.0)
    weights = 1 + 0.6 * np.cos(2 * np.pi * turn_hz * times_s) if turn_hz else np.ones(count)
    train = np.zeros(SAMPLES)
    positions = np.round(times_s * SAMPLE_RATE).astype(int)
    inside = positions < SAMPLES
    np.add.at(train, positions[inside], IMPULSE * weights[inside])
    decay_s = np.arange(int(8 / DAMPING * SAMPLE_RATE)) / SAMPLE_RATE
    response = np.exp(-DAMPING * decay_s) * np.sin(2 * np.pi * resonance_hz * decay_s)
    return np.convolve(train, response)[:SAMPLES]


def write_sample(output: str, count: int, seed: int) -> str:
    """Writes `count` captures, as headerless little-endian float32 files, one folder a class.

    Returns:
      what to tell the user.

    Raises:
      SettingsError: the count is below 1, or the folder holds other files.
    """
    if count < 1 or seed < 0:
        raise SettingsError(f"count={count} must be 1 or more, and seed={seed} 0 or more")
    if os.path.isdir(output) and os.listdir(output):
        raise SettingsError(f"output={output} is not empty: name a new folder")
    partial = f"{output.rstrip('/')}.partial"  # renamed when complete
    shutil.rmtree(partial, ignore_errors=True)
    for name in CLASSES:
        os.makedirs(os.path.join(partial, name))
    for number in range(count):
        name = CLASSES[number % len(CLASSES)]
        shaft_bin = SHAFT_BINS[number // len(CLASSES) % len(SHAFT_BINS)]
        samples = simulate(name, shaft_bin, np.random.default_rng([seed, number]))
        path = os.path.join(partial, name, f"shaft{shaft_bin}_{number:05d}.raw")
        with open(path, "wb") as file:
            file.write(samples.astype("<f4").tobytes())
    write_json(os.path.join(partial, "about.json"), _about())
    if os.path.isdir(output):
        os.rmdir(output)
    os.rename(partial, output)
    return (
        f"{count:,} simulated captures of {SAMPLES} samples in {len(CLASSES)} classes in {output}\n"
        f"Next: {program()} extract --input {output} --output features --raw-dtype '<f4' "
        f"--sample-rate {SAMPLE_RATE:g} --label-from 'path:^(?P<label>[a-z_]+)/'"
    )


def _about() -> dict:
    """The peaks that were put in."""
    return json.loads(
        json.dumps(
            {
                "raw_dtype": "<f4",
                "sample_rate": SAMPLE_RATE,
                "samples": SAMPLES,
                "unit": "g",
                "shaft_hz": [shaft_bin * BIN_HZ for shaft_bin in SHAFT_BINS],
                "shaft_amplitudes": SHAFT_AMPLITUDES,
                "impulses_per_turn": {name: fault[0] for name, fault in FAULTS.items()},
                "resonance_hz": {name: fault[1] for name, fault in FAULTS.items()},
                "noise": NOISE,
            }
        )
    )

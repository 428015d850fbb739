"""Files with known samples."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile


def noise(samples: int, seed: int = 0) -> np.ndarray:
    """White noise with a sine on top, float32 [samples]."""
    random = np.random.default_rng(seed)
    tone = np.sin(2 * np.pi * (0.01 + 0.001 * seed) * np.arange(samples))
    return (tone + 0.1 * random.standard_normal(samples)).astype(np.float32)


def write_raw(path: Path, samples: np.ndarray, dtype: str = "<f4", header: bytes = b"") -> Path:
    """Headerless samples; [frames, channels] are interleaved."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(header + np.ascontiguousarray(samples).astype(dtype).tobytes())
    return path


def write_wav(path: Path, samples: np.ndarray, rate: int = 8000, subtype: str = "PCM_16") -> Path:
    """A WAV file from samples in [-1, 1), or from integers as they are."""
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, samples, rate, subtype=subtype)
    return path


def write_recordings(folder: Path, count: int, samples: int = 256) -> list[Path]:
    """`count` small raw files in two folders."""
    return [write_raw(folder / "ab"[i % 2] / f"r{i:03d}.raw", noise(samples, i)) for i in range(count)]

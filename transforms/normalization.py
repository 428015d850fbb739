"""Features in standard deviations from a mean, by the statistics of another dataset."""

from __future__ import annotations

import dataclasses
import hashlib
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from .features.base import Feature, constant
from .statistics import Statistics, from_file, to_bytes

Normalization = Mapping[str, Statistics]  # by the key of the feature

_FLOAT32 = np.finfo(np.float32)


def normalized(feature: Feature, statistics: Statistics) -> Feature:
    """A feature whose values are (value − mean) / std along its last axis; value − mean where std is none.

    A deviation below what float32 tells apart at the mean is none: it is that of rounding errors.

    Args:
      feature: as computed.
      statistics: of its values, with as many bins as its last axis.
    """
    mean, std = statistics.mean, statistics.std
    least = np.maximum(_FLOAT32.tiny, _FLOAT32.eps * np.abs(mean))
    deviation = np.where(std > least, std, 1.0)

    def graph(waveform: Any, valid: Any, *bank: Any) -> Any:
        values = feature.graph(waveform, valid, *bank)
        return (values - constant(mean, values)) / constant(deviation, values)

    def back(values: np.ndarray) -> np.ndarray:
        return values.astype(np.float64) * deviation + mean

    return dataclasses.replace(
        feature,
        graph=graph,
        linear=lambda values: feature.linear(back(values)),
        near_epsilon=lambda values: feature.near_epsilon(back(values)),
        jit_tolerance=4 * feature.jit_tolerance,  # of two more operations
        compares_silence=False,
    )


def normalization_id(normalization: Normalization) -> str | None:
    """Names what features are normalised by: every mean and deviation; None where they are not."""
    if not normalization:
        return None
    total = hashlib.blake2b(digest_size=16)
    for key, statistics in sorted(normalization.items()):
        total.update(f"{key}\0{len(statistics.m2)}\0".encode())
        for values in (statistics.mean, statistics.std):
            total.update(values.astype("<f8").tobytes())
    return total.hexdigest()


def save_normalization(path: str, normalization: Normalization) -> None:
    """Writes it for `read_normalization`."""
    with open(path, "wb") as file:
        file.write(to_bytes(normalization))


def read_normalization(path: str, name: str | None) -> Normalization | None:
    """What `save_normalization` wrote; None where features are not normalised.

    Args:
      path: of the file.
      name: the `normalization_id` that it must have, or None where nothing is normalised.

    Raises:
      OSError, ValueError: it is not there, or is another.
    """
    if name is None:
        return None
    if not os.path.exists(path):
        raise FileNotFoundError(
            f"{path}, by which features are normalised, is not there: start the run again"
        )
    normalization = from_file(path)
    if normalization_id(normalization) != name:
        raise ValueError(f"{path} holds other statistics than were planned: start the run again")
    return normalization

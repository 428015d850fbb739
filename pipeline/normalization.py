"""The statistics of another dataset, by which features are normalised before they are stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..transforms import frontend
from ..transforms.dataset import Dataset, DatasetError, load_dataset
from ..transforms.features.base import Feature
from ..transforms.statistics import Statistics, from_file
from .settings import Settings, SettingsError


def load_normalization(
    features: Mapping[str, Feature], unit: str | None, settings: Settings
) -> tuple[dict[str, Statistics], list[str]]:
    """Key of each feature to its statistics in the dataset `normalize_with`; nothing where none is named.

    Args:
      features: by key, not normalised.
      unit: of the samples, or None.
      settings: with the name.

    Returns:
      the statistics, and a warning where the other dataset's samples have another unit, or one does not say its own.

    Raises:
      SettingsError: there is no such dataset, or it holds other features.
    """
    if settings.normalize_with is None or not features:
        return {}, []
    where = f"normalize_with={settings.normalize_with}"
    try:
        dataset = load_dataset(settings.normalize_with)
        statistics = from_file(dataset.layout.statistics)
    except (DatasetError, OSError, ValueError) as error:
        raise SettingsError(f"{where}: {error}: name a dataset of spectrabeam") from None
    if other := dataset.metadata["settings"].get("normalize_with"):
        raise SettingsError(f"{where} was itself normalised: name {other}, with which it was")
    _require_same_algorithm(dataset, where)
    for key, kind in frontend.settings_json(frontend.feature_settings(settings)).items():
        _require_same(dataset, key, kind, features[key], settings, where)
        _require_usable(statistics.get(key), key, features[key], where)
    return {key: statistics[key] for key in features}, _unit_warning(dataset, unit, where)


def _require_same_algorithm(dataset: Dataset, where: str) -> None:
    """Refuses numbers of a version that computes otherwise: today's settings would have another name."""
    metadata = dataset.metadata
    kinds = frontend.feature_settings(frontend.FrontendSettings(features=metadata["settings"]["features"]))
    name = frontend.frontend_id(
        kinds,
        metadata["segment_length"],
        metadata["sample_rate"],
        metadata["settings"]["precision"],
        is_complex=bool(metadata.get("is_complex")),
    )
    if name != metadata["frontend"]:
        raise SettingsError(
            f"{where} was made by a version that computes otherwise: make it again, or name another"
        )


def _require_same(
    dataset: Dataset, key: str, kind: Mapping[str, Any], feature: Feature, settings: Settings, where: str
) -> None:
    """Refuses statistics of numbers that mean something else."""
    metadata = dataset.metadata
    stored = metadata["settings"]["features"]
    if key not in stored:
        raise SettingsError(
            f"{where} has no feature {key}, only {', '.join(stored) or 'none'}: name another dataset, or the same features"
        )
    for what, theirs, ours in (
        ("settings", stored[key], kind),
        ("axes", metadata["axes"][key], feature.axes),
        ("scale of samples", metadata["scale"], settings.scale),
        ("sensitivity", metadata["settings"].get("sensitivity"), settings.sensitivity),
    ):
        if theirs != ours:
            raise SettingsError(
                f"{where}: {key} has other {what}, {theirs} there and {ours} here: use the same"
            )


def _require_usable(statistics: Statistics | None, key: str, feature: Feature, where: str) -> None:
    if statistics is None or not statistics.count:
        raise SettingsError(f"{where} has no statistics of {key}, since it has no example: name another")
    bins = feature.shape[-1]
    if len(statistics.m2) != bins or not np.isfinite([statistics.mean, statistics.std]).all():
        raise SettingsError(
            f"{where}: its statistics of {key} are not {bins} finite means and deviations: make it again"
        )


def _unit_warning(dataset: Dataset, unit: str | None, where: str) -> list[str]:
    theirs = dataset.metadata.get("unit")
    if theirs == unit:
        return []
    return [
        f"samples are in {unit or 'no stated unit'}, and those of {where} in {theirs or 'no stated unit'}: "
        "see that they are the same"
    ]

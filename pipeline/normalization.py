"""The statistics of another dataset, by which features are normalised before they are stored."""

from __future__ import annotations

from collections.abc import Mapping

from ..transforms import frontend
from ..transforms.dataset import Dataset, DatasetError, load_dataset
from ..transforms.features.base import Feature
from ..transforms.statistics import Statistics, from_file
from .settings import Settings, SettingsError


def load_normalization(features: Mapping[str, Feature], settings: Settings) -> dict[str, Statistics]:
    """Key of each feature to its statistics in the dataset `normalize_with`; nothing where none is named.

    Args:
      features: by key, not normalised.
      settings: with the name.

    Raises:
      SettingsError: there is no such dataset, or it holds other features.
    """
    if settings.normalize_with is None:
        return {}
    where = f"normalize_with={settings.normalize_with}"
    try:
        dataset = load_dataset(settings.normalize_with)
        statistics = from_file(dataset.layout.statistics)
    except (DatasetError, OSError, ValueError) as error:
        raise SettingsError(f"{where}: {error}: name a dataset of spectrabeam") from None
    if other := dataset.metadata["settings"].get("normalize_with"):
        raise SettingsError(f"{where} was itself normalised: name {other}, with which it was")
    for key, kind in frontend.settings_json(frontend.feature_settings(settings)).items():
        _require_same(dataset, key, kind, features[key], settings, where)
        if key not in statistics or not statistics[key].count:
            raise SettingsError(f"{where} has no statistics of {key}, since it has no example: name another")
    return {key: statistics[key] for key in features}


def _require_same(
    dataset: Dataset, key: str, kind: dict, feature: Feature, settings: Settings, where: str
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
    ):
        if theirs != ours:
            raise SettingsError(
                f"{where}: {key} has other {what}, {theirs} there and {ours} here: use the same"
            )

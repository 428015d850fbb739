"""Frontends: the graph from waveforms to features, the same in the pipeline and in the exported model."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Literal

import numpy as np
import pydantic

from .declare import setting, settings_group
from .device import load_tensorflow
from .schema import RESERVED, FeatureSpec

ALGORITHM_VERSION = 1  # raised when the same settings come to mean other numbers


@settings_group
class LogSpectrum:
    """The natural logarithm of the one-sided magnitude spectrum, log(|rfft(x)| + ε).

    The discrete Fourier transform is unnormalised: a sine of amplitude A on bin k has magnitude A·N/2
    there, N = segment_length.
    """

    kind: Literal["log_spectrum"] = "log_spectrum"
    epsilon: float = setting(
        1e-6, "added to the magnitude before the logarithm, in the unit of the samples", ge=1e-37, le=1e30
    )

    def spec(self, segment_length: int) -> FeatureSpec:
        """float32 [bins], bins = N // 2 + 1."""
        return FeatureSpec("float32", (segment_length // 2 + 1,))

    def axes(self, segment_length: int, sample_rate: float) -> list[dict[str, Any]]:
        """Bin k lies at k · sample_rate / N Hz."""
        spacing = sample_rate / segment_length
        return [
            {
                "name": "frequency",
                "unit": "Hz",
                "first": 0.0,
                "step": spacing,
                "count": segment_length // 2 + 1,
            }
        ]

    def graph(self, waveform: Any) -> Any:
        """float32 [batch, segment_length] to float32 [batch, bins]."""
        tf = load_tensorflow()
        return tf.math.log(tf.abs(tf.signal.rfft(waveform)) + self.epsilon)

    def near_epsilon(self, key: str, values: np.ndarray) -> str | None:
        """A warning where over half of the stored values are those of magnitudes below ten times ε."""
        share = float((self.magnitude(values) <= 10 * self.epsilon).mean())
        if share <= 0.5:
            return None
        return (
            f"{key}: {share:.0%} of the bins lie within ten times epsilon={self.epsilon:g}, which hides them: "
            "set a smaller epsilon, or a scale that suits the unit"
        )

    def magnitude(self, values: np.ndarray) -> np.ndarray:
        """|rfft(x)| from stored values, as float64: the scale on which precision is stated."""
        return np.exp(values.astype(np.float64)) - self.epsilon


DEFAULT_KEYS = {"log_spectrum": "spectrum"}


@settings_group
class FrontendSettings:
    """Which features, and how they are computed."""

    features: dict[str, LogSpectrum] | None = setting(
        None,
        "kinds of features, comma-separated, so far log_spectrum alone; in YAML a mapping from key to kind and settings",
        metavar="KIND,…",
    )
    epsilon: float | None = setting(
        None,
        "added to a spectrum's magnitude before the logarithm (1e-6), where features has no YAML mapping",
        ge=1e-37,
        le=1e30,
    )
    batch_size: int = setting(64, "segments computed at once; the last batch of a shard is padded", ge=1)
    jit: Literal["auto", "on", "off"] = setting("auto", "XLA: auto uses it where a start-up check passes")
    device: Literal["auto", "cpu", "gpu"] = setting("auto", "where the graph runs", content=False)

    @pydantic.field_validator("features", mode="before")
    @classmethod
    def _by_name(cls, features: Any) -> Any:
        if isinstance(features, str):
            kinds = [kind.strip() for kind in features.split(",") if kind.strip()]
            return {DEFAULT_KEYS.get(kind, kind): {"kind": kind} for kind in kinds}
        return features

    @pydantic.field_validator("features")
    @classmethod
    def _key_names(cls, features: dict[str, LogSpectrum] | None) -> dict[str, LogSpectrum] | None:
        for key in features or ():
            if key in RESERVED or not key.isidentifier() or not key.isascii():
                raise ValueError(
                    f"{key!r} cannot be a feature's key: use letters, digits and _, and none of {sorted(RESERVED)}"
                )
        return features


def feature_settings(settings: FrontendSettings) -> dict[str, LogSpectrum]:
    """Key to feature, with the default spectrum where nothing is said."""
    if settings.features is not None:
        return dict(sorted(settings.features.items()))
    return {"spectrum": LogSpectrum() if settings.epsilon is None else LogSpectrum(epsilon=settings.epsilon)}


def feature_specs(features: dict[str, LogSpectrum], segment_length: int) -> dict[str, FeatureSpec]:
    """Key to shape and type, without TensorFlow."""
    return {key: feature.spec(segment_length) for key, feature in features.items()}


def settings_json(features: dict[str, LogSpectrum]) -> dict[str, dict]:
    """Key to kind and settings, for metadata."""
    return {
        key: pydantic.TypeAdapter(type(feature)).dump_python(feature) for key, feature in features.items()
    }


def frontend_id(features: dict[str, LogSpectrum], segment_length: int) -> str:
    """Names what is computed: kinds, settings and algorithm version, never a hash of model files."""
    what = {
        "version": ALGORITHM_VERSION,
        "segment_length": segment_length,
        "features": settings_json(features),
    }
    return hashlib.blake2b(json.dumps(what, sort_keys=True).encode(), digest_size=16).hexdigest()


def compute_features(features: dict[str, LogSpectrum], waveform: Any) -> dict[str, Any]:
    """The graph of every feature: float32 [batch, segment_length] to {key: float32 [batch, …]}."""
    return {key: feature.graph(waveform) for key, feature in features.items()}


def make_module(features: dict[str, LogSpectrum], segment_length: int) -> Any:
    """A `tf.Module` whose `__call__` maps float32 [batch, segment_length] to {key: float32 [batch, …]}.

    Its signature leaves the batch axis open, so it can be saved and serve any batch.
    """
    tf = load_tensorflow()

    class Frontend(tf.Module):
        @tf.function(
            input_signature=[tf.TensorSpec([None, segment_length], tf.float32, name="waveform")],
            autograph=False,
        )
        def __call__(self, waveform: Any) -> dict[str, Any]:
            return compute_features(features, waveform)

    return Frontend(name="frontend")


def save_module(module: Any, folder: str) -> None:
    """Writes a SavedModel: serving_default(waveform float32 [None, segment_length]) → the feature keys."""
    tf = load_tensorflow()
    tf.saved_model.save(module, folder, signatures=module.__call__.get_concrete_function())

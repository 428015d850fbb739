"""The frontend as a Keras layer, for models that take waveforms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pydantic

from . import frontend
from .declare import problems_of
from .device import load_tensorflow, quiet_stderr
from .features.base import window_of

tf = load_tensorflow()
with quiet_stderr():
    import keras


@keras.saving.register_keras_serializable(package="spectrabeam")
class SpectralFrontend(keras.layers.Layer):
    """From waveforms float32 [batch, segment_length] to {key: float32 [batch, …]}, differentiable.

    The layer is float32 from its input on, whatever the model's precision: under mixed_bfloat16 Keras would round
    the waveform before the layer sees it, and 1.6e-3 of a spectrum's peak would be lost.

    Args:
      features: as in a settings file: a mapping of key to kind and settings, or names with commas.
      segment_length: samples of a row.
      sample_rate: Hz.
      precision: float32 or float64, in which everything is computed.
      is_complex: whether waveforms are complex64.
      trainable_window: a window by scipy's name that each row is multiplied with first, and that is learned.
      trainable_bank: whether the filter banks of features that have one (log_mel, mfcc, pcen) are learned, from theirs
        on; filters stay non-negative.
      **options: Keras' own, such as `name`.

    Raises:
      ValueError: features that are none, or do not go with length and rate, or have no filter bank to be learned.
    """

    def __init__(
        self,
        features: Mapping[str, Any] | str = "log_spectrum",
        *,
        segment_length: int,
        sample_rate: float,
        precision: str = "float32",
        is_complex: bool = False,
        trainable_window: str | None = None,
        trainable_bank: bool = False,
        **options: Any,
    ):
        super().__init__(**{**options, "dtype": "float32"})
        try:
            settings = frontend.FrontendSettings(features=features)  # type: ignore[arg-type]
        except pydantic.ValidationError as error:
            raise ValueError(problems_of(error)) from None
        if not isinstance(trainable_window, str | None):
            raise ValueError(f"trainable_window={trainable_window} must be a window's name, such as hann")
        kinds = frontend.feature_settings(settings)
        self._features = frontend.build_features(kinds, segment_length, sample_rate, is_complex=is_complex)
        self._config = {
            "features": frontend.settings_json(kinds),
            "segment_length": segment_length,
            "sample_rate": sample_rate,
            "precision": precision,
            "is_complex": is_complex,
            "trainable_window": trainable_window,
            "trainable_bank": trainable_bank,
        }
        self._window = None
        if trainable_window is not None:
            self._window = self._learned("window", window_of(trainable_window, segment_length))
        banks = {key: feature.bank for key, feature in self._features.items() if feature.bank is not None}
        if trainable_bank and not banks:
            raise ValueError(
                f"trainable_bank: none of {', '.join(self._features)} has a filter bank: take log_mel, mfcc or pcen"
            )
        self._banks = (
            {
                key: self._learned(f"{key}_bank", bank, keras.constraints.NonNeg())
                for key, bank in banks.items()
            }
            if trainable_bank
            else {}
        )

    def _learned(self, name: str, start: np.ndarray, constraint: Any = None) -> Any:
        return self.add_weight(
            shape=start.shape,
            initializer=lambda shape, dtype=None: tf.constant(start, dtype),
            constraint=constraint,
            name=name,
        )

    def build(self, input_shape: Any) -> None:
        """Takes rows of segment_length samples, and nothing else.

        Raises:
          ValueError: the shape is another.
        """
        self._require_rows(tuple(input_shape))
        super().build(input_shape)

    def _require_rows(self, shape: tuple) -> None:
        length = self._config["segment_length"]
        if len(shape) != 2 or shape[1] != length:
            raise ValueError(
                f"waveforms of shape {shape} must be [batch, segment_length={length}]: cut or squeeze them"
            )

    def call(self, inputs: Any, valid: Any = None) -> dict[str, Any]:
        """The features of each row.

        Args:
          inputs: float32, or complex64 where samples are complex, [batch, segment_length].
          valid: int [batch], real samples of each row, for kinds that tell them from padding; all if not given.

        Raises:
          ValueError: inputs of another shape.
        """
        self._require_rows(tuple(inputs.shape))
        if tf.as_dtype(inputs.dtype).is_complex and not self._config["is_complex"]:
            raise ValueError("waveforms are complex: set is_complex, or give real ones")
        waveform = tf.cast(inputs, tf.complex64 if self._config["is_complex"] else tf.float32)
        if self._window is not None:
            waveform *= tf.cast(self._window, waveform.dtype)
        values = frontend.compute_features(
            self._features, waveform, valid, self._config["precision"], self._banks
        )
        return {key: tf.cast(value, tf.float32) for key, value in values.items()}

    def compute_output_shape(self, input_shape: Any) -> dict[str, tuple]:
        """Key to [batch, …]."""
        return {key: (input_shape[0], *feature.shape) for key, feature in self._features.items()}

    def get_config(self) -> dict[str, Any]:
        """What it is made of, so that Keras can save it."""
        return {**super().get_config(), **self._config}

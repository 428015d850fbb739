"""Spectral losses: distances between waveforms that models can be trained with.

Each is a group of settings, as a trainer's YAML has them, and a call (true, predicted, valid) → float [batch]. Gradients are
finite for silence, for padding and for equal waveforms. Logarithms are natural and taken in float32 or float64.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pydantic

from .declare import setting, settings_group
from .device import load_tensorflow
from .features.base import bin_frequencies, constant, fit, magnitude_of, window_of

Loss = Any  # one of the classes below


@settings_group
class LogSpectralDistance:
    """Root mean square over the bins of 20 log10((|X| + ε) / (|Y| + ε)), in dB.

    Source: Gray and Markel, Distance measures for speech processing (1976), eq. 5, with ε so that silence has a logarithm.
    """

    kind: Literal["log_spectral_distance"] = "log_spectral_distance"
    epsilon: float = setting(1e-6, "added to magnitudes, in the unit of the samples", gt=0)
    fft_length: pydantic.PositiveInt | None = setting(
        None, "points of the FFT; the waveform's length if not given"
    )

    def __call__(self, true: Any, predicted: Any, valid: Any = None) -> Any:
        """Waveforms float [batch, samples], with `valid` int [batch] real samples each, to float [batch]."""
        tf = load_tensorflow()
        true, predicted = _real_samples(true, predicted, valid)
        points = self.fft_length or true.shape[-1]
        logs = [tf.math.log(_spectrum(each, points) + self.epsilon) for each in (true, predicted)]
        return (20 / np.log(10)) * _root(tf.reduce_mean(tf.square(logs[0] - logs[1]), axis=-1))


@settings_group
class MultiResolutionStft:
    """Spectral convergence and the mean absolute difference of log magnitudes, averaged over several FFT lengths.

    Of each length: ‖|X| − |Y|‖ / (‖|X|‖ + ε) + mean |log(|X| + ε) − log(|Y| + ε)|, with periodic Hann windows as long as the
    FFT, a quarter apart, without centring. Source: Yamamoto et al., Parallel WaveGAN (2020), arXiv:1910.11480, eq. 4 to 6.
    """

    kind: Literal["multi_resolution_stft"] = "multi_resolution_stft"
    fft_lengths: tuple[pydantic.PositiveInt, ...] = setting(
        (512, 1024, 2048), "points of each FFT", min_length=1
    )
    epsilon: float = setting(1e-6, "added to magnitudes, in the unit of the samples", gt=0)

    def __call__(self, true: Any, predicted: Any, valid: Any = None) -> Any:
        """Waveforms float [batch, samples], with `valid` int [batch] real samples each, to float [batch].

        Raises:
          ValueError: the waveforms are shorter than an FFT.
        """
        tf = load_tensorflow()
        true, predicted = _real_samples(true, predicted, valid)
        total = tf.zeros_like(true[:, 0])
        for points in self.fft_lengths:
            if points > true.shape[-1]:
                raise ValueError(
                    f"fft_lengths={points} is above the {true.shape[-1]} samples of the waveforms: leave it out"
                )
            one, two = (_frames(each, points) for each in (true, predicted))
            convergence = _norm(one - two) / (_norm(one) + self.epsilon)
            logs = tf.math.log(one + self.epsilon) - tf.math.log(two + self.epsilon)
            total += convergence + tf.reduce_mean(tf.abs(logs), axis=[1, 2])
        return total / len(self.fft_lengths)


@settings_group
class BandWeighted:
    """Mean of the squared difference of log magnitudes in each band, weighted and divided by the weights' sum."""

    kind: Literal["band_weighted"] = "band_weighted"
    bands: tuple[tuple[float, float, float], ...] = setting(
        (), "low Hz, high Hz, weight of each", min_length=1
    )
    sample_rate: float = setting(0.0, "Hz", gt=0)
    epsilon: float = setting(1e-6, "added to magnitudes, in the unit of the samples", gt=0)

    @pydantic.field_validator("bands")
    @classmethod
    def _check(cls, bands: tuple[tuple[float, float, float], ...]) -> tuple[tuple[float, float, float], ...]:
        for low, high, weight in bands:
            if not (0 <= low < high and weight > 0):
                raise ValueError(
                    f"{low:g},{high:g},{weight:g} must be low and high in Hz and a weight above 0"
                )
        return bands

    def __call__(self, true: Any, predicted: Any, valid: Any = None) -> Any:
        """Waveforms float [batch, samples], with `valid` int [batch] real samples each, to float [batch].

        Raises:
          ValueError: a band holds no bin.
        """
        tf = load_tensorflow()
        true, predicted = _real_samples(true, predicted, valid)
        weights = self._weights(true.shape[-1])
        logs = [tf.math.log(_spectrum(each, true.shape[-1]) + self.epsilon) for each in (true, predicted)]
        return tf.reduce_sum(tf.square(logs[0] - logs[1]) * constant(weights, true), axis=-1)

    def _weights(self, samples: int) -> np.ndarray:
        """Of each bin, float64 [bins], of sum 1."""
        frequencies = bin_frequencies(samples, self.sample_rate)
        weights = np.zeros(len(frequencies))
        for low, high, weight in self.bands:
            inside = (frequencies >= low) & (frequencies <= high)
            if not inside.any():
                raise ValueError(f"bands={low:g},{high:g} holds no bin of {samples} samples: widen it")
            weights[inside] += weight / inside.sum()
        return weights / weights.sum()


LOSSES = {each.kind: each for each in (LogSpectralDistance, MultiResolutionStft, BandWeighted)}


def make_loss(settings: Mapping[str, Any]) -> Loss:
    """A loss from a mapping such as {kind: multi_resolution_stft, fft_lengths: [256, 512]}.

    Raises:
      ValueError: there is no such kind or setting, or a value breaks its rule.
    """
    kind = settings.get("kind")
    if kind not in LOSSES:
        close = difflib.get_close_matches(str(kind), LOSSES, n=1)
        raise ValueError(
            f"kind={kind} is no loss{f', did you mean {close[0]}?' if close else ''}: there are {', '.join(LOSSES)}"
        )
    try:
        return LOSSES[kind](**settings)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ValueError(f"{kind}: {place}: {first['msg'].removeprefix('Value error, ')}") from None


def _real_samples(true: Any, predicted: Any, valid: Any) -> tuple[Any, Any]:
    """Both in float32 or float64, with zeros behind the real samples."""
    tf = load_tensorflow()
    true, predicted = tf.convert_to_tensor(true), tf.convert_to_tensor(predicted)
    kind = tf.float64 if tf.float64 in (true.dtype, predicted.dtype) else tf.float32
    true, predicted = tf.cast(true, kind), tf.cast(predicted, kind)
    if valid is None:
        return true, predicted
    mask = tf.sequence_mask(valid, true.shape[-1], dtype=kind)
    return true * mask, predicted * mask


def _spectrum(samples: Any, points: int) -> Any:
    return magnitude_of(load_tensorflow().signal.rfft(fit(samples, points)))


def _frames(samples: Any, points: int) -> Any:
    """Magnitudes, float [batch, frames, bins]."""
    tf = load_tensorflow()
    frames = tf.signal.frame(samples, points, max(1, points // 4))
    return magnitude_of(tf.signal.rfft(frames * constant(window_of("hann", points), frames)))


def _norm(values: Any) -> Any:
    """Frobenius norm, float [batch, frames, bins] to [batch]."""
    tf = load_tensorflow()
    return _root(tf.reduce_sum(tf.square(values), axis=[1, 2]))


def _root(values: Any) -> Any:
    """The square root, with gradient 0 at 0, where it has none."""
    tf = load_tensorflow()
    none = values == 0
    return tf.where(none, tf.zeros_like(values), tf.sqrt(tf.where(none, tf.ones_like(values), values)))

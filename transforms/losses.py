"""Spectral losses: distances between waveforms that models can be trained with.

Each kind is a group of settings, as a trainer's YAML has them, and a call (true, predicted, valid) → float [batch]. float32 and
float64 are computed as they are; other types, such as bfloat16, become float32 first, so that no FFT or logarithm is in half
precision. Nothing here is a matrix product, which a GPU may round to TF32.

Gradients are finite for silence, for padding and for equal waveforms. Where a spectrum or a norm is exactly 0 they are 0: an
all-zero prediction is not pulled anywhere, so start from small random numbers.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import pydantic

from .declare import setting, settings_group, suggest
from .device import load_tensorflow, quiet_stderr
from .features.base import band_slice, bin_frequencies, constant, fix_length, log_of, magnitude_of, window_of

Loss = Any  # one of the classes below

# No smaller ε: gradients grow like 1 / ε, and float32 ends at 3.4e38 (`_root` has slopes up to 5e18).
Epsilon = Annotated[float, pydantic.Field(ge=1e-12, le=1e30)]
_ADDED = "added to magnitudes before the logarithm, in the unit of the samples times samples"


class _Spectral:
    """What the kinds share: a call on two waveforms, of which samples behind `valid` are taken for 0."""

    def __call__(self, true: Any, predicted: Any, valid: Any = None) -> Any:
        """The loss of each row.

        Args:
          true: float [batch, samples].
          predicted: of the same shape.
          valid: int [batch], real samples of each row; later ones are taken for 0 in both. All if not given.

        Returns:
          float32 [batch], or float64 where one of the waveforms is.

        Raises:
          ValueError: shapes that do not go together, or not with the settings; the message says which.
        """
        return self._of(*_real_samples(true, predicted, valid))

    def _of(self, true: Any, predicted: Any) -> Any:
        raise NotImplementedError


@settings_group
class LogSpectralDistance(_Spectral):
    """Root mean square over the bins of the difference of two power spectra in dB.

    With X and Y the one-sided DFTs of true and predicted, unscaled and without a window:
    d² = mean over k of (10 log10 (|X[k]| + ε)² − 10 log10 (|Y[k]| + ε)²)². ε stands beside the magnitude, not the power, so a
    silent bin is at 20 log10 ε dB. Each of the fft_length // 2 + 1 bins counts once. Symmetric in true and predicted.

    Source: A. H. Gray and J. D. Markel, Distance measures for speech processing, IEEE Trans. ASSP 24(5), 1976: the rms log
    spectral measure, with its integral over frequency taken over bins. ε is not of the source.
    """

    kind: Literal["log_spectral_distance"] = "log_spectral_distance"
    epsilon: Epsilon = setting(1e-6, _ADDED)
    fft_length: pydantic.PositiveInt | None = setting(
        None, "points of the FFT: later samples are left out, missing ones are 0; all samples if not given"
    )

    def _of(self, true: Any, predicted: Any) -> Any:
        """The distance of each row in dB."""
        tf = load_tensorflow()
        difference = _log_difference(true, predicted, self.fft_length or true.shape[-1], self.epsilon)
        return (20 / np.log(10)) * _root(tf.reduce_mean(tf.square(difference), axis=-1))


def log_spectral_distance(
    true: Any, predicted: Any, valid: Any = None, *, epsilon: float = 1e-6, fft_length: int | None = None
) -> Any:
    """`LogSpectralDistance` as a function: waveforms float [batch, samples] to dB, float [batch]."""
    return LogSpectralDistance(epsilon=epsilon, fft_length=fft_length)(true, predicted, valid)


@settings_group
class MultiResolutionStft(_Spectral):
    """Spectral convergence and the mean absolute difference of log magnitudes, averaged over several resolutions.

    Of each resolution, with |X| and |Y| the STFT magnitudes of true and predicted and ‖·‖ over frames and bins:
    ‖|X| − |Y|‖ / (‖|X|‖ + ε) + mean |ln(|X| + ε) − ln(|Y| + ε)|. Windows are periodic Hann windows. The first frame begins
    at the first sample and the last one ends within the waveform: nothing is centred or padded, so up to hop − 1 samples
    at the end are not looked at. Frames behind `valid` are 0 in both and count in the mean.

    The convergence is relative to the true waveform: not symmetric, and up to ‖|Y|‖ / ε where that is silent.

    Source: R. Yamamoto, E. Song and J.-M. Kim, Parallel WaveGAN, 2020, arXiv:1910.11480, the multi-resolution STFT auxiliary
    loss. The paper has no ε, and its windows are shorter than the FFT: see `window_lengths` and `hop_lengths`.
    """

    kind: Literal["multi_resolution_stft"] = "multi_resolution_stft"
    fft_lengths: tuple[pydantic.PositiveInt, ...] = setting(
        (512, 1024, 2048), "points of the FFT of each resolution", min_length=1
    )
    window_lengths: tuple[pydantic.PositiveInt, ...] | None = setting(
        None, "samples of each window and frame, at most fft_lengths; as long as the FFT if not given"
    )
    hop_lengths: tuple[pydantic.PositiveInt, ...] | None = setting(
        None, "samples from each frame to the next; a quarter of the FFT if not given"
    )
    epsilon: Epsilon = setting(1e-6, _ADDED + ", and to the norm that the convergence is divided by")

    @pydantic.model_validator(mode="after")
    def _check_lengths(self) -> MultiResolutionStft:
        for name in ("window_lengths", "hop_lengths"):
            given = getattr(self, name)
            if given is not None and len(given) != len(self.fft_lengths):
                raise ValueError(
                    f"{name}={_words(given)} must have one number for each of fft_lengths={_words(self.fft_lengths)}"
                )
        for fft, window, _ in self.resolutions:
            if window > fft:
                raise ValueError(f"window_lengths={window} must be <= its fft_length={fft}: shorten it")
        return self

    @property
    def resolutions(self) -> list[tuple[int, int, int]]:
        """Points of the FFT, samples of the window, samples from frame to frame, of each."""
        windows = self.window_lengths or self.fft_lengths
        hops = self.hop_lengths or [max(1, points // 4) for points in self.fft_lengths]
        return list(zip(self.fft_lengths, windows, hops, strict=True))

    def _of(self, true: Any, predicted: Any) -> Any:
        """The loss of each row; waveforms shorter than a window are refused."""
        tf = load_tensorflow()
        name = "fft_lengths" if self.window_lengths is None else "window_lengths"
        total = tf.zeros_like(true[:, 0])
        for fft, window, hop in self.resolutions:
            if window > true.shape[-1]:
                raise ValueError(
                    f"{name}={window} is above the {true.shape[-1]} samples of the waveforms: leave it out"
                )
            one, two = (_stft_magnitude(each, fft, window, hop) for each in (true, predicted))
            convergence = _norm(one - two) / (_norm(one) + self.epsilon)
            logs = log_of(one, self.epsilon) - log_of(two, self.epsilon)
            total += convergence + tf.reduce_mean(tf.abs(logs), axis=[1, 2])
        return total / len(self.fft_lengths)


@settings_group
class BandWeighted(_Spectral):
    """Mean squared difference of log magnitudes in each band, weighted and divided by the weights' sum.

    With X and Y the one-sided DFTs of all samples of true and predicted, unscaled and without a window:
    Σ over b of w_b · mean over k in b of (ln(|X[k]| + ε) − ln(|Y[k]| + ε))², divided by Σ w_b. A band holds the bins from low
    to high, both included; a bin on the edge of two bands counts in both. Symmetric in true and predicted.
    """

    kind: Literal["band_weighted"] = "band_weighted"
    bands: tuple[tuple[float, float, float], ...] = setting(
        (), "low Hz, high Hz, weight of each", min_length=1
    )
    sample_rate: float = setting(0.0, "Hz", gt=0)
    epsilon: Epsilon = setting(1e-6, _ADDED)

    @pydantic.field_validator("bands")
    @classmethod
    def _check(cls, bands: tuple[tuple[float, float, float], ...]) -> tuple[tuple[float, float, float], ...]:
        for low, high, weight in bands:
            if not (0 <= low < high and weight > 0):
                raise ValueError(
                    f"{low:g},{high:g},{weight:g} must be low and high in Hz and a weight above 0"
                )
        return bands

    def _of(self, true: Any, predicted: Any) -> Any:
        """The loss of each row; a band that holds no bin, or reaches beyond half the sample rate, is refused."""
        tf = load_tensorflow()
        weights = self._weights(true.shape[-1])
        difference = _log_difference(true, predicted, true.shape[-1], self.epsilon)
        return tf.reduce_sum(tf.square(difference) * constant(weights, true), axis=-1)

    def _weights(self, samples: int) -> np.ndarray:
        """Of each bin, float64 [bins], of sum 1."""
        frequencies = bin_frequencies(samples, self.sample_rate)
        weights = np.zeros(len(frequencies))
        for low, high, weight in self.bands:
            try:
                inside = band_slice((low, high), frequencies)
            except ValueError as error:
                raise ValueError(f"bands, of {samples} samples at {self.sample_rate:g} Hz: {error}") from None
            weights[inside] += weight / (inside.stop - inside.start)
        return weights / weights.sum()


LOSSES = {each.kind: each for each in (LogSpectralDistance, MultiResolutionStft, BandWeighted)}


def make_loss(settings: Mapping[str, Any]) -> Loss:
    """A loss from a mapping such as {kind: multi_resolution_stft, fft_lengths: [256, 512]}.

    Raises:
      ValueError: there is no such kind or setting, or a value breaks its rule.
    """
    if not isinstance(settings, Mapping):
        raise ValueError(f"{settings!r} is no loss: give a mapping with a kind, one of {', '.join(LOSSES)}")
    kind = str(settings.get("kind"))
    if kind not in LOSSES:
        raise ValueError(
            f"kind={kind} is no loss{suggest(kind, LOSSES, ', ')}: there are {', '.join(LOSSES)}"
        )
    names = [field.name for field in dataclasses.fields(LOSSES[kind])]
    for name in settings:
        if name not in names:
            raise ValueError(
                f"{kind}: {name}: there is no such setting{suggest(str(name), names, ', ')}; there are {', '.join(names)}"
            )
    try:
        return LOSSES[kind](**settings)
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = [
            kind,
            ".".join(str(part) for part in first["loc"]),
            first["msg"].removeprefix("Value error, "),
        ]
        raise ValueError(": ".join(part for part in place if part)) from None


def keras_loss(loss: Loss | Mapping[str, Any], **options: Any) -> Any:
    """A `keras.losses.Loss` for `model.compile`; Keras takes the mean over rows, with its sample weights if given.

    Keras hands over no `valid`: where rows are padded, set those samples of y_true and y_pred to 0 in the model or its data.
    A model that was saved with it is loaded by a process that has called this function before, or with compile=False.

    Args:
      loss: one of this module, or its settings as `make_loss` takes them.
      **options: Keras' own, such as `name` and `reduction`.

    Raises:
      ValueError: see `make_loss`.
    """
    return _keras_class()(loss, **options)


@functools.cache
def _keras_class() -> Any:
    load_tensorflow()
    with quiet_stderr():
        import keras

    @keras.saving.register_keras_serializable(package="spectrabeam")
    class SpectralLoss(keras.losses.Loss):
        def __init__(self, loss: Loss | Mapping[str, Any], **options: Any):
            self._loss = make_loss(loss) if isinstance(loss, Mapping) else loss
            # float32 whatever the model's precision, or Keras would round the waveforms first
            super().__init__(**{"name": self._loss.kind, "dtype": "float32", **options})

        def call(self, y_true: Any, y_pred: Any) -> Any:
            return self._loss(y_true, y_pred)

        def get_config(self) -> dict[str, Any]:
            settings = pydantic.TypeAdapter(type(self._loss)).dump_python(self._loss, mode="json")
            return {**super().get_config(), "loss": settings}

    return SpectralLoss


def _words(numbers: Sequence[int]) -> str:
    return ",".join(str(number) for number in numbers)


def _real_samples(true: Any, predicted: Any, valid: Any) -> tuple[Any, Any]:
    """Both in float32 or float64, with zeros behind the real samples, whatever stood there.

    Raises:
      ValueError: they are not [batch, samples] of one shape with a known number of samples, or valid is not [batch].
    """
    tf = load_tensorflow()
    true, predicted = tf.convert_to_tensor(true), tf.convert_to_tensor(predicted)
    kind = tf.float64 if tf.float64 in (true.dtype, predicted.dtype) else tf.float32
    for name, each in (("true", true), ("predicted", predicted)):
        if each.shape.rank != 2 or not each.shape[-1]:
            raise ValueError(
                f"{name} of shape {each.shape} must be [batch, samples], with a known number of samples: reshape it"
            )
    if not true.shape.is_compatible_with(predicted.shape):
        raise ValueError(f"true of shape {true.shape} and predicted of shape {predicted.shape} must be alike")
    true, predicted = tf.cast(true, kind), tf.cast(predicted, kind)
    if valid is None:
        return true, predicted
    valid = tf.convert_to_tensor(valid)
    if not valid.shape.is_compatible_with(true.shape[:1]):
        raise ValueError(f"valid of shape {valid.shape} must be [batch], with one number for each waveform")
    real = tf.sequence_mask(valid, true.shape[-1])
    zeros = tf.zeros_like(true)  # chosen, not multiplied with: 0 · NaN is NaN
    return tf.where(real, true, zeros), tf.where(real, predicted, zeros)


def _log_difference(true: Any, predicted: Any, points: int, epsilon: float) -> Any:
    """ln(|X| + ε) − ln(|Y| + ε) of two waveforms, float [batch, bins]."""
    tf = load_tensorflow()
    one, two = (
        log_of(magnitude_of(tf.signal.rfft(fix_length(each, points))), epsilon) for each in (true, predicted)
    )
    return one - two


def _stft_magnitude(samples: Any, fft: int, window: int, hop: int) -> Any:
    """Float [batch, samples] to [batch, frames, bins]."""
    tf = load_tensorflow()
    frames = tf.signal.frame(samples, window, hop)
    return magnitude_of(tf.signal.rfft(fix_length(frames * constant(window_of("hann", window), frames), fft)))


def _norm(values: Any) -> Any:
    """Frobenius norm, float [batch, frames, bins] to [batch]."""
    tf = load_tensorflow()
    return _root(tf.reduce_sum(tf.square(values), axis=[1, 2]))


def _root(values: Any) -> Any:
    """The square root, but 0 with gradient 0 below the smallest normal number (1.2e-38 in float32).

    At 0 the root has no finite gradient; smaller numbers are 0 to XLA and, on some devices, to TensorFlow.
    """
    tf = load_tensorflow()
    none = values < float(np.finfo(values.dtype.as_numpy_dtype).tiny)
    return tf.where(none, tf.zeros_like(values), tf.sqrt(tf.where(none, tf.ones_like(values), values)))

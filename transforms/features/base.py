"""What a feature is, and what all kinds share: preparing, windows, axes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, Protocol

import numpy as np
import pydantic
import scipy.fft
import scipy.signal

from ..declare import setting, settings_group
from ..device import load_tensorflow
from ..schema import FeatureSpec

# waveform float (or complex) [batch, segment_length] and, where a feature asks for it, valid int [batch] → float [batch, …]
Graph = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class Feature:
    """A kind with its settings, for segments of one length and sample rate.

    Attributes:
      shape: of a stored value, without the batch axis.
      axes: of that shape, for metadata; frequencies in Hz, times in s from the segment's first sample.
      graph: from waveforms to values, in the waveforms' dtype; differentiable.
      needs_valid: whether the graph tells real samples from padding.
      fft_length: points of its FFTs, or 0 where there is none.
      frame_step: samples from one place of the first axis to the next, or 0 where that is not of frames.
      linear: stored values to those on which precision is stated, float64; the identity unless there is a logarithm.
      jit_tolerance: what XLA and plain TensorFlow may differ by on that scale, as a share of a row's largest value.
      compares_silence: whether XLA is held to plain TensorFlow's values of silence, too; not where a mean hides them.
      bank: filters that the graph sums bins with, float64 [bins, bands], or None; a third argument of the graph may
        take their place.
      near_epsilon: a warning where ε hides most of the stored values, or None.
    """

    shape: tuple[int, ...]
    axes: list[dict[str, Any]]
    graph: Graph
    needs_valid: bool = False
    fft_length: int = 0
    frame_step: int = 0
    linear: Callable[[np.ndarray], np.ndarray] = lambda values: values.astype(np.float64)
    near_epsilon: Callable[[np.ndarray], str | None] = lambda values: None
    jit_tolerance: float = 1e-6
    bank: np.ndarray | None = None
    compares_silence: bool = True

    @property
    def spec(self) -> FeatureSpec:
        """float32, of this shape."""
        return FeatureSpec("float32", self.shape)


class FeatureKind(Protocol):
    """The settings of a kind."""

    kind: str

    def build(self, segment_length: int, sample_rate: float) -> Feature:
        """The feature for segments of this many samples, at this rate in Hz.

        Raises:
          ValueError: a setting does not go with these; the message says setting, value, rule and cure.
        """
        ...


class TakesComplex:
    """Marks kinds for complex samples, too: their `build` takes `is_complex`, and of complex samples the spectrum is two-sided."""


@settings_group
class Prepared:
    """What happens to the samples of a segment first, with the real ones alone; padding stays zero."""

    detrend: Literal["none", "constant", "linear"] = setting(
        "none", "taken off each segment: nothing, its mean, or the straight line that fits best"
    )
    standardize: bool = setting(
        False, "divide each segment by the standard deviation of its samples; zeros where that is 0"
    )

    @property
    def prepares(self) -> bool:
        """Whether anything is to be done."""
        return self.detrend != "none" or self.standardize

    @property
    def needs_valid(self) -> bool:
        """Whether real samples must be told from padding."""
        return self.prepares

    def prepare(self, waveform: Any, valid: Any) -> Any:
        """Float or complex [batch, segment_length] to the same, computed in double precision.

        Args:
          waveform: float or complex [batch, segment_length].
          valid: int [batch], real samples of each row; not looked at where nothing is to be done.
        """
        if not self.prepares:
            return waveform
        tf = load_tensorflow()
        length = waveform.shape[-1]
        double = tf.complex128 if waveform.dtype.is_complex else tf.float64
        place = tf.range(length, dtype=tf.float64)[None]
        real_count = tf.cast(valid, tf.float64)[:, None]
        count, mask = tf.cast(real_count, double), tf.cast(place < real_count, double)
        samples = tf.cast(waveform, double) * mask

        def mean(values: Any) -> Any:
            return tf.math.divide_no_nan(tf.reduce_sum(values, axis=1, keepdims=True), count)

        if self.detrend != "none":
            samples = (samples - mean(samples)) * mask
        if self.detrend == "linear":
            time = tf.cast(place - (real_count - 1) / 2, double) * mask
            slope = tf.math.divide_no_nan(mean(samples * time), mean(time * time))
            samples -= slope * time
        if self.standardize:
            centred = (samples - mean(samples)) * mask
            variance = tf.math.real(mean(centred * tf.math.conj(centred)))
            silent = variance == 0
            # the root of 0 has no finite gradient
            one = tf.ones_like(variance)
            factor = tf.where(silent, tf.zeros_like(variance), tf.math.rsqrt(tf.where(silent, one, variance)))
            samples *= tf.cast(factor, double)
        return tf.cast(samples, waveform.dtype)


def window_of(name: str, length: int) -> np.ndarray:
    """A periodic window by scipy's name, such as hann or kaiser:14 with its parameter; float64 [length].

    Source: scipy.signal.get_window, fftbins=True.

    Raises:
      ValueError: scipy knows no such window.
    """
    word, *numbers = name.split(":")
    try:
        chosen = (word, *(float(number) for number in numbers)) if numbers else word
        with np.errstate(all="ignore"):
            window = np.asarray(scipy.signal.get_window(chosen, length, fftbins=True))
    except (ValueError, TypeError, IndexError) as error:
        raise ValueError(
            f"{name} is none of scipy's (hann, hamming, blackman, flattop, kaiser:14 …): {error}"
        ) from None
    if not np.isfinite(window).all():
        raise ValueError(f"{name} has values that are no finite numbers: choose another, or other parameters")
    return window


def window_sum(name: str, window: np.ndarray) -> float:
    """Σw, by which a spectrum is scaled.

    Raises:
      ValueError: it is none to divide by.
    """
    total = float(window.sum())
    if abs(total) <= 1e-6 * float(np.abs(window).sum()):
        raise ValueError(f"window={name} adds up to nothing over {len(window)} samples: choose another")
    return total


def fft_length_of(given: int | Literal["fast"] | None, length: int) -> int:
    """As given; "fast" is the next length without a prime factor above 5; the samples' number if nothing is said."""
    if given == "fast":
        return int(scipy.fft.next_fast_len(length, real=True) or length)
    return length if given is None else given


def fix_length(samples: Any, length: int) -> Any:
    """Float or complex […, samples] cut or filled with zeros to […, length].

    The gradient of TensorFlow's own rfft fails where its fft_length is below the number of samples.
    """
    have = samples.shape[-1]
    if have >= length:
        return samples[..., :length]
    tf = load_tensorflow()
    return tf.pad(samples, [*([[0, 0]] * (len(samples.shape) - 1)), [0, length - have]])


def spectrum_of(samples: Any, fft_length: int) -> Any:
    """Float […, samples] to its one-sided spectrum, complex [..., samples] to its two-sided one with 0 Hz in the middle."""
    tf = load_tensorflow()
    fitted = fix_length(samples, fft_length)
    if not samples.dtype.is_complex:
        return tf.signal.rfft(fitted)
    return tf.signal.fftshift(tf.signal.fft(fitted), axes=-1)


def constant(values: np.ndarray, like: Any) -> Any:
    """A table that was computed in float64, in the dtype of a tensor."""
    return load_tensorflow().constant(values, like.dtype)


def magnitude_of(spectrum: Any) -> Any:
    """|z| of complex […], whose gradient at 0 is 0."""
    return load_tensorflow().abs(spectrum)


def power_of(spectrum: Any) -> Any:
    """|z|² of complex […]."""
    tf = load_tensorflow()
    return tf.square(tf.math.real(spectrum)) + tf.square(tf.math.imag(spectrum))


def product(values: Any, bank: Any) -> Any:
    """Float […, bins] times an array or tensor [bins, bands]. In float64, which TF32 never touches, whoever runs it."""
    tf = load_tensorflow()
    return tf.cast(tf.linalg.matmul(tf.cast(values, tf.float64), tf.cast(bank, tf.float64)), values.dtype)


def bin_frequencies(fft_length: int, sample_rate: float, *, is_complex: bool = False) -> np.ndarray:
    """Of each bin of a one-sided spectrum, or of the two-sided one of complex samples, Hz, float64 [bins]."""
    if is_complex:
        return np.fft.fftshift(np.fft.fftfreq(fft_length, 1 / sample_rate))
    return np.fft.rfftfreq(fft_length, 1 / sample_rate)


def band_slice(band: tuple[float, float] | None, frequencies: np.ndarray) -> slice:
    """The bins whose frequencies lie in a band, its ends included.

    Raises:
      ValueError: there is none, or the band reaches beyond half the sample rate.
    """
    if band is None:
        return slice(0, len(frequencies))
    low, high = band
    step = float(frequencies[1] - frequencies[0]) if len(frequencies) > 1 else 1.0
    nyquist = max(-float(frequencies[0]), float(frequencies[-1]))
    if low < 0 and frequencies[0] >= 0:
        raise ValueError(
            f"band={low:g},{high:g} reaches below 0 Hz, and real samples have a one-sided spectrum"
        )
    if high > nyquist + step or low < -nyquist - step:
        raise ValueError(
            f"band={low:g},{high:g} reaches beyond {nyquist:g} Hz, half the sample rate: narrow it"
        )
    inside = np.flatnonzero((frequencies >= low - 1e-9 * step) & (frequencies <= high + 1e-9 * step))
    if not len(inside):
        raise ValueError(f"band={low:g},{high:g} holds no bin, and they are {step:g} Hz apart: widen it")
    return slice(int(inside[0]), int(inside[-1]) + 1)


def regular_axis(name: str, unit: str, first: float, step: float, count: int, **more: Any) -> dict[str, Any]:
    """Value k lies at first + k · step."""
    return {"name": name, "unit": unit, "first": first, "step": step, "count": count, **more}


def listed_axis(name: str, unit: str, values: Sequence[float] | Sequence[str]) -> dict[str, Any]:
    """Values that are not evenly spaced, or have names."""
    return {"name": name, "unit": unit, "values": list(values), "count": len(values)}


def one_sided_weights(fft_length: int, *, is_complex: bool) -> np.ndarray:
    """How many bins of the whole spectrum each bin stands for: of a one-sided one 2, but 1 at both ends; float64 [bins]."""
    if is_complex:
        return np.ones(fft_length)
    sides = np.full(fft_length // 2 + 1, 2.0)
    sides[0] = 1.0
    if fft_length % 2 == 0:
        sides[-1] = 1.0
    return sides


def parts_of(spectrum: Any) -> Any:
    """Complex […] to float […, 2]: real and imaginary part; see `part_axis`."""
    tf = load_tensorflow()
    return tf.stack([tf.math.real(spectrum), tf.math.imag(spectrum)], axis=-1)


def part_axis() -> dict[str, Any]:
    """Of `parts_of`."""
    return listed_axis("part", "", ["real", "imaginary"])


def log_of(values: Any, epsilon: float) -> Any:
    """log(x + ε), natural."""
    return load_tensorflow().math.log(values + epsilon)


def without_log(epsilon: float) -> Callable[[np.ndarray], np.ndarray]:
    """Stored logarithms to the values they were taken of, float64."""
    return lambda values: np.exp(values.astype(np.float64)) - epsilon


def hidden_by(epsilon: float) -> Callable[[np.ndarray], str | None]:
    """The warning of a logarithm where over half of its values are those of numbers below ten times ε."""

    def warning(values: np.ndarray) -> str | None:
        share = float((without_log(epsilon)(values) <= 10 * epsilon).mean())
        if share <= 0.5:
            return None
        return (
            f"{share:.0%} of the bins lie within ten times epsilon={epsilon:g}, which hides them: "
            "set a smaller epsilon, or a scale that suits the unit"
        )

    return warning


def logarithmic(feature: Feature, epsilon: float | None) -> Feature:
    """A feature whose graph ends with log(x + ε); the feature itself where there is no ε."""
    if epsilon is None:
        return feature
    return dataclasses.replace(feature, linear=without_log(epsilon), near_epsilon=hidden_by(epsilon))


def decibels(power: Any, reference: float, floor: float) -> Any:
    """10 · log10(power / reference²), no lower than `floor` dB; its gradient is 0 below."""
    tf = load_tensorflow()
    smallest = float(np.finfo(power.dtype.as_numpy_dtype).tiny)  # smaller ones are flushed to 0 by XLA
    least = max(reference**2 * 10 ** (floor / 10), smallest)
    scaled = tf.math.log(tf.maximum(power, tf.constant(least, power.dtype))) * (10 / math.log(10))
    return tf.maximum(scaled - 20 * math.log10(reference), tf.constant(floor, power.dtype))


def _parse_band(value: Any) -> Any:
    """Two numbers from `0,6000`, `0 6000` or a list."""
    if value is None:
        return None
    words = [value] if isinstance(value, (str, int, float)) else list(value)
    parts = [part for word in words for part in str(word).replace(",", " ").split()]
    try:
        low, high = (float(part) for part in parts)
        if -math.inf < low < high < math.inf:
            return low, high
    except ValueError:
        pass
    raise ValueError(f"{' '.join(parts)} must be two frequencies in Hz, the lower one first, such as 0,6000")


def _check_window(value: str) -> str:
    window_of(value, 8)
    return value


def _parse_fft_length(value: Any) -> Any:
    if value is None or value == "fast":
        return value
    number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
    if not isinstance(number, int) or isinstance(number, bool) or not 0 < number <= _MOST_POINTS:
        raise ValueError(f"{value} must be fast, or a number of points from 1 to {_MOST_POINTS}")
    return number


_MOST_POINTS = 1 << 28

# Types of settings that several kinds have.
Band = Annotated[tuple[float, float] | None, pydantic.BeforeValidator(_parse_band)]
Window = Annotated[str, pydantic.AfterValidator(_check_window)]
FftLength = Annotated[Literal["fast"] | int | None, pydantic.BeforeValidator(_parse_fft_length)]

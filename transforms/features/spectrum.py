"""Kinds with one FFT over the whole segment."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal

import numpy as np

from ..declare import setting, settings_group
from ..device import load_tensorflow
from .base import (
    Band,
    Feature,
    FftLength,
    Prepared,
    TakesComplex,
    Window,
    band_slice,
    bin_frequencies,
    constant,
    decibels,
    fft_length_of,
    fix_length,
    hidden_by,
    log_of,
    magnitude_of,
    one_sided_weights,
    part_axis,
    parts_of,
    power_of,
    regular_axis,
    spectrum_of,
    window_of,
    window_sum,
    without_log,
)
from .weighting import weighting_response


@settings_group
class Spectrum(Prepared, TakesComplex):
    """Spectrum X of a segment x of N samples: X[k] = Σ x[n] w[n] exp(−2πikn/M), M = fft_length.

    One-sided for real samples, two-sided for complex ones. The transform is unnormalised: a sine of amplitude A on
    bin k has magnitude A·Σw/2 there, and A·exp(2πikn/M) has A·Σw. With amplitude=peak both read A, and so does a
    constant A at 0 Hz.
    """

    window: Window = setting(
        "boxcar", "any of scipy's by name, such as hann, or kaiser:14 with its parameter"
    )
    fft_length: FftLength = setting(
        None,
        "points of the FFT: zeros are added above segment_length, samples are left out below; fast: the next length "
        "without a prime factor above 5; segment_length if not given",
    )
    band: Band = setting(None, "frequencies to keep, low and high in Hz", metavar="LOW,HIGH")
    average_bins: int = setting(
        1, "neighbouring bins that become one, by their mean; an incomplete last group is left out", ge=1
    )
    amplitude: Literal["none", "peak"] = setting(
        "none", "scaling: none, or peak, by which a sine of amplitude A reads A"
    )
    integrate: int = setting(
        0,
        "times that X is divided by jω: acceleration to velocity 1, to displacement 2; bin 0 becomes 0",
        ge=0,
        le=2,
    )
    weighting: Literal["none", "A", "C"] = setting(
        "none", "frequency weighting of IEC 61672-1, 0 dB at 1 kHz"
    )

    def build(self, segment_length: int, sample_rate: float, *, is_complex: bool = False) -> Feature:
        """See `FeatureKind.build`."""
        chain = self._chain(segment_length, sample_rate, is_complex=is_complex)

        def graph(waveform: Any, valid: Any) -> Any:
            return self._scaled(chain.pooled(self._values(chain.spectrum(waveform, valid))))

        feature = Feature((chain.count,), [chain.axis], graph, self.needs_valid, chain.fft_length)
        return dataclasses.replace(feature, **self._inverse())

    def _values(self, spectrum: Any) -> Any:
        """Complex [batch, bins] to what is pooled."""
        return magnitude_of(spectrum)

    def _scaled(self, values: Any) -> Any:
        """What is stored of it."""
        return values

    def _inverse(self) -> dict[str, Any]:
        """`linear` and the like, where values are no magnitudes."""
        return {}

    def _chain(self, segment_length: int, sample_rate: float, *, is_complex: bool) -> _Chain:
        fft_length = fft_length_of(self.fft_length, segment_length)
        frequencies = bin_frequencies(fft_length, sample_rate, is_complex=is_complex)
        kept = band_slice(self.band, frequencies)
        count = (kept.stop - kept.start) // self.average_bins
        if not count:
            raise ValueError(
                f"average_bins={self.average_bins} is more than the {kept.stop - kept.start} bins: lower it"
            )
        chain = _Chain(self, segment_length, sample_rate, is_complex, fft_length, frequencies, kept, count)
        _ = chain.response  # which settings may make impossible
        return chain


@dataclasses.dataclass(frozen=True)
class _Chain:
    """The steps that all kinds of spectra share, for one length and rate."""

    settings: Spectrum
    segment_length: int
    sample_rate: float
    is_complex: bool
    fft_length: int
    frequencies: np.ndarray
    kept: slice
    count: int

    @property
    def axis(self) -> dict[str, Any]:
        """Bin spacing as `step`; `resolution` is what the samples can tell apart."""
        spacing, width = self.sample_rate / self.fft_length, self.settings.average_bins
        first = float(self.frequencies[self.kept.start]) + (width - 1) / 2 * spacing
        resolution = self.sample_rate / min(self.segment_length, self.fft_length)
        return regular_axis("frequency", "Hz", first, spacing * width, self.count, resolution=resolution)

    def spectrum(self, waveform: Any, valid: Any) -> Any:
        """Float or complex [batch, segment_length] to complex [batch, kept bins]."""
        settings = self.settings
        samples = settings.prepare(waveform, valid)
        if settings.window != "boxcar":
            samples = samples * constant(window_of(settings.window, self.segment_length), samples)
        found = spectrum_of(samples, self.fft_length)[..., self.kept]
        response = self.response
        return found if response is None else found * constant(response[self.kept], found)

    def pooled(self, values: Any) -> Any:
        """Float [batch, kept bins] to [batch, count]."""
        tf, width = load_tensorflow(), self.settings.average_bins
        if width == 1:
            return values
        groups = tf.reshape(values[..., : self.count * width], [-1, self.count, width])
        return tf.reduce_mean(groups, axis=-1)

    @functools.cached_property
    def response(self) -> np.ndarray | None:
        """Complex128 [bins] that the spectrum is multiplied with, or None."""
        settings, response = self.settings, np.ones(len(self.frequencies), np.complex128)
        if settings.amplitude == "peak":
            window = window_of(settings.window, self.segment_length)[: self.fft_length]
            sides = one_sided_weights(self.fft_length, is_complex=self.is_complex)
            response *= sides / window_sum(settings.window, window)
        if settings.integrate:
            omega = 2j * np.pi * self.frequencies
            response[omega == 0] = 0
            response[omega != 0] /= omega[omega != 0] ** settings.integrate
        if settings.weighting != "none":
            response *= weighting_response(settings.weighting, self.frequencies)
        return None if (response == 1).all() else response


@settings_group
class LogSpectrum(Spectrum):
    """The natural logarithm of the magnitude, log(|X| + ε)."""

    kind: Literal["log_spectrum"] = "log_spectrum"
    epsilon: float = setting(
        1e-6, "added to the magnitude before the logarithm, in the unit of the samples", ge=1e-37, le=1e30
    )

    def _scaled(self, values: Any) -> Any:
        return log_of(values, self.epsilon)

    def _inverse(self) -> dict[str, Any]:
        return {"linear": without_log(self.epsilon), "near_epsilon": hidden_by(self.epsilon)}


@settings_group
class Magnitude(Spectrum):
    """|X|."""

    kind: Literal["magnitude"] = "magnitude"


@settings_group
class Power(Spectrum):
    """|X|²."""

    kind: Literal["power"] = "power"

    def _values(self, spectrum: Any) -> Any:
        return power_of(spectrum)


@settings_group
class Db(Spectrum):
    """20 · log10(|X| / reference), no lower than `floor`; bins are averaged as powers."""

    kind: Literal["db"] = "db"
    reference: float = setting(1.0, "magnitude that reads 0 dB", ge=1e-15, le=1e15)
    floor: float = setting(-120.0, "dB, the least that is stored", ge=-300, le=300)

    def _values(self, spectrum: Any) -> Any:
        return power_of(spectrum)

    def _scaled(self, values: Any) -> Any:
        return decibels(values, self.reference, self.floor)

    def _inverse(self) -> dict[str, Any]:
        return {"linear": lambda values: 10 ** (values.astype(np.float64) / 20)}


@settings_group
class Complex(Spectrum):
    """Real and imaginary part of X, [bins, 2]: the segment comes back by `invert.from_complex`."""

    kind: Literal["complex"] = "complex"
    average_bins: Literal[1] = setting(1, "not for complex values")

    def build(self, segment_length: int, sample_rate: float, *, is_complex: bool = False) -> Feature:
        """See `FeatureKind.build`."""
        chain = self._chain(segment_length, sample_rate, is_complex=is_complex)

        def graph(waveform: Any, valid: Any) -> Any:
            return parts_of(chain.spectrum(waveform, valid))

        axes = [chain.axis, part_axis()]
        return Feature((chain.count, 2), axes, graph, self.needs_valid, chain.fft_length)


@settings_group
class Phase(Spectrum):
    """The angle of X in radians, in (−π, π]; 0 where X is 0."""

    kind: Literal["phase"] = "phase"
    average_bins: Literal[1] = setting(1, "not for angles")

    def _inverse(self) -> dict[str, Any]:
        return {"jit_tolerance": 1e-3}  # of weak bins the angle is ill-conditioned

    def _values(self, spectrum: Any) -> Any:
        tf = load_tensorflow()
        real, imaginary = tf.math.real(spectrum), tf.math.imag(spectrum)
        silent = (real == 0) & (imaginary == 0)
        # atan2(0, 0) has no finite gradient
        return tf.math.atan2(
            tf.where(silent, tf.zeros_like(imaginary), imaginary), tf.where(silent, tf.ones_like(real), real)
        )


@settings_group
class Cepstrum(Prepared):
    """The real cepstrum, irfft(log(|rfft(x · w)| + ε)), at quefrencies 0 to half the segment."""

    kind: Literal["cepstrum"] = "cepstrum"
    window: Window = setting("boxcar", "any of scipy's by name")
    fft_length: FftLength = setting(None, "points of the FFT; segment_length if not given")
    epsilon: float = setting(1e-6, "added to the magnitude before the logarithm", ge=1e-37, le=1e30)

    def build(self, segment_length: int, sample_rate: float) -> Feature:
        """See `FeatureKind.build`."""
        points = fft_length_of(self.fft_length, segment_length)
        count = points // 2 + 1

        def graph(waveform: Any, valid: Any) -> Any:
            tf = load_tensorflow()
            samples = self.prepare(waveform, valid)
            samples = samples * constant(window_of(self.window, segment_length), samples)
            logs = log_of(magnitude_of(tf.signal.rfft(fix_length(samples, points))), self.epsilon)
            spectrum = tf.cast(logs, tf.complex128 if samples.dtype == tf.float64 else tf.complex64)
            return tf.signal.irfft(spectrum, [points])[..., :count]

        axis = regular_axis("quefrency", "s", 0.0, 1 / sample_rate, count)
        return Feature((count,), [axis], graph, self.needs_valid, points)


ONE_FFT = (LogSpectrum, Magnitude, Power, Db, Complex, Phase, Cepstrum)

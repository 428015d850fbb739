"""Kinds that need more than a spectrum, or none: envelope, octave bands, indicators."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import scipy.signal

from ..declare import setting, settings_group
from ..device import load_tensorflow
from .banks import octave_bank
from .base import (
    Band,
    Feature,
    Prepared,
    Window,
    bin_frequencies,
    constant,
    decibels,
    listed_axis,
    log_of,
    logarithmic,
    magnitude_of,
    one_sided_weights,
    power_of,
    product,
    regular_axis,
    window_of,
)
from .weighting import weighting_response


@settings_group
class EnvelopeSpectrum(Prepared):
    """The amplitude spectrum of a band's envelope, the bearing engineer's tool.

    The segment is band-passed and made analytic in one step, a = ifft(2 H X) over positive frequencies, where H is the
    squared magnitude of a Butterworth band-pass (as scipy.signal.sosfiltfilt has it, over the segment as a circle). Of
    the envelope |a| the mean is taken off; its spectrum is scaled so that a modulation of amplitude A reads A.
    """

    kind: Literal["envelope_spectrum"] = "envelope_spectrum"
    passband: Band = setting(
        None, "band of the carrier, low and high in Hz; all frequencies if not given", metavar="LOW,HIGH"
    )
    order: int = setting(4, "of the Butterworth band-pass", ge=1, le=12)
    window: Window = setting("hann", "of the envelope; any of scipy's by name")
    high: float | None = setting(
        None, "highest modulation frequency that is kept, Hz; all if not given", gt=0
    )
    epsilon: float | None = setting(None, "store log(A + ε) instead of the amplitude A", ge=1e-37, le=1e30)

    def build(self, segment_length: int, sample_rate: float) -> Feature:
        """See `FeatureKind.build`."""
        response = self._response(segment_length, sample_rate)
        frequencies = bin_frequencies(segment_length, sample_rate)
        count = len(frequencies)
        if self.high is not None:
            count = int(np.searchsorted(frequencies, self.high * (1 + 1e-12), "right"))
        window = window_of(self.window, segment_length)

        def graph(waveform: Any, valid: Any) -> Any:
            tf = load_tensorflow()
            samples = self.prepare(waveform, valid)
            is_double = samples.dtype == tf.float64
            spectrum = tf.signal.fft(tf.cast(samples, tf.complex128 if is_double else tf.complex64))
            analytic = tf.signal.ifft(spectrum * constant(response, spectrum))
            envelope = magnitude_of(analytic)
            envelope -= tf.reduce_mean(envelope, axis=-1, keepdims=True)
            amplitude = magnitude_of(
                tf.signal.rfft(envelope * constant(window * (2 / window.sum()), envelope))
            )
            kept = amplitude[..., :count]
            return kept if self.epsilon is None else log_of(kept, self.epsilon)

        resolution = sample_rate / segment_length
        axis = regular_axis("modulation frequency", "Hz", 0.0, resolution, count, resolution=resolution)
        feature = Feature((count,), [axis], graph, self.needs_valid, segment_length)
        return logarithmic(feature, self.epsilon)

    def _response(self, segment_length: int, sample_rate: float) -> np.ndarray:
        """Of band-pass and Hilbert transformer together, float64 [segment_length]."""
        frequencies = np.fft.fftfreq(segment_length, 1 / sample_rate)
        analytic = np.where(frequencies > 0, 2.0, 0.0)
        analytic[0] = 1.0
        if segment_length % 2 == 0:
            analytic[segment_length // 2] = 1.0
        if self.passband is None:
            return analytic
        low, high = self.passband
        if not 0 < low < high < sample_rate / 2:
            raise ValueError(
                f"passband={low:g},{high:g} must lie between 0 and {sample_rate / 2:g} Hz, half the sample rate, ends "
                "not included"
            )
        sections = scipy.signal.butter(self.order, [low, high], "bandpass", fs=sample_rate, output="sos")
        _, found = scipy.signal.freqz_sos(sections, np.abs(frequencies), fs=sample_rate)  # type: ignore[arg-type]
        return analytic * np.abs(found) ** 2


@settings_group
class OctaveBands(Prepared):
    """Mean square of each 1/n-octave band, in dB of reference²; from the whole segment's spectrum.

    By Parseval's theorem the bands add up to the mean square of the segment, where the window is boxcar; other windows
    are made up for by their mean square. Source of the bands: IEC 61260-1:2014.
    """

    kind: Literal["octave_bands"] = "octave_bands"
    fraction: int = setting(3, "bands an octave: 1, 3, 6, 12 …", ge=1, le=48)
    low: float | None = setting(None, "bands lie above, Hz; where a band has ten bins, if not given", gt=0)
    high: float | None = setting(None, "bands lie below, Hz; half the sample rate if not given", gt=0)
    window: Window = setting("hann", "any of scipy's by name")
    reference: float = setting(
        1.0, "root mean square that reads 0 dB, such as 20e-6 for Pa", ge=1e-15, le=1e15
    )
    floor: float = setting(-200.0, "dB, the least that is stored", ge=-400, le=300)
    weighting: Literal["none", "A", "C"] = setting("none", "frequency weighting of IEC 61672-1")

    def build(self, segment_length: int, sample_rate: float) -> Feature:
        """See `FeatureKind.build`."""
        if segment_length < 2:
            raise ValueError(
                f"segment_length={segment_length} has no frequency above 0 Hz: set a longer segment"
            )
        frequencies = bin_frequencies(segment_length, sample_rate)
        step = sample_rate / segment_length
        ratio = 10 ** (0.15 / self.fraction)
        low = 10 * step / (ratio - 1 / ratio) if self.low is None else self.low
        high = sample_rate / 2 if self.high is None else min(self.high, sample_rate / 2)
        bank, middle = octave_bank(frequencies, self.fraction, low, high)
        if not len(middle):
            raise ValueError(
                f"no 1/{self.fraction}-octave band lies between {low:g} and {high:g} Hz: set low and high, or a longer "
                "segment"
            )
        window = window_of(self.window, segment_length)
        scale = one_sided_weights(segment_length, is_complex=False) / (segment_length * np.sum(window**2))
        if self.weighting != "none":
            scale = scale * weighting_response(self.weighting, frequencies) ** 2

        def graph(waveform: Any, valid: Any) -> Any:
            tf = load_tensorflow()
            samples = self.prepare(waveform, valid)
            power = power_of(tf.signal.rfft(samples * constant(window, samples)))
            return decibels(product(power, bank * scale[:, None]), self.reference, self.floor)

        return Feature(
            (len(middle),),
            [listed_axis("frequency", "Hz", middle.tolist())],
            graph,
            self.needs_valid,
            segment_length,
            linear=lambda values: 10 ** (values.astype(np.float64) / 10),
            jit_tolerance=4e-6,  # the last digit of a float32 near 200 dB
        )


INDICATORS = ("rms", "peak", "crest_factor", "kurtosis", "skewness")


@settings_group
class Indicators(Prepared):
    """RMS, peak, crest factor, kurtosis and skewness of a segment's real samples; its last axis has these names.

    Peak is the largest magnitude, crest factor peak / RMS. Kurtosis (3 for Gaussian noise) and skewness are those of
    the population, E[(x − μ)⁴] / σ⁴ and E[(x − μ)³] / σ³. Silence has zeros; a constant has kurtosis and skewness 0.
    """

    kind: Literal["indicators"] = "indicators"

    @property
    def needs_valid(self) -> bool:
        """Always."""
        return True

    def build(self, segment_length: int, sample_rate: float) -> Feature:
        """See `FeatureKind.build`."""

        def graph(waveform: Any, valid: Any) -> Any:
            tf = load_tensorflow()
            samples = tf.cast(self.prepare(waveform, valid), tf.float64)
            count = tf.cast(valid, tf.float64)[:, None]
            mask = tf.cast(tf.range(segment_length, dtype=tf.float64)[None] < count, tf.float64)
            samples = samples * mask

            def mean(values: Any) -> Any:
                return tf.math.divide_no_nan(tf.reduce_sum(values, axis=1, keepdims=True), count)

            peak = tf.reduce_max(tf.abs(samples), axis=1, keepdims=True)
            unit = tf.where(peak == 0, tf.ones_like(peak), peak)  # neither 1e-12 nor 1e12 leaves the range
            samples /= unit
            square = mean(samples**2)
            rms = tf.where(
                square == 0,
                tf.zeros_like(square),
                tf.sqrt(tf.where(square == 0, tf.ones_like(square), square)),
            )
            centred = (samples - mean(samples)) * mask
            variance = mean(centred**2)
            # a constant's variance is a rounding error
            flat = variance <= 1e-24 * square
            deviation = tf.sqrt(tf.where(flat, tf.ones_like(variance), variance))

            def moment(order: int) -> Any:
                return tf.where(flat, tf.zeros_like(variance), mean((centred / deviation) ** order))

            crest = tf.math.divide_no_nan(tf.ones_like(rms), rms)
            found = [rms * unit, peak, tf.where(peak == 0, tf.zeros_like(crest), crest), moment(4), moment(3)]
            return tf.cast(tf.concat(found, axis=1), waveform.dtype)

        return Feature((len(INDICATORS),), [listed_axis("indicator", "", INDICATORS)], graph, True)


OTHERS = (EnvelopeSpectrum, OctaveBands, Indicators)

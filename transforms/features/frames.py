"""Kinds with an FFT a frame."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal

import numpy as np

from ..declare import setting, settings_group
from ..device import load_tensorflow
from .banks import dct_basis, mel_bank, smoothing
from .base import (
    Band,
    Feature,
    FftLength,
    Graph,
    Prepared,
    TakesComplex,
    Window,
    band_slice,
    bin_frequencies,
    constant,
    decibels,
    fft_length_of,
    listed_axis,
    log_of,
    logarithmic,
    magnitude_of,
    one_sided_weights,
    part_axis,
    parts_of,
    power_of,
    product,
    regular_axis,
    spectrum_of,
    window_of,
    window_sum,
)


@settings_group
class Framed(Prepared):
    """Frames of a segment: frame t holds samples [t · frame_step, t · frame_step + frame_length).

    There is no centring and no padding: a frame that would reach beyond the segment is left out. (librosa and
    torchaudio centre by default; center=False gives the same there.)
    """

    frame_length: int = setting(512, "samples of a frame", ge=1)
    frame_step: int = setting(256, "samples from one frame to the next", ge=1)
    fft_length: FftLength = setting(None, "points of a frame's FFT; frame_length if not given")
    window: Window = setting("hann", "of each frame, periodic; any of scipy's by name")

    def frames(self, segment_length: int, sample_rate: float, *, is_complex: bool = False) -> Frames:
        """How a segment is framed.

        Raises:
          ValueError: it is shorter than a frame.
        """
        if self.frame_length > segment_length:
            raise ValueError(
                f"frame_length={self.frame_length} is above segment_length={segment_length}: lower it"
            )
        points = fft_length_of(self.fft_length, self.frame_length)
        return Frames(self, segment_length, sample_rate, points, is_complex)


@dataclasses.dataclass(frozen=True)
class Frames:
    """How segments of one length and rate are framed."""

    settings: Framed
    segment_length: int
    sample_rate: float
    fft_length: int
    is_complex: bool

    @property
    def count(self) -> int:
        """Frames of a segment."""
        return 1 + (self.segment_length - self.settings.frame_length) // self.settings.frame_step

    @property
    def frequencies(self) -> np.ndarray:
        """Hz, float64 [bins]."""
        return bin_frequencies(self.fft_length, self.sample_rate, is_complex=self.is_complex)

    @property
    def time_axis(self) -> dict[str, Any]:
        """The middle of each frame."""
        settings, rate = self.settings, self.sample_rate
        return regular_axis(
            "time", "s", settings.frame_length / 2 / rate, settings.frame_step / rate, self.count
        )

    def frequency_axis(self, kept: slice) -> dict[str, Any]:
        """Of the bins that are kept."""
        spacing = self.sample_rate / self.fft_length
        resolution = self.sample_rate / min(self.settings.frame_length, self.fft_length)
        first = float(self.frequencies[kept.start])
        return regular_axis("frequency", "Hz", first, spacing, kept.stop - kept.start, resolution=resolution)

    def feature(self, axes: list[dict[str, Any]], graph: Graph, bank: np.ndarray | None = None) -> Feature:
        """One whose values have frames on their first axis.

        Args:
          axes: of what each frame holds.
          graph: to [batch, frames, …].
          bank: see `Feature`.
        """
        axes = [self.time_axis, *axes]
        return Feature(
            shape=tuple(axis["count"] for axis in axes),
            axes=axes,
            graph=graph,
            needs_valid=self.settings.needs_valid,
            fft_length=self.fft_length,
            frame_step=self.settings.frame_step,
            bank=bank,
        )

    def spectrum(self, waveform: Any, valid: Any) -> Any:
        """Float or complex [batch, segment_length] to complex [batch, frames, bins]."""
        tf, settings = load_tensorflow(), self.settings
        samples = settings.prepare(waveform, valid)
        frames = tf.signal.frame(samples, settings.frame_length, settings.frame_step)
        frames *= constant(window_of(settings.window, settings.frame_length), frames)
        return spectrum_of(frames, self.fft_length)


@settings_group
class Stft(Framed, TakesComplex):
    """The short-time Fourier transform: log(|X| + ε), |X|, |X|², or real and imaginary part."""

    kind: Literal["stft"] = "stft"
    values: Literal["log", "magnitude", "power", "complex"] = setting(
        "log", "what is stored of each frame's spectrum X: log(|X| + ε), |X|, |X|², or both its parts"
    )
    epsilon: float = setting(1e-6, "added to the magnitude before the logarithm", ge=1e-37, le=1e30)
    band: Band = setting(None, "frequencies to keep, low and high in Hz", metavar="LOW,HIGH")

    def build(self, segment_length: int, sample_rate: float, *, is_complex: bool = False) -> Feature:
        """See `FeatureKind.build`."""
        frames = self.frames(segment_length, sample_rate, is_complex=is_complex)
        kept = band_slice(self.band, frames.frequencies)

        def graph(waveform: Any, valid: Any) -> Any:
            spectrum = frames.spectrum(waveform, valid)[..., kept]
            if self.values == "complex":
                return parts_of(spectrum)
            if self.values == "power":
                return power_of(spectrum)
            magnitude = magnitude_of(spectrum)
            return log_of(magnitude, self.epsilon) if self.values == "log" else magnitude

        more = [part_axis()] if self.values == "complex" else []
        feature = frames.feature([frames.frequency_axis(kept), *more], graph)
        return logarithmic(feature, self.epsilon if self.values == "log" else None)


@settings_group
class Psd(Framed, TakesComplex):
    """Welch's power spectral density: the mean over frames of |X|², scaled.

    Source: scipy.signal.welch, detrend=False; density: 2|X|² / (fs Σw²), unit²/Hz; spectrum: 2|X|² / (Σw)², unit²;
    once, not twice, at 0 Hz and at half the sample rate, and everywhere where samples are complex.
    """

    kind: Literal["psd"] = "psd"
    frame_length: int = setting(1024, "samples of a frame", ge=1)
    frame_step: int = setting(512, "samples from one frame to the next", ge=1)
    scaling: Literal["density", "spectrum"] = setting("density", "unit²/Hz, or unit²")
    band: Band = setting(None, "frequencies to keep, low and high in Hz", metavar="LOW,HIGH")
    epsilon: float | None = setting(None, "store log(psd + ε) instead of the psd", ge=1e-37, le=1e30)

    def build(self, segment_length: int, sample_rate: float, *, is_complex: bool = False) -> Feature:
        """See `FeatureKind.build`."""
        frames = self.frames(segment_length, sample_rate, is_complex=is_complex)
        kept = band_slice(self.band, frames.frequencies)
        scale = welch_scale(frames, self.scaling)[kept]

        def graph(waveform: Any, valid: Any) -> Any:
            tf = load_tensorflow()
            power = tf.reduce_mean(power_of(frames.spectrum(waveform, valid)[..., kept]), axis=1)
            power *= constant(scale, power)
            return power if self.epsilon is None else log_of(power, self.epsilon)

        feature = Feature(
            (kept.stop - kept.start,),
            [frames.frequency_axis(kept)],
            graph,
            self.needs_valid,
            frames.fft_length,
        )
        return logarithmic(feature, self.epsilon)


def welch_scale(frames: Frames, scaling: Literal["density", "spectrum"]) -> np.ndarray:
    """What |X|² of a frame is multiplied with, float64 [bins]."""
    window = window_of(frames.settings.window, frames.settings.frame_length)[: frames.fft_length]
    total = window_sum(frames.settings.window, window) ** 2
    if scaling == "density":
        total = frames.sample_rate * np.sum(window**2)
    return one_sided_weights(frames.fft_length, is_complex=frames.is_complex) / total


@settings_group
class MelSettings(Framed):
    """A mel spectrogram: frames of |X|^power, summed by a bank of triangles.

    mel_scale=slaney with mel_norm=slaney is librosa's default bank, mel_scale=htk with mel_norm=none torchaudio's.
    """

    mel_bins: int = setting(64, "bands", ge=1)
    low: float = setting(0.0, "where the first band begins, Hz", ge=0)
    high: float | None = setting(
        None, "where the last band ends, Hz; half the sample rate if not given", gt=0
    )
    mel_scale: Literal["slaney", "htk"] = setting(
        "slaney", "slaney: linear to 1 kHz, then logarithmic; htk: 2595 log10(1 + f/700)"
    )
    mel_norm: Literal["slaney", "none"] = setting("slaney", "slaney: bands of equal area; none: of height 1")
    power: Literal[1, 2] = setting(2, "of the magnitude before the sum: 1 or 2")

    def bank(self, frames: Frames) -> tuple[np.ndarray, dict[str, Any]]:
        """Float64 [bins, bands], and the axis of the bands.

        Raises:
          ValueError: the band edges or the number of bands do not go with the rate.
        """
        nyquist = frames.sample_rate / 2
        high = nyquist if self.high is None else self.high
        if not self.low < high <= nyquist * (1 + 1e-9):
            raise ValueError(
                f"low={self.low:g} and high={high:g} must be in order and at most {nyquist:g} Hz, half the sample rate"
            )
        bank, centres = mel_bank(
            frames.frequencies, self.mel_bins, self.low, high, self.mel_scale, self.mel_norm
        )
        if not bank.any(axis=0).all():
            empty = int(np.count_nonzero(~bank.any(axis=0)))
            raise ValueError(
                f"mel_bins={self.mel_bins} leaves {empty} bands without any of the {len(bank)} bins: lower it, or raise "
                "fft_length"
            )
        return bank, listed_axis("frequency", "Hz", centres.tolist())

    def energies(self, frames: Frames, bank: Any, waveform: Any, valid: Any) -> Any:
        """Float [batch, segment_length] to [batch, frames, bands]."""
        spectrum = frames.spectrum(waveform, valid)
        return product(power_of(spectrum) if self.power == 2 else magnitude_of(spectrum), bank)


@settings_group
class LogMel(MelSettings):
    """The natural logarithm of a mel spectrogram, log(mel + ε)."""

    kind: Literal["log_mel"] = "log_mel"
    epsilon: float = setting(1e-6, "added to the band before the logarithm", ge=1e-37, le=1e30)

    def build(self, segment_length: int, sample_rate: float) -> Feature:
        """See `FeatureKind.build`."""
        frames = self.frames(segment_length, sample_rate)
        bank, axis = self.bank(frames)

        def graph(waveform: Any, valid: Any, bank: Any = bank) -> Any:
            return log_of(self.energies(frames, bank, waveform, valid), self.epsilon)

        return logarithmic(frames.feature([axis], graph, bank), self.epsilon)


@settings_group
class Mfcc(MelSettings):
    """Mel-frequency cepstral coefficients: the orthonormal DCT-II of a mel spectrogram in dB.

    The dB are 10 · log10(max(mel, 1e-10)), without a limit below the loudest frame (librosa and torchaudio: top_db=80
    by default), which would make a frame depend on the others.
    """

    kind: Literal["mfcc"] = "mfcc"
    coefficients: int = setting(20, "how many are kept, from the 0th on", ge=1)

    def build(self, segment_length: int, sample_rate: float) -> Feature:
        """See `FeatureKind.build`."""
        if self.coefficients > self.mel_bins:
            raise ValueError(f"coefficients={self.coefficients} is above mel_bins={self.mel_bins}: lower it")
        frames = self.frames(segment_length, sample_rate)
        bank, _ = self.bank(frames)
        basis = dct_basis(self.mel_bins, self.coefficients)

        def graph(waveform: Any, valid: Any, bank: Any = bank) -> Any:
            return product(decibels(self.energies(frames, bank, waveform, valid), 1.0, -100.0), basis)

        axis = regular_axis("coefficient", "", 0.0, 1.0, self.coefficients)
        return frames.feature([axis], graph, bank)


@settings_group
class Pcen(MelSettings):
    """Per-channel energy normalisation of a mel spectrogram E: (E / (ε + M)^gain + bias)^power_out − bias^power_out.

    M is E smoothed over time, M[t] = (1 − b) M[t − 1] + b E[t] from the steady state of ones on, with b from the time
    constant as librosa.pcen has it. Source: Wang et al. 2017, arXiv:1607.05666; Lostanlen et al. 2019.
    """

    kind: Literal["pcen"] = "pcen"
    power: Literal[1, 2] = setting(1, "of the magnitude before the sum: 1 or 2")
    gain: float = setting(0.98, "exponent of the smoothed energy", ge=0)
    bias: float = setting(2.0, "added before the root", gt=0)
    power_out: float = setting(0.5, "exponent of the compression", gt=0)
    time_constant: float = setting(0.4, "of the smoothing, s", gt=0)
    epsilon: float = setting(1e-6, "added to the smoothed energy", ge=1e-37, le=1e30)

    def build(self, segment_length: int, sample_rate: float) -> Feature:
        """See `FeatureKind.build`."""
        frames = self.frames(segment_length, sample_rate)
        bank, axis = self.bank(frames)
        steps = self.time_constant * sample_rate / self.frame_step
        coefficient = 2 / (1 + np.sqrt(1 + 4 * steps**2))  # (√(1 + 4s²) − 1) / (2s²)
        matrix, initial = smoothing(frames.count, coefficient)

        def graph(waveform: Any, valid: Any, bank: Any = bank) -> Any:
            tf = load_tensorflow()
            energy = self.energies(frames, bank, waveform, valid)
            by_time = tf.transpose(energy, [0, 2, 1])
            smooth = tf.transpose(product(by_time, matrix), [0, 2, 1]) + constant(initial, energy)[:, None]
            gained = energy * tf.exp(-self.gain * tf.math.log(self.epsilon + smooth))
            # (gained + bias)^r − bias^r without the cancellation where little is gained
            return self.bias**self.power_out * tf.math.expm1(
                self.power_out * tf.math.log1p(gained / self.bias)
            )

        return frames.feature([axis], graph, bank)


FRAMED = (Stft, Psd, LogMel, Mfcc, Pcen)

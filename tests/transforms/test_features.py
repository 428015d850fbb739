"""Every kind of feature against an independent float64 reference: scipy, librosa, or the formula."""

import pathlib

import librosa
import numpy as np
import pytest
import scipy.fft
import scipy.signal
import scipy.stats
import tensorflow as tf

from spectrabeam.transforms import frontend

RATE = 12000.0
N = 2048
SHARED = pathlib.Path(__file__).parents[3] / "shared" / "data"


def signals() -> dict[str, np.ndarray]:
    """Segments, float32 [N]."""
    rng = np.random.default_rng(5)
    t = np.arange(N) / RATE
    noise = rng.standard_normal(N)
    impulses = np.zeros(N)
    impulses[[0, 700, N - 1]] = 1, -3, 2
    rows = {
        "sine on a bin": np.sin(2 * np.pi * 100 * RATE / N * t),
        "sine between bins": 0.3 * np.sin(2 * np.pi * 100.37 * RATE / N * t),
        "chirp": scipy.signal.chirp(t, 10, t[-1], 5000),
        "noise": noise,
        "impulses": impulses,
        "constant": np.full(N, 0.7),
        "noise on a constant": 100 + noise,
        "padded": np.where(np.arange(N) < 1300, noise, 0),
        "tiny": 1e-12 * noise,
        "huge": 1e12 * noise,
        "silence": np.zeros(N),
    }
    for name, path in (("CWRU", "cwru"), ("FSDD", "fsdd")):
        found = _recorded(SHARED / path)
        if found is not None:
            rows[name] = found
    return {name: values.astype(np.float32) for name, values in rows.items()}


def _recorded(folder: pathlib.Path) -> np.ndarray | None:
    for path in sorted(folder.rglob("*.wav"))[:1]:
        import soundfile

        samples, _ = soundfile.read(path, dtype="float32")
        return np.resize(samples, N)
    for path in sorted(folder.rglob("*.mat"))[:1]:
        import scipy.io

        values = scipy.io.loadmat(path)
        key = next(key for key in sorted(values) if key.endswith("_DE_time"))
        return values[key][:N, 0].astype(np.float32)
    return None


SIGNALS = signals()
X = np.stack(list(SIGNALS.values())).astype(np.float64)


def rfft(x=X, window="boxcar", n=N):
    return scipy.fft.rfft(x * scipy.signal.get_window(window, x.shape[-1]), n, axis=-1)


def stft(x=X, window="hann", length=512, step=256, n=None):
    frames = np.lib.stride_tricks.sliding_window_view(x, length, axis=-1)[:, ::step]
    return scipy.fft.rfft(frames * scipy.signal.get_window(window, length), n or length, axis=-1)


def mel(htk=False, norm="slaney", power=2, bins=64, n=512):
    bank = librosa.filters.mel(sr=RATE, n_fft=n, n_mels=bins, htk=htk, norm=norm, dtype=np.float64)
    return (np.abs(stft(n=n)) ** power) @ bank.T


def filtered_envelope(low, high, order=4):
    sections = scipy.signal.butter(order, [low, high], "bandpass", fs=RATE, output="sos")
    _, response = scipy.signal.freqz_sos(sections, scipy.fft.rfftfreq(N, 1 / RATE), fs=RATE)
    envelope = np.abs(scipy.signal.hilbert(scipy.fft.irfft(rfft() * np.abs(response) ** 2, N)))
    window = scipy.signal.get_window("hann", N)
    centred = envelope - envelope.mean(axis=-1, keepdims=True)
    return np.abs(scipy.fft.rfft(centred * window)) * 2 / window.sum()


def octaves(fraction, low, high):
    """Mean square of each band, from scipy's periodogram, bin by bin."""
    _, power = scipy.signal.periodogram(X, RATE, "hann", detrend=False, scaling="density")
    step, bands = RATE / N, []
    for k in range(-60, 60):
        middle = 1000 * 10 ** (0.3 * k / fraction)
        lower, upper = middle * 10 ** (-0.15 / fraction), middle * 10 ** (0.15 / fraction)
        if lower < low or upper > high:
            continue
        total = np.zeros(len(X))
        for index in range(power.shape[-1]):
            width = min((index + 0.5) * step, upper) - max((index - 0.5) * step, lower)
            total += power[:, index] * max(width, 0)
        bands.append(total)
    return np.stack(bands, axis=-1)


def indicators():
    rms = np.sqrt((X**2).mean(axis=1))
    peak = np.abs(X).max(axis=1)
    with np.errstate(all="ignore"):
        crest = np.where(peak > 0, peak / rms, 0)
    flat = X.std(axis=1) <= 1e-12 * rms
    quiet = np.where(peak > 0, peak, 1)[:, None]
    with np.errstate(all="ignore"):
        kurtosis = np.where(flat, 0, scipy.stats.kurtosis(X / quiet, axis=1, fisher=False))
        skewness = np.where(flat, 0, scipy.stats.skew(X / quiet, axis=1))
    return np.stack([rms, peak, crest, kurtosis, skewness], axis=1)


def parts(z):
    return np.stack([z.real, z.imag], axis=-1)


def pcen(**more):
    energies = mel(power=1).transpose(0, 2, 1)
    found = [librosa.pcen(each, sr=RATE, hop_length=256, axis=-1, **more) for each in energies]
    return np.stack(found).transpose(0, 2, 1)


MAGNITUDE = np.abs(rfft())
FREQUENCIES = scipy.fft.rfftfreq(N, 1 / RATE)
with np.errstate(divide="ignore", invalid="ignore"):
    JOMEGA = np.where(FREQUENCIES > 0, 1 / (2j * np.pi * FREQUENCIES), 0)

# What errors are measured by, where it is not the largest value of the reference: float64 [rows].
LARGEST = MAGNITUDE.max(axis=1)
MEAN_SQUARE = (X**2).mean(axis=1)

# Rows whose logarithms are of bands that float32 cannot tell from 0, 1e-13 below the row's largest and less.
EMPTY_BANDS = {"mfcc": {"sine between bins", "chirp"}, "cepstrum": {"sine on a bin"}}

# name in the table of docs/features.md: settings, reference on the scale of `Feature.linear`, tolerance in float32,
# and the scale of errors
CASES = {
    "log_spectrum": ({"kind": "log_spectrum"}, MAGNITUDE, 1e-6),
    "log_spectrum, ε = 1e-9": ({"kind": "log_spectrum", "epsilon": 1e-9}, MAGNITUDE, 1e-6),
    "log_spectrum, hann": ({"kind": "log_spectrum", "window": "hann"}, np.abs(rfft(window="hann")), 1e-6),
    "log_spectrum, 4096 points": ({"kind": "log_spectrum", "fft_length": 4096}, np.abs(rfft(n=4096)), 1e-6),
    "log_spectrum, 1000 points": ({"kind": "log_spectrum", "fft_length": 1000}, np.abs(rfft(n=1000)), 1e-6),
    "log_spectrum, linear detrend": (
        {"kind": "log_spectrum", "detrend": "linear"},
        np.abs(rfft(scipy.signal.detrend(X, axis=-1))),
        1e-6,
        LARGEST,
    ),
    "magnitude": ({"kind": "magnitude"}, MAGNITUDE, 1e-6),
    "magnitude, peak": (
        {"kind": "magnitude", "amplitude": "peak", "window": "flattop"},
        np.abs(rfft(window="flattop"))
        * np.r_[1, np.full(N // 2 - 1, 2), 1]
        / scipy.signal.get_window("flattop", N).sum(),
        1e-6,
    ),
    "magnitude, band and average": (
        {"kind": "magnitude", "band": [1000, 3000], "average_bins": 4},
        MAGNITUDE[:, 171:511].reshape(len(X), 85, 4)[:, :, :].mean(axis=-1),
        1e-6,
        LARGEST,
    ),
    "magnitude, velocity": (
        {"kind": "magnitude", "integrate": 1},
        np.abs(rfft() * JOMEGA),
        1e-6,
        LARGEST * np.abs(JOMEGA).max(),
    ),
    "magnitude, A weighting": (
        {"kind": "magnitude", "weighting": "A"},
        MAGNITUDE * 10 ** (librosa.A_weighting(np.maximum(FREQUENCIES, 1e-9), min_db=None) / 20),
        5e-5,  # librosa's constants have six digits
        LARGEST,
    ),
    "power": ({"kind": "power"}, MAGNITUDE**2, 1e-6),
    "db": ({"kind": "db", "floor": -300}, MAGNITUDE, 1e-6),
    "complex": ({"kind": "complex"}, parts(rfft()), 1e-6),
    "complex, displacement": (
        {"kind": "complex", "integrate": 2},
        parts(rfft() * JOMEGA**2),
        1e-6,
        LARGEST * np.abs(JOMEGA**2).max(),
    ),
    "cepstrum": ({"kind": "cepstrum"}, scipy.fft.irfft(np.log(MAGNITUDE + 1e-6), N)[:, : N // 2 + 1], 1e-5),
    "stft": ({"kind": "stft"}, np.abs(stft()), 1e-6),
    "stft, power, 1024 points": (
        {"kind": "stft", "values": "power", "fft_length": 1024},
        np.abs(stft(n=1024)) ** 2,
        1e-6,
    ),
    "stft, complex": ({"kind": "stft", "values": "complex"}, parts(stft()), 1e-6),
    "psd": (
        {"kind": "psd"},
        scipy.signal.welch(X, RATE, "hann", 1024, 512, detrend=False)[1],
        1e-6,
    ),
    "psd, spectrum, blackman": (
        {"kind": "psd", "scaling": "spectrum", "window": "blackman", "frame_length": 600, "frame_step": 200},
        scipy.signal.welch(X, RATE, "blackman", 600, 400, detrend=False, scaling="spectrum")[1],
        1e-6,
    ),
    "log_mel (slaney, librosa)": ({"kind": "log_mel"}, mel(), 1e-6),
    "log_mel (htk, torchaudio)": (
        {"kind": "log_mel", "mel_scale": "htk", "mel_norm": "none", "mel_bins": 40},
        mel(htk=True, norm=None, bins=40),
        1e-6,
    ),
    "mfcc": (
        {"kind": "mfcc"},
        scipy.fft.dct(10 * np.log10(np.maximum(mel(), 1e-10)), norm="ortho", axis=-1)[..., :20],
        1e-5,
    ),
    "pcen": ({"kind": "pcen"}, pcen(), 1e-5),
    "envelope_spectrum": (
        {"kind": "envelope_spectrum", "passband": [2000, 4000]},
        filtered_envelope(2000, 4000),
        1e-6,
        np.abs(X).max(axis=1),
    ),
    "octave_bands": (
        {"kind": "octave_bands", "low": 100, "floor": -290},
        octaves(3, 100, RATE / 2),
        1e-6,
        MEAN_SQUARE,
    ),
    "indicators": ({"kind": "indicators"}, indicators(), 1e-6),
}


def build(settings, length=N, rate=RATE):
    features = frontend.FrontendSettings(features={"key": settings}).features
    return frontend.build_features(features, length, rate)


def errors(case, precision):
    """The largest error of each row as a share of its largest value, and what a logarithm's last digit is of it."""
    settings, reference, _, *scale = CASES[case]
    feature = build(settings)["key"]
    values = frontend.compute_features({"key": feature}, tf.constant(X.astype(np.float32)), None, precision)[
        "key"
    ].numpy()
    assert values.shape == (len(X), *feature.shape)
    assert reference.shape == values.shape
    linear = feature.linear(values).reshape(len(X), -1)
    reference = reference.reshape(len(X), -1)
    last_digit = np.spacing(np.abs(values.astype(precision)).max(axis=tuple(range(1, values.ndim))))
    is_log = not np.array_equal(linear, values.reshape(len(X), -1).astype(np.float64))
    epsilon = settings.get("epsilon", 1e-6) if settings["kind"] in ("log_spectrum", "stft", "log_mel") else 0
    largest = (scale[0] if scale else np.abs(reference).max(axis=1)) + epsilon
    worst = np.abs(linear - reference).max(axis=1) / np.where(largest > 0, largest, 1)
    if precision == "float32":
        worst[[name in EMPTY_BANDS.get(case, ()) for name in SIGNALS]] = 0
    return worst, 5 * last_digit if is_log else np.zeros(len(X))


@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_the_reference(case):
    worst, last_digit = errors(case, "float32")
    allowed = np.maximum(CASES[case][2], last_digit)
    assert (worst <= allowed).all(), dict(zip(SIGNALS, worst, strict=True))


@pytest.mark.parametrize("case", CASES)
def test_in_float64_they_are_exact(case):
    worst, _ = errors(case, "float64")
    allowed = CASES[case][2] if "A weighting" in case else 1e-12
    assert (worst <= allowed).all(), dict(zip(SIGNALS, worst, strict=True))

"""Two-sided spectra of complex samples, against float64 references by numpy and scipy."""

import numpy as np
import pytest
import scipy.fft
import scipy.signal
import tensorflow as tf

from spectrabeam.transforms import frontend
from spectrabeam.transforms.compute import CompiledFrontend
from spectrabeam.transforms.features import invert
from spectrabeam.transforms.inference import SpectralModelHandler
from spectrabeam.transforms.layer import SpectralFrontend

RATE = 1e6
N = 512
VALID = np.array([N] * 7 + [300] + [N] * 3)


def signals() -> np.ndarray:
    """Complex64 [rows, N]."""
    rng = np.random.default_rng(8)
    noise = rng.standard_normal((2, N)) + 1j * rng.standard_normal((2, N))
    t = np.arange(N) / RATE
    rows = [
        np.exp(2j * np.pi * 40 * RATE / N * t),
        0.3 * np.exp(-2j * np.pi * 100.37 * RATE / N * t),
        scipy.signal.chirp(t, 1e4, t[-1], 4e5) * np.exp(1j),
        noise[0],
        np.eye(1, N, 77)[0] * (2 - 3j),
        np.full(N, 0.7 - 0.1j),
        noise[1] + 50j,
        np.where(np.arange(N) < 300, noise[0], 0),
        1e-12 * noise[1],
        1e12 * noise[0],
        np.zeros(N),
    ]
    return np.array(rows, np.complex64)


ROWS = signals()
X = ROWS.astype(np.complex128)
FREQUENCIES = scipy.fft.fftshift(scipy.fft.fftfreq(N, 1 / RATE))


def fft(x=X, window="boxcar", n=N):
    spectrum = scipy.fft.fft(x * scipy.signal.get_window(window, x.shape[-1]), n, axis=-1)
    return scipy.fft.fftshift(spectrum, axes=-1)


def frames(length=128, step=64):
    cut = np.lib.stride_tricks.sliding_window_view(X, length, axis=-1)[:, ::step]
    return fft(cut, "hann", length)


def welch(scaling):
    _, power = scipy.signal.welch(
        X, RATE, "hann", 256, 128, detrend=False, return_onesided=False, scaling=scaling
    )
    return scipy.fft.fftshift(power, axes=-1)


def detrended():
    out = np.zeros_like(X)
    for row, valid in enumerate(VALID):
        out[row, :valid] = scipy.signal.detrend(X[row, :valid], type="linear")
    return fft(out)


def standardized():
    out = np.zeros_like(X)
    for row, valid in enumerate(VALID):
        deviation = X[row, :valid].std()
        flat = deviation <= 1e-7 * np.abs(X[row]).max()
        out[row, :valid] = 0 if flat else X[row, :valid] / deviation
    return fft(out)


def velocity():
    with np.errstate(all="ignore"):
        return np.where(FREQUENCIES == 0, 0, fft() / (2j * np.pi * FREQUENCIES))


CASES = {
    "magnitude": ({"kind": "magnitude"}, lambda: np.abs(fft())),
    "log_spectrum": ({"kind": "log_spectrum", "window": "hann"}, lambda: np.abs(fft(window="hann"))),
    "power": ({"kind": "power"}, lambda: np.abs(fft()) ** 2),
    "db": ({"kind": "db", "floor": -300.0}, lambda: np.abs(fft())),
    "complex": ({"kind": "complex"}, lambda: np.stack([fft().real, fft().imag], -1)),
    "padded to 1000": ({"kind": "magnitude", "fft_length": 1000}, lambda: np.abs(fft(n=1000))),
    "cut to 501": ({"kind": "magnitude", "fft_length": 501}, lambda: np.abs(fft(X[:, :501], n=501))),
    "band": (
        {"kind": "magnitude", "band": [-2e5, 1e5]},
        lambda: np.abs(fft())[:, (FREQUENCIES >= -2e5) & (FREQUENCIES <= 1e5)],
    ),
    "averaged": (
        {"kind": "magnitude", "average_bins": 8},
        lambda: np.abs(fft()).reshape(-1, 64, 8).mean(-1),
    ),
    "peak": (
        {"kind": "magnitude", "window": "hann", "amplitude": "peak"},
        lambda: np.abs(fft(window="hann")) / scipy.signal.get_window("hann", N).sum(),
    ),
    "velocity": ({"kind": "magnitude", "integrate": 1}, lambda: np.abs(velocity())),
    "linear trend": ({"kind": "magnitude", "detrend": "linear"}, lambda: np.abs(detrended())),
    "stft": ({"kind": "stft", "frame_length": 128, "frame_step": 64}, lambda: np.abs(frames())),
    "stft, complex": (
        {"kind": "stft", "frame_length": 128, "frame_step": 64, "values": "complex"},
        lambda: np.stack([frames().real, frames().imag], -1),
    ),
    "psd": ({"kind": "psd", "frame_length": 256, "frame_step": 128}, lambda: welch("density")),
    "psd, spectrum": (
        {"kind": "psd", "frame_length": 256, "frame_step": 128, "scaling": "spectrum"},
        lambda: welch("spectrum"),
    ),
}


def build(length=N, rate=RATE, **kind):
    kinds = frontend.feature_settings(frontend.FrontendSettings(features={"key": kind}))
    return frontend.build_features(kinds, length, rate, is_complex=True)["key"]


def values(feature, rows=ROWS, precision="float32", valid=None):
    found = frontend.compute_features({"key": feature}, tf.constant(rows), valid, precision)["key"]
    return found.numpy()


@pytest.mark.parametrize(("precision", "limit"), [("float32", 1.5e-6), ("float64", 1e-12)])
@pytest.mark.parametrize("name", CASES)
def test_kinds_are_those_of_the_reference(name, precision, limit):
    settings, reference = CASES[name]
    feature = build(**settings)
    expected = reference()
    found = values(feature, precision=precision, valid=VALID)
    assert found.shape == (len(ROWS), *feature.shape) == expected.shape
    assert found.dtype == precision
    if settings["kind"] in ("log_spectrum", "db") or name == "stft":
        if precision == "float32":  # a logarithm in float32 holds no more of large magnitudes
            limit = 5e-6
        found = feature.linear(found.astype(np.float64))
    largest = np.abs(expected).reshape(len(ROWS), -1).max(axis=1)
    if name == "linear trend":  # what is left of a row that was nearly a line is the samples' own rounding
        largest = np.maximum(largest, np.abs(ROWS).max(axis=1) * N)
    if settings["kind"] == "log_spectrum" or name == "stft":
        largest = np.maximum(largest, 1e-6)  # ε
    floor = 2e-15 if settings["kind"] == "db" else 0
    worst = np.abs(found - expected).reshape(len(ROWS), -1).max(axis=1)
    assert (worst <= limit * largest + floor).all(), worst / np.maximum(largest, 1e-300)


def test_standardised_rows_have_the_spectrum_of_rows_of_deviation_1():
    found = values(build(kind="magnitude", standardize=True), valid=VALID, precision="float64")
    varied = np.r_[0:5, 6:10]  # the others are constant: what rounding leaves of them is noise
    expected = np.abs(standardized())[varied]
    assert np.abs(found[varied] - expected).max() < 1e-10 * expected.max()


@pytest.mark.parametrize("bin_", [-256, -100, -1, 0, 1, 17, 255])
def test_a_line_is_at_its_own_frequency_alone_and_reads_its_amplitude(bin_):
    feature = build(kind="magnitude", amplitude="peak")
    rows = 2.5 * np.exp(2j * np.pi * bin_ * np.arange(N) / N)[None].astype(np.complex64)
    (found,) = values(feature, rows)
    (axis,) = feature.axes
    frequencies = axis["first"] + axis["step"] * np.arange(axis["count"])
    place = int(found.argmax())
    assert frequencies[place] == pytest.approx(bin_ * RATE / N)
    assert found[place] == pytest.approx(2.5, rel=1e-6)
    assert np.delete(found, place).max() < 1e-5


@pytest.mark.parametrize(("points", "first"), [(512, -5e5), (501, -250 / 501 * 1e6)])
def test_the_axis_begins_half_the_rate_below_0(points, first):
    (axis,) = build(kind="power", fft_length=points).axes
    assert (axis["first"], axis["count"]) == (pytest.approx(first), points)
    assert axis["step"] == pytest.approx(RATE / points)


def test_energy_is_the_same_in_time_and_frequency():
    power = values(build(kind="power"), precision="float64")
    assert power.sum(axis=1) / N == pytest.approx((np.abs(X) ** 2).sum(axis=1), rel=1e-10)


def test_conjugation_turns_the_axis_round():
    one = values(build(kind="magnitude", fft_length=501))
    other = values(build(kind="magnitude", fft_length=501), ROWS.conj())
    largest = one.max(axis=1, keepdims=True)
    assert (np.abs(one - other[:, ::-1]) <= 1e-6 * largest).all()


@pytest.mark.parametrize("points", [None, 1000])
def test_samples_come_back_from_complex_values(points):
    kind = frontend.KINDS["complex"](fft_length=points)
    stored = values(kind.build(N, RATE, is_complex=True))
    back = invert.from_complex(tf.constant(stored), kind, N, is_complex=True).numpy()
    assert back.dtype == np.complex64
    assert (np.abs(back - ROWS).max(axis=1) <= 1e-6 * np.abs(ROWS).max(axis=1)).all()


def test_samples_come_back_from_frames():
    kind = frontend.KINDS["stft"](values="complex", frame_length=128, frame_step=64)
    stored = values(kind.build(N, RATE, is_complex=True))
    back, known = invert.from_stft(tf.constant(stored), kind, N, is_complex=True)
    error = np.abs(back.numpy() - ROWS) / np.maximum(np.abs(ROWS).max(axis=1, keepdims=True), 1e-30)
    assert known.sum() > N - 64
    assert error[:, known].max() < 1e-3  # under the window's ends
    assert error[:, 64:-64].max() < 2e-6


@pytest.mark.parametrize("name", ["magnitude", "log_spectrum", "stft", "psd", "linear trend"])
def test_gradients_are_those_of_finite_differences(name):
    settings, _ = CASES[name]
    kind = settings | ({"epsilon": 1e-3} if name in ("log_spectrum", "stft") else {})
    graph = build(**kind).graph
    rows = tf.constant(X[3:4])
    valid = tf.constant([N])
    rng = np.random.default_rng(1)
    weights = tf.constant(rng.standard_normal(graph(rows, valid).shape))
    with tf.GradientTape() as tape:
        tape.watch(rows)
        total = tf.reduce_sum(graph(rows, valid) * weights)
    gradient = tape.gradient(total, rows).numpy()
    step = 1e-6
    for place in (0, 100, N - 1):
        for unit in (1, 1j):
            moved = X[3:4].copy()
            ends = []
            for sign in (1, -1):
                moved[0, place] = X[3, place] + sign * step * unit
                ends.append(float(tf.reduce_sum(graph(tf.constant(moved), valid) * weights)))
            slope = (ends[0] - ends[1]) / (2 * step)
            part = gradient[0, place].real if unit == 1 else gradient[0, place].imag
            assert part == pytest.approx(slope, rel=1e-5, abs=1e-8 * np.abs(gradient).max())


def test_gradients_of_silence_are_finite():
    for kind in ("magnitude", "log_spectrum", "phase", "db", "stft", "psd"):
        rows = tf.zeros((1, 2048), tf.complex64)
        graph = build(2048, kind=kind, standardize=True, detrend="linear").graph
        with tf.GradientTape() as tape:
            tape.watch(rows)
            total = tf.reduce_sum(graph(rows, tf.constant([1500])))
        assert np.isfinite(tape.gradient(total, rows).numpy()).all(), kind


@pytest.mark.parametrize(
    "kind",
    ["cepstrum", "log_mel", "mfcc", "pcen", "envelope_spectrum", "octave_bands", "indicators"],
)
def test_kinds_for_real_samples_say_so(kind):
    with pytest.raises(
        ValueError, match=f"features.key: {kind} takes real samples, and these are complex: use"
    ):
        build(12000, 12000.0, kind=kind)


def test_a_band_below_0_is_for_complex_samples():
    kind = frontend.KINDS["magnitude"](band=(-10.0, 10.0))
    with pytest.raises(ValueError, match="band=-10,10 reaches below 0 Hz, and real samples have a one-sided"):
        kind.build(N, RATE)
    with pytest.raises(ValueError, match="reaches beyond 500000 Hz, half the sample rate"):
        build(kind="magnitude", band=[-6e5, 0])


@pytest.mark.parametrize("jit", ["on", "off"])
def test_pipeline_model_layer_and_handler_agree(jit, tmp_path):
    features = {"spectrum": {"kind": "log_spectrum"}, "stft": {"frame_length": 128}}
    settings = frontend.FrontendSettings(features=features, batch_size=len(ROWS), jit=jit)
    compiled = CompiledFrontend(settings, N, RATE, is_complex=True)
    expected = compiled(ROWS, VALID).features
    assert compiled.computed_by["xla"] is (jit == "on")
    assert compiled.traces == 1
    handler = SpectralModelHandler(N, RATE, is_complex=True, features=features, batch_size=len(ROWS), jit=jit)
    handled = list(handler.run_inference(list(ROWS), handler.load_model()))
    layer = SpectralFrontend(features, segment_length=N, sample_rate=RATE, is_complex=True)
    built = frontend.build_features(frontend.feature_settings(settings), N, RATE, is_complex=True)
    frontend.save_module(frontend.make_module(built, N, is_complex=True), str(tmp_path / "saved"))
    served = tf.saved_model.load(str(tmp_path / "saved")).signatures["serving_default"](waveform=ROWS)
    for key, values_ in expected.items():
        assert np.array_equal(np.stack([each.inference[key] for each in handled]), values_)
        if jit == "off":
            assert np.array_equal(layer(ROWS)[key].numpy(), values_)
            assert np.array_equal(served[key].numpy(), values_)
        linear = built[key].linear
        differs = np.abs(linear(layer(ROWS)[key].numpy()) - linear(values_)).reshape(len(ROWS), -1)
        largest = np.abs(linear(values_)).reshape(len(ROWS), -1).max(axis=1)
        assert (differs.max(axis=1) <= 3e-6 * np.maximum(largest, 1e-6)).all()


def test_a_handler_of_real_samples_refuses_complex_ones():
    handler = SpectralModelHandler(N, RATE, batch_size=2, jit="off")
    with pytest.raises(ValueError, match="a waveform is complex64: set is_complex"):
        list(handler.run_inference([ROWS[0]], handler.load_model()))

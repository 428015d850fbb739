"""Laws of the features: Parseval, linearity, shifts, amplitudes, gradients, silence, padding."""

import re

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from spectrabeam.transforms import frontend

RATE = 1000.0
# small enough for finite differences
SMALL = {
    "log_spectrum": {"kind": "log_spectrum", "epsilon": 1e-2},
    "log_spectrum, fft_length below": {"kind": "log_spectrum", "fft_length": 24, "epsilon": 1e-2},
    "log_spectrum, fft_length above": {"kind": "log_spectrum", "fft_length": 64, "epsilon": 1e-2},
    "log_spectrum, prepared": {
        "kind": "log_spectrum",
        "detrend": "linear",
        "standardize": True,
        "epsilon": 1e-2,
    },
    "magnitude": {"kind": "magnitude", "window": "hann", "weighting": "A"},
    "power": {"kind": "power"},
    "db": {"kind": "db"},
    "complex": {"kind": "complex", "integrate": 1},
    "phase": {"kind": "phase"},
    "cepstrum": {"kind": "cepstrum", "epsilon": 1e-2},
    "stft": {"kind": "stft", "frame_length": 16, "frame_step": 8, "epsilon": 1e-2},
    "stft, fft_length below": {
        "kind": "stft",
        "frame_length": 16,
        "frame_step": 8,
        "fft_length": 12,
        "epsilon": 1e-2,
    },
    "psd": {"kind": "psd", "frame_length": 16, "frame_step": 8},
    "log_mel": {"kind": "log_mel", "frame_length": 32, "frame_step": 4, "mel_bins": 4, "epsilon": 1e-2},
    "mfcc": {"kind": "mfcc", "frame_length": 32, "frame_step": 4, "mel_bins": 4, "coefficients": 3},
    "pcen": {"kind": "pcen", "frame_length": 32, "frame_step": 4, "mel_bins": 4},
    "envelope_spectrum": {"kind": "envelope_spectrum", "passband": [100, 300]},
    "octave_bands": {"kind": "octave_bands", "fraction": 1, "low": 50},
    "indicators": {"kind": "indicators"},
}
LENGTH = 40


def build(settings, length=LENGTH, rate=RATE):
    kinds = frontend.feature_settings(frontend.FrontendSettings(features={"key": settings}))
    return frontend.build_features(kinds, length, rate)


def values(settings, rows, precision="float32", valid=None):
    rows = np.atleast_2d(rows)
    found = frontend.compute_features(build(settings, rows.shape[1]), tf.constant(rows), valid, precision)
    return found["key"].numpy()


@pytest.mark.parametrize("case", SMALL)
def test_gradients_are_those_of_finite_differences(case):
    feature = build(SMALL[case])["key"]
    rng = np.random.default_rng(3)
    row = rng.standard_normal((1, LENGTH))
    valid = tf.constant([LENGTH])
    weights = rng.standard_normal((1, *feature.shape))

    def loss(samples):
        return tf.reduce_sum(feature.graph(samples, valid) * weights)

    variable = tf.Variable(row)
    with tf.GradientTape() as tape:
        result = loss(variable)
    gradient = tape.gradient(result, variable).numpy()[0]
    step = 1e-6
    for place in range(0, LENGTH, 3):
        change = np.zeros((1, LENGTH))
        change[0, place] = step
        expected = (loss(tf.constant(row + change)) - loss(tf.constant(row - change))).numpy() / (2 * step)
        assert gradient[place] == pytest.approx(expected, rel=1e-4, abs=1e-5 * np.abs(gradient).max())


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("case", SMALL)
def test_gradients_and_values_are_finite_for_silence_and_padding(case, jit):
    feature = build(SMALL[case])["key"]
    rows = np.zeros((4, LENGTH), np.float32)
    rows[1, :7] = np.random.default_rng(1).standard_normal(7)
    rows[2] = 0.25
    valid = tf.constant([LENGTH, 7, LENGTH, 0])

    @tf.function(jit_compile=jit)
    def both(samples):
        with tf.GradientTape() as tape:
            tape.watch(samples)
            found = feature.graph(samples, valid)
        return found, tape.gradient(found, samples)

    found, gradient = both(tf.constant(rows))
    assert np.isfinite(found).all()
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("case", SMALL)
def test_a_feature_of_frames_says_how_far_they_are_apart(case):
    """By which statistics leave out frames that hold no real sample."""
    feature = build(SMALL[case])["key"]
    first = feature.axes[0]
    is_framed = first["name"] == "time"
    assert feature.frame_step == (round(first["step"] * RATE) if is_framed else 0)


signals = st.integers(0, 2**32 - 1).map(lambda seed: np.random.default_rng(seed))
lengths = st.sampled_from([1, 2, 3, 16, 17, 63, 64, 97, 100, 128, 1000])


@given(signals, lengths)
@hypothesis_settings(deadline=None, max_examples=30)
def test_energy_is_that_of_the_spectrum(rng, length):
    row = rng.standard_normal(length).astype(np.float32)
    power = values({"kind": "power"}, row)[0].astype(np.float64)
    two_sided = 2 * power.sum() - power[0] - (power[-1] if length % 2 == 0 else 0)
    assert two_sided / length == pytest.approx(np.sum(row.astype(np.float64) ** 2), rel=1e-5)


@given(signals, lengths, st.floats(-10, 10), st.floats(-10, 10))
@hypothesis_settings(deadline=None, max_examples=30)
def test_the_complex_spectrum_is_linear(rng, length, a, b):
    one, two = rng.standard_normal((2, length))
    mixed = values({"kind": "complex"}, np.float32(a * one + b * two), "float64")
    parts = values({"kind": "complex"}, np.float32([one, two]), "float64")
    scale = np.abs(parts).max() * (abs(a) + abs(b)) + 1e-6
    assert np.abs(mixed - (a * parts[0] + b * parts[1])).max() <= 1e-6 * scale


@given(signals, lengths, st.integers(0, 1000))
@hypothesis_settings(deadline=None, max_examples=30)
def test_a_shift_around_the_segment_leaves_the_magnitude(rng, length, shift):
    row = rng.standard_normal(length).astype(np.float32)
    one, other = values({"kind": "magnitude"}, np.stack([row, np.roll(row, shift)]))
    assert np.abs(one - other).max() <= 2e-6 * one.max()


@given(signals, lengths)
@hypothesis_settings(deadline=None, max_examples=30)
def test_the_spectrum_leads_back_to_the_samples(rng, length):
    row = rng.standard_normal(length).astype(np.float32)
    real, imaginary = np.moveaxis(values({"kind": "complex"}, row)[0], -1, 0)
    back = tf.signal.irfft(tf.complex(real, imaginary), [length]).numpy()
    assert np.abs(back - row).max() <= 1e-6 * np.abs(row).max() + 1e-6


@given(signals, lengths)
@hypothesis_settings(deadline=None, max_examples=20)
def test_reversing_time_conjugates(rng, length):
    """Conjugate symmetry of a real signal's spectrum: X of x[−n] is X*."""
    row = rng.standard_normal(length).astype(np.float32)
    forward, backward = values({"kind": "complex"}, np.stack([row, np.roll(row[::-1], 1)]))
    assert np.abs(forward * [1, -1] - backward).max() <= 2e-6 * np.abs(forward).max()


@pytest.mark.parametrize("window", ["boxcar", "hann", "flattop", "kaiser:14"])
@pytest.mark.parametrize("k", [20, 100, 490])
def test_a_sine_of_amplitude_a_reads_a_at_its_bin(window, k):
    row = 0.3 * np.sin(2 * np.pi * k * np.arange(1024) / 1024).astype(np.float32)
    found = values({"kind": "magnitude", "amplitude": "peak", "window": window}, row)[0]
    assert found.argmax() == k
    assert found[k] == pytest.approx(0.3, rel=1e-5)


def test_a_sine_s_velocity_and_displacement_are_its_amplitude_over_omega():
    omega = 2 * np.pi * 50 * RATE / 1000
    row = np.sin(omega * np.arange(1000) / RATE).astype(np.float32)
    for times in (1, 2):
        found = values({"kind": "magnitude", "amplitude": "peak", "integrate": times}, row)[0]
        assert found[50] == pytest.approx(omega**-times, rel=1e-5)
        assert found[0] == 0


def test_preparing_looks_at_real_samples_alone():
    row = np.zeros(64, np.float32)
    row[:40] = 3 + 0.5 * np.arange(40)
    for kind in ("constant", "linear"):
        settings = {"kind": "magnitude", "detrend": kind}
        padded = values(settings, row, "float64", tf.constant([40]))[0]
        alone = row[:40].astype(np.float64)
        alone -= alone.mean() if kind == "constant" else alone
        expected = np.abs(np.fft.rfft(alone, 64))
        assert np.abs(padded - expected).max() <= 1e-5


def test_standardized_segments_have_deviation_one_whatever_their_scale():
    rows = np.random.default_rng(2).standard_normal((3, 256)) * [[1e-9], [1.0], [1e9]]
    found = values({"kind": "indicators", "detrend": "constant", "standardize": True}, np.float32(rows))
    np.testing.assert_allclose(found[:, 0], 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"kind": "log_spectrum", "band": [0, 600]}, "band=0,600 reaches beyond 500 Hz"),
        ({"kind": "log_spectrum", "band": [1, 2]}, "band=1,2 holds no bin, and they are 25 Hz apart"),
        ({"kind": "magnitude", "average_bins": 50}, "average_bins=50 is more than the 21 bins"),
        ({"kind": "stft"}, "frame_length=512 is above segment_length=40"),
        ({"kind": "log_mel", "frame_length": 32}, "mel_bins=64 leaves"),
        (
            {"kind": "log_mel", "frame_length": 32, "mel_bins": 2, "high": 900},
            "must be in order and at most 500 Hz",
        ),
        ({"kind": "mfcc", "frame_length": 32, "mel_bins": 4}, "coefficients=20 is above mel_bins=4"),
        (
            {"kind": "envelope_spectrum", "passband": [100, 500]},
            "passband=100,500 must lie between 0 and 500 Hz",
        ),
        ({"kind": "octave_bands"}, "no 1/3-octave band lies between"),
    ],
)
def test_settings_that_do_not_go_with_length_and_rate_are_refused(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)) as error:
        build(settings)
    assert str(error.value).startswith("features.key: ")

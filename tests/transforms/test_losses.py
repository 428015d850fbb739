"""Spectral losses: values against scipy, gradients against finite differences, finite where there is nothing."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy.fft
import scipy.signal
import tensorflow as tf
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from spectrabeam.transforms.losses import (
    BandWeighted,
    LogSpectralDistance,
    MultiResolutionStft,
    keras_loss,
    log_spectral_distance,
    make_loss,
)

N = 256
RNG = np.random.default_rng(6)
ONE, TWO = RNG.standard_normal((2, 3, N))
LOSSES = {
    "distance": LogSpectralDistance(epsilon=1e-3),
    "distance, fft below": LogSpectralDistance(epsilon=1e-3, fft_length=100),
    "distance, fft above": LogSpectralDistance(epsilon=1e-3, fft_length=300),
    "stft": MultiResolutionStft(fft_lengths=(64,), epsilon=1e-3),
    "stft, windows below": MultiResolutionStft(
        fft_lengths=(32, 64), window_lengths=(20, 33), hop_lengths=(5, 40), epsilon=1e-3
    ),
    "bands": BandWeighted(bands=((0, 100, 1), (50, 400, 3)), sample_rate=1000, epsilon=1e-3),
}


SYMMETRIC = [case for case in LOSSES if not case.startswith("stft")]


def logs(x, points=N):
    return np.log(np.abs(scipy.fft.rfft(x[:, :points], points)) + 1e-3)


def distance(one, two, points=N):
    difference = 20 / np.log(10) * (logs(one, points) - logs(two, points))
    return np.sqrt((difference**2).mean(axis=1))


def stft_magnitude(x, fft, window, hop):
    """scipy's own STFT: float64 [batch, bins, frames], frames that lie within the samples."""
    hann = scipy.signal.get_window("hann", window)
    stft = scipy.signal.ShortTimeFFT(hann, hop=hop, fs=1, mfft=fft)
    places = window // 2 + hop * np.arange(1 + (N - window) // hop)
    # its frames are centred on multiples of hop: shift the samples so that the first begins at sample 0
    shift = -places[0] % hop
    moved = np.pad(x, ((0, 0), (shift, 0)))
    first = (places[0] + shift) // hop
    return np.abs(stft.stft(moved, p0=first, p1=first + len(places)))


def resolutions(one, two, settings=((64, 64, 16),)):
    total = np.zeros(len(one))
    for each in settings:
        x, y = stft_magnitude(one, *each), stft_magnitude(two, *each)
        total += np.linalg.norm(x - y, axis=(1, 2)) / (np.linalg.norm(x, axis=(1, 2)) + 1e-3)
        total += np.abs(np.log(x + 1e-3) - np.log(y + 1e-3)).mean(axis=(1, 2))
    return total / len(settings)


def bands(one, two):
    squared = (logs(one) - logs(two)) ** 2
    frequencies = scipy.fft.rfftfreq(N, 1e-3)
    means = [
        squared[:, (frequencies >= low) & (frequencies <= high)].mean(axis=1)
        for low, high in ((0, 100), (50, 400))
    ]
    return (means[0] + 3 * means[1]) / 4


REFERENCES = {
    "distance": distance,
    "distance, fft below": lambda one, two: distance(one, two, 100),
    "distance, fft above": lambda one, two: distance(one, two, 300),
    "stft": resolutions,
    "stft, windows below": lambda one, two: resolutions(one, two, ((32, 20, 5), (64, 33, 40))),
    "bands": bands,
}


def value_and_gradient(loss, true, predicted, valid=None):
    """The loss, float [batch], and the gradient of its sum to predicted, [batch, samples]."""
    predicted = tf.convert_to_tensor(predicted)
    with tf.GradientTape() as tape:
        tape.watch(predicted)
        found = loss(true, predicted, valid)
    return found, tape.gradient(found, predicted)


@pytest.mark.parametrize("case", LOSSES)
def test_values_are_those_of_scipy(case):
    expected = REFERENCES[case](ONE, TWO)
    np.testing.assert_allclose(LOSSES[case](ONE, TWO), expected, rtol=1e-12)
    single = LOSSES[case](ONE.astype(np.float32), TWO.astype(np.float32))
    assert single.dtype == tf.float32
    # float32 has 6e-8; the logarithm of a bin near ε carries the rounding of the largest one
    np.testing.assert_allclose(single, expected, rtol=1e-5)


@pytest.mark.parametrize("case", LOSSES)
def test_values_of_padded_rows_are_those_of_zeros(case):
    valid = [200, 0, N]
    real = np.arange(N) < np.array(valid)[:, None]
    expected = REFERENCES[case](ONE * real, TWO * real)
    np.testing.assert_allclose(LOSSES[case](ONE, TWO, valid), expected, rtol=1e-12)


def test_a_function_computes_the_distance():
    expected = LogSpectralDistance(epsilon=1e-3, fft_length=100)(ONE, TWO, [200] * 3)
    found = log_spectral_distance(ONE, TWO, [200] * 3, epsilon=1e-3, fft_length=100)
    np.testing.assert_array_equal(found, expected)


def test_twice_the_amplitude_is_six_decibels():
    np.testing.assert_allclose(
        log_spectral_distance(ONE, 2 * ONE, epsilon=1e-12), 20 * np.log10(2), rtol=1e-9
    )


def test_silence_lies_at_epsilon():
    impulse = np.zeros((1, N))
    impulse[0, 9] = 1  # magnitude 1 in every bin
    found = log_spectral_distance(impulse, np.zeros((1, N)), epsilon=1e-3)
    np.testing.assert_allclose(found, 20 * np.log10(1.001 / 1e-3), rtol=1e-12)


@pytest.mark.parametrize("case", LOSSES)
def test_gradients_are_those_of_finite_differences(case):
    loss = LOSSES[case]
    gradient = value_and_gradient(loss, ONE, TWO)[1].numpy()
    for place in range(0, N, 37):
        change = np.zeros_like(TWO)
        change[:, place] = 1e-6
        expected = (loss(ONE, TWO + change) - loss(ONE, TWO - change)).numpy() / 2e-6
        np.testing.assert_allclose(
            gradient[:, place], expected, rtol=1e-4, atol=1e-5 * np.abs(gradient).max()
        )


@pytest.mark.parametrize("case", LOSSES)
def test_values_and_gradients_are_finite_where_there_is_nothing(case):
    silent = np.zeros((1, N))
    true = np.concatenate([ONE, silent, silent, ONE[:1], ONE[:1]]).astype(np.float32)
    predicted = np.concatenate([TWO, silent, TWO[:1], silent, ONE[:1]]).astype(np.float32)
    valid = tf.constant([N, 10, 0, N, N, N, N])
    # without the safe root, only plain TensorFlow has NaN here: the compiled graph does not show it
    compiled = tf.function(value_and_gradient, jit_compile=True)
    results = []
    for compute, rounding in ((value_and_gradient, 0), (compiled, 1e-5)):
        found, gradient = compute(LOSSES[case], tf.constant(true), tf.constant(predicted), valid)
        assert np.isfinite(found).all()
        assert np.isfinite(gradient).all()
        # nothing real, both silent, equal: 0, which XLA's other order of rounding may miss
        np.testing.assert_allclose(found.numpy()[[2, 3, 6]], 0, atol=rounding)
        np.testing.assert_array_equal(gradient.numpy()[2:4], 0)
        np.testing.assert_array_equal(gradient.numpy()[1, 10:], 0)  # padding does not pull
        results.append((found.numpy(), gradient.numpy()))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-5, atol=1e-5)
    # the gradient of an equal row is 0 or, one rounding away, a unit vector: only the others are comparable
    one, two = results[0][1][:6], results[1][1][:6]
    np.testing.assert_allclose(two, one, atol=1e-5 * np.abs(one).max())


@pytest.mark.parametrize("scale", [1e-44, 1e-38, 1e-20, 1e-6, 1e12])
def test_gradients_are_finite_at_every_level_for_the_smallest_epsilon(scale):
    one, two = (each.astype(np.float32) * np.float32(scale) for each in (ONE, TWO))
    nearly = one * np.float32(1 + 2**-23)
    for loss in (
        LogSpectralDistance(epsilon=1e-12),
        MultiResolutionStft(fft_lengths=(64,), epsilon=1e-12),
        BandWeighted(bands=((0, 100, 1),), sample_rate=1000, epsilon=1e-12),
    ):
        for true, predicted in ((one, two), (0 * one, two), (one, nearly), (one, 0 * one)):
            found, gradient = value_and_gradient(loss, true, predicted)
            assert np.isfinite(found).all()
            assert np.isfinite(gradient).all()


@given(
    seed=st.integers(0, 1 << 31),
    samples=st.integers(64, 100),
    gain=st.floats(0.01, 100),
    case=st.sampled_from(sorted(LOSSES)),
)
@hypothesis_settings(max_examples=20, deadline=None)
def test_laws_of_a_distance(seed, samples, gain, case):
    rng = np.random.default_rng(seed)
    x, y, z = rng.standard_normal((3, 4, samples))
    y *= gain
    loss = LOSSES[case]
    found = loss(x, y).numpy()
    assert (found > 0).all()
    for same in (x, -x):  # a spectrum's magnitude has no sign
        np.testing.assert_array_equal(loss(x, same), 0)
    order = rng.permutation(4)
    np.testing.assert_allclose(loss(x[order], y[order]), found[order], rtol=1e-12)
    np.testing.assert_allclose(loss(x[:1], y[:1]), found[:1], rtol=1e-12)
    if case in SYMMETRIC:
        np.testing.assert_allclose(loss(y, x), found, rtol=1e-12)
    if case.startswith("distance"):
        assert (found <= loss(x, z).numpy() + loss(z, y).numpy() + 1e-9).all()


@given(seed=st.integers(0, 1 << 31), gain=st.floats(0.05, 20))
@hypothesis_settings(max_examples=15, deadline=None)
def test_a_gain_alone_has_a_known_loss(seed, gain):
    x = np.random.default_rng(seed).standard_normal((2, 80))
    tight = {"rtol": 1e-5, "atol": 1e-7}  # ε is 1e-12 beside magnitudes that are seldom below 1e-6
    np.testing.assert_allclose(
        log_spectral_distance(x, gain * x, epsilon=1e-12), abs(20 * np.log10(gain)), **tight
    )
    stft = MultiResolutionStft(fft_lengths=(16, 32), epsilon=1e-12)
    np.testing.assert_allclose(stft(x, gain * x), abs(1 - gain) + abs(np.log(gain)), **tight)
    weighted = BandWeighted(bands=((0, 20, 2), (10, 50, 5)), sample_rate=100, epsilon=1e-12)
    np.testing.assert_allclose(weighted(x, gain * x), np.log(gain) ** 2, **tight)


def test_convergence_is_relative_to_the_true_waveform():
    loss = LOSSES["stft"]
    assert (loss(ONE, 10 * ONE).numpy() > 5 + loss(10 * ONE, ONE).numpy()).all()


@pytest.mark.parametrize("case", LOSSES)
def test_one_trace_serves_every_batch_of_a_signature(case):
    traces = []
    waveforms = tf.TensorSpec([None, N], tf.float32)

    @tf.function(input_signature=[waveforms, waveforms, tf.TensorSpec([None], tf.int64)])
    def compute(true, predicted, valid):
        traces.append(1)
        return LOSSES[case](true, predicted, valid)

    one, two = ONE.astype(np.float32), TWO.astype(np.float32)
    for rows in (3, 1, 0):
        assert compute(one[:rows], two[:rows], np.full(rows, 100)).shape == (rows,)
    assert len(traces) == 1


@pytest.mark.parametrize("rubbish", [7, np.nan])
def test_padding_is_not_compared(rubbish):
    for loss in LOSSES.values():
        expected = loss(ONE, TWO, [100] * 3)
        for side in (0, 1):
            pair = [ONE.copy(), TWO.copy()]
            pair[side][:, 100:] = rubbish
            pair = [tf.constant(each) for each in pair]
            with tf.GradientTape() as tape:
                tape.watch(pair)
                found = loss(*pair, [100] * 3)
            np.testing.assert_array_equal(found, expected)
            for gradient in tape.gradient(found, pair):
                assert np.isfinite(gradient).all()
                np.testing.assert_array_equal(gradient[:, 100:], 0)


@pytest.mark.parametrize("half", [tf.bfloat16, tf.float16])
@pytest.mark.parametrize("case", LOSSES)
def test_half_precision_is_left_first(case, half):
    true, predicted = tf.cast(ONE, half), tf.cast(TWO, half)
    found, gradient = value_and_gradient(LOSSES[case], true, predicted)
    assert (found.dtype, gradient.dtype) == (tf.float32, half)
    expected = LOSSES[case](tf.cast(true, tf.float32), tf.cast(predicted, tf.float32))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_keras_trains_with_a_loss_in_mixed_precision():
    import keras

    policy = keras.config.dtype_policy()
    try:
        keras.config.set_dtype_policy("mixed_bfloat16")
        model = keras.Sequential(
            [keras.Input([N]), keras.layers.Rescaling(1.0), keras.layers.EinsumDense("bn,n->bn", N)]
        )
        loss = keras_loss({"kind": "multi_resolution_stft", "fft_lengths": [64]})
        model.compile(optimizer="adam", loss=loss, run_eagerly=True)
        trained = model.fit(ONE, TWO, verbose=0).history["loss"]
    finally:
        keras.config.set_dtype_policy(policy)
    assert np.isfinite(trained).all()
    assert np.isfinite(model.get_weights()[0]).all()


def test_keras_takes_the_mean_over_rows_and_stores_the_settings():
    import keras

    loss = keras_loss(LOSSES["bands"])
    expected = LOSSES["bands"](ONE.astype(np.float32), TWO.astype(np.float32))
    np.testing.assert_allclose(loss(ONE, TWO), expected.numpy().mean(), rtol=1e-6)
    stored = keras.losses.deserialize(keras.losses.serialize(loss))
    assert stored.name == "band_weighted"
    assert stored.get_config() == loss.get_config()
    np.testing.assert_array_equal(stored(ONE, TWO), loss(ONE, TWO))


def test_importing_the_module_loads_neither_tensorflow_nor_keras():
    code = "import sys, spectrabeam.transforms.losses; print({'tensorflow', 'keras'} & set(sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "set()\n"
    )


def test_python_of_the_losses_page_runs(capsys):
    page = (Path(__file__).resolve().parents[2] / "docs" / "losses.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert blocks
    exec("\n".join(blocks), {})
    assert "(2,)" in capsys.readouterr().out


def test_a_mapping_makes_a_loss():
    assert make_loss({"kind": "multi_resolution_stft", "fft_lengths": [32, 64]}) == MultiResolutionStft(
        fft_lengths=(32, 64)
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"kind": "log_spectral_distanc"},
            "kind=log_spectral_distanc is no loss, did you mean log_spectral_distance?: there are",
        ),
        ({}, "kind=None is no loss: there are log_spectral_distance"),
        ({"kind": ["band_weighted"]}, "kind=['band_weighted'] is no loss"),
        (None, "None is no loss: give a mapping with a kind, one of log_spectral_distance"),
        (
            {"kind": "log_spectral_distance", "epsilom": 1},
            "log_spectral_distance: epsilom: there is no such setting, did you mean epsilon?; there are kind, epsilon",
        ),
        (
            {"kind": "log_spectral_distance", 1: 2},
            "log_spectral_distance: 1: there is no such setting; there are",
        ),
        ({"kind": "log_spectral_distance", "epsilon": 0}, "log_spectral_distance: epsilon: "),
        ({"kind": "log_spectral_distance", "epsilon": 9e-13}, "log_spectral_distance: epsilon: "),
        ({"kind": "log_spectral_distance", "epsilon": float("nan")}, "log_spectral_distance: epsilon: "),
        ({"kind": "log_spectral_distance", "fft_length": 0}, "log_spectral_distance: fft_length: "),
        ({"kind": "multi_resolution_stft", "fft_lengths": []}, "multi_resolution_stft: fft_lengths: "),
        ({"kind": "multi_resolution_stft", "fft_lengths": [8, 0]}, "multi_resolution_stft: fft_lengths.1: "),
        (
            {"kind": "multi_resolution_stft", "fft_lengths": [8, 16], "hop_lengths": [2]},
            "multi_resolution_stft: hop_lengths=2 must have one number for each of fft_lengths=8,16",
        ),
        (
            {"kind": "multi_resolution_stft", "fft_lengths": [8], "window_lengths": [9]},
            "multi_resolution_stft: window_lengths=9 must be <= its fft_length=8: shorten it",
        ),
        (
            {"kind": "band_weighted", "bands": [[5, 1, 1]], "sample_rate": 9},
            "5,1,1 must be low and high in Hz",
        ),
        (
            {"kind": "band_weighted", "bands": [[1, 5, 0]], "sample_rate": 9},
            "1,5,0 must be low and high in Hz",
        ),
        ({"kind": "band_weighted", "bands": [[1, 5, 1]]}, "band_weighted: sample_rate: "),
        ({"kind": "band_weighted", "sample_rate": 9}, "band_weighted: bands: "),
    ],
)
def test_what_is_wrong_in_a_mapping_is_said(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make_loss(settings)


def test_waveforms_that_are_too_short_are_refused():
    message = "fft_lengths=512 is above the 256 samples of the waveforms: leave it out"
    with pytest.raises(ValueError, match=message):
        MultiResolutionStft()(ONE, TWO)
    with pytest.raises(ValueError, match="window_lengths=300 is above the 256 samples"):
        MultiResolutionStft(fft_lengths=(512,), window_lengths=(300,))(ONE, TWO)
    assert MultiResolutionStft(fft_lengths=(512,), window_lengths=(256,))(ONE, TWO).shape == (3,)
    with pytest.raises(ValueError, match="bands, of 256 samples at 1000 Hz: band=1,2 holds no bin"):
        BandWeighted(bands=((1, 2, 1),), sample_rate=1000)(ONE, TWO)
    with pytest.raises(
        ValueError, match="bands, of 256 samples at 1000 Hz: band=1,600 reaches beyond 500 Hz"
    ):
        BandWeighted(bands=((1, 600, 1),), sample_rate=1000)(ONE, TWO)


@pytest.mark.parametrize(
    ("true", "predicted", "valid", "message"),
    [
        (ONE, TWO[:1], None, "true of shape (3, 256) and predicted of shape (1, 256) must be alike"),
        (ONE, TWO[..., None], None, "predicted of shape (3, 256, 1) must be [batch, samples]"),
        (ONE[0], TWO[0], None, "true of shape (256,) must be [batch, samples]"),
        (ONE[:, :0], TWO[:, :0], None, "true of shape (3, 0) must be [batch, samples]"),
        (ONE, TWO, [[9], [9], [9]], "valid of shape (3, 1) must be [batch]"),
        (ONE, TWO, 9, "valid of shape () must be [batch]"),
    ],
)
def test_shapes_that_do_not_go_together_are_refused(true, predicted, valid, message):
    for loss in LOSSES.values():
        with pytest.raises(ValueError, match=re.escape(message)):
            loss(true, predicted, valid)


def test_a_number_of_samples_that_the_graph_does_not_know_is_refused():
    @tf.function(input_signature=[tf.TensorSpec([None, None], tf.float32)])
    def compute(waveforms):
        return LOSSES["stft"](waveforms, waveforms)

    with pytest.raises(ValueError, match="with a known number of samples"):
        compute(ONE.astype(np.float32))

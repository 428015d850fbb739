"""Spectral losses: values against scipy, gradients against finite differences, finite where there is nothing."""

import re

import numpy as np
import pytest
import scipy.fft
import scipy.signal
import tensorflow as tf

from spectrabeam.transforms.losses import BandWeighted, LogSpectralDistance, MultiResolutionStft, make_loss

N = 256
RNG = np.random.default_rng(6)
ONE, TWO = RNG.standard_normal((2, 3, N))
LOSSES = {
    "distance": LogSpectralDistance(epsilon=1e-3),
    "distance, fft below": LogSpectralDistance(epsilon=1e-3, fft_length=100),
    "stft": MultiResolutionStft(fft_lengths=(32, 64), epsilon=1e-3),
    "bands": BandWeighted(bands=((0, 100, 1), (50, 400, 3)), sample_rate=1000, epsilon=1e-3),
}


def logs(x, points=N):
    return np.log(np.abs(scipy.fft.rfft(x[:, :points], points)) + 1e-3)


def distance(points):
    difference = 20 / np.log(10) * (logs(ONE, points) - logs(TWO, points))
    return np.sqrt((difference**2).mean(axis=1))


def resolutions():
    total = np.zeros(3)
    for points in (32, 64):
        window = scipy.signal.get_window("hann", points)
        one, two = (
            np.abs(
                scipy.fft.rfft(
                    np.lib.stride_tricks.sliding_window_view(x, points, axis=1)[:, :: points // 4] * window
                )
            )
            for x in (ONE, TWO)
        )
        norm = np.sqrt(((one - two) ** 2).sum(axis=(1, 2))) / (np.sqrt((one**2).sum(axis=(1, 2))) + 1e-3)
        total += norm + np.abs(np.log(one + 1e-3) - np.log(two + 1e-3)).mean(axis=(1, 2))
    return total / 2


def bands():
    squared = (logs(ONE) - logs(TWO)) ** 2
    frequencies = scipy.fft.rfftfreq(N, 1e-3)
    means = [
        squared[:, (frequencies >= low) & (frequencies <= high)].mean(axis=1)
        for low, high in ((0, 100), (50, 400))
    ]
    return (means[0] + 3 * means[1]) / 4


EXPECTED = {
    "distance": distance(N),
    "distance, fft below": distance(100),
    "stft": resolutions(),
    "bands": bands(),
}


@pytest.mark.parametrize("case", LOSSES)
def test_values_are_those_of_scipy(case):
    np.testing.assert_allclose(LOSSES[case](ONE, TWO), EXPECTED[case], rtol=1e-12)
    single = LOSSES[case](ONE.astype(np.float32), TWO.astype(np.float32))
    assert single.dtype == tf.float32
    np.testing.assert_allclose(single, EXPECTED[case], rtol=1e-4)


@pytest.mark.parametrize("case", LOSSES)
def test_gradients_are_those_of_finite_differences(case):
    loss, predicted = LOSSES[case], tf.Variable(TWO)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(loss(ONE, predicted))
    gradient = tape.gradient(total, predicted).numpy()
    for place in range(0, N, 37):
        change = np.zeros_like(TWO)
        change[:, place] = 1e-6
        expected = (loss(ONE, TWO + change) - loss(ONE, TWO - change)).numpy() / 2e-6
        np.testing.assert_allclose(
            gradient[:, place], expected, rtol=1e-4, atol=1e-5 * np.abs(gradient).max()
        )


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("case", LOSSES)
def test_values_and_gradients_are_finite_where_there_is_nothing(case, jit):
    true = ONE.astype(np.float32)
    predicted = TWO.astype(np.float32)
    true = np.concatenate([true, np.zeros((1, N)), np.zeros((1, N)), true[:1], true[:1]]).astype(np.float32)
    predicted = np.concatenate([predicted, np.zeros((1, N)), predicted[:1], np.zeros((1, N)), true[:1]])
    valid = tf.constant([N, 10, 0, N, N, N, N])

    @tf.function(jit_compile=jit)
    def both(samples):
        with tf.GradientTape() as tape:
            tape.watch(samples)
            found = LOSSES[case](true, samples, valid)
        return found, tape.gradient(found, samples)

    found, gradient = both(tf.constant(predicted.astype(np.float32)))
    assert np.isfinite(found).all()
    assert np.isfinite(gradient).all()
    np.testing.assert_array_equal(found.numpy()[[2, 3, 6]], 0)  # nothing real, both silent, equal
    np.testing.assert_array_equal(gradient.numpy()[1, 10:], 0)  # padding does not pull


def test_padding_is_not_compared():
    changed = TWO.copy()
    changed[:, 100:] = 7
    for loss in LOSSES.values():
        np.testing.assert_array_equal(loss(ONE, TWO, [100] * 3), loss(ONE, changed, [100] * 3))


def test_half_precision_is_left_before_the_logarithm():
    half = tf.cast(TWO, tf.bfloat16)
    found = LogSpectralDistance()(tf.zeros_like(half), half)
    assert found.dtype == tf.float32
    expected = LogSpectralDistance()(np.zeros((3, N), np.float32), tf.cast(half, tf.float32))
    np.testing.assert_array_equal(found, expected)


def test_a_mapping_makes_a_loss():
    assert make_loss({"kind": "multi_resolution_stft", "fft_lengths": [32, 64]}) == MultiResolutionStft(
        fft_lengths=(32, 64)
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"kind": "log_spectral_distanc"},
            "kind=log_spectral_distanc is no loss, did you mean log_spectral_distance",
        ),
        ({}, "kind=None is no loss: there are log_spectral_distance"),
        ({"kind": "log_spectral_distance", "epsilom": 1}, "log_spectral_distance: epsilom: "),
        ({"kind": "log_spectral_distance", "epsilon": 0}, "log_spectral_distance: epsilon: "),
        (
            {"kind": "band_weighted", "bands": [[5, 1, 1]], "sample_rate": 9},
            "5,1,1 must be low and high in Hz",
        ),
        ({"kind": "band_weighted", "bands": [[1, 5, 1]]}, "band_weighted: sample_rate: "),
    ],
)
def test_what_is_wrong_in_a_mapping_is_said(settings, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        make_loss(settings)


def test_waveforms_that_are_too_short_are_refused():
    with pytest.raises(
        ValueError, match="fft_lengths=512 is above the 256 samples of the waveforms: leave it out"
    ):
        MultiResolutionStft()(ONE, TWO)
    with pytest.raises(ValueError, match="bands=1,2 holds no bin of 256 samples: widen it"):
        BandWeighted(bands=((1, 2, 1),), sample_rate=1000)(ONE, TWO)

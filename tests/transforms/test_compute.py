"""The compiled frontend: one trace, any thread, the same bits, and XLA only where it agrees."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tensorflow as tf

from spectrabeam.transforms import frontend
from spectrabeam.transforms.buffers import aligned_empty
from spectrabeam.transforms.compute import CompiledFrontend
from spectrabeam.transforms.frontend import FrontendSettings
from tests.helpers.references import assert_spectrum, magnitude

N = 256


def compiled(**settings):
    return CompiledFrontend(
        FrontendSettings(**{"batch_size": 4, "jit": "off", "device": "cpu"} | settings), N, 1000.0
    )


def rows(count=4, seed=0):
    return np.random.default_rng(seed).standard_normal((count, N)).astype(np.float32)


@pytest.fixture(scope="module")
def plain():
    return compiled()


def test_features_are_those_of_float64(plain):
    waveform = rows()
    for stored, samples in zip(plain(waveform).features["spectrum"], waveform, strict=True):
        assert_spectrum(stored, samples)


def test_graph_is_traced_once_in_the_life_of_the_process():
    frontend_ = compiled()
    for seed in range(5):
        frontend_(rows(seed=seed))
    assert frontend_.traces == 1


def test_values_do_not_depend_on_where_the_samples_lie_in_memory(plain):
    waveform = rows()
    aligned = aligned_empty(waveform.shape)
    aligned[:] = waveform
    shifted = np.empty(waveform.size + 1, np.float32)[1:].reshape(waveform.shape)
    shifted[:] = waveform
    values = [plain(each).features["spectrum"].tobytes() for each in (waveform, aligned, shifted)]
    assert len(set(values)) == 1


def test_results_stay_when_the_samples_are_overwritten(plain):
    waveform = aligned_empty((4, N))
    waveform[:] = rows()
    result = plain(waveform)
    before = result.features["spectrum"].copy()
    waveform[:] = 0
    plain(waveform)
    np.testing.assert_array_equal(result.features["spectrum"], before)


def test_threads_get_the_values_of_their_own_batch(plain):
    batches = [rows(seed=seed) for seed in range(24)]
    expected = [plain(batch).features["spectrum"] for batch in batches]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda batch: plain(batch).features["spectrum"], batches))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("jit", ["off", "on"])
def test_batches_of_16_and_64_give_the_same_bits(jit):
    waveform = rows(64)
    whole = compiled(batch_size=64, jit=jit)(waveform).features["spectrum"]
    small = compiled(batch_size=16, jit=jit)
    parts = [small(waveform[first : first + 16]).features["spectrum"] for first in range(0, 64, 16)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)


# Of the last pair the samples add up, and only the spectrum is beyond float32.
@pytest.mark.parametrize("bad", [[np.nan, 0], [np.inf, 0], [0, -np.inf], [np.inf, -np.inf], [3e38, -3e38]])
def test_row_sum_is_not_finite_where_a_sample_or_a_feature_is_not(plain, bad):
    waveform = rows()
    waveform[2, 7:9] = bad
    assert np.isfinite(plain(waveform).row_sums).tolist() == [True, True, False, True]


def test_several_features_come_from_one_graph():
    settings = {"fine": {"kind": "log_spectrum"}, "coarse": {"kind": "log_spectrum", "epsilon": 10.0}}
    waveform = rows()
    features = compiled(features=settings)(waveform).features
    assert set(features) == {"fine", "coarse"}
    expected = np.log(np.array([magnitude(row) for row in waveform]) + 10)
    np.testing.assert_allclose(features["coarse"], expected, atol=1e-5)


def test_without_features_the_samples_are_still_checked():
    nothing = compiled(features={}, jit="on")
    waveform = rows()
    waveform[1, 0] = np.nan
    result = nothing(waveform)
    assert result.features == {}
    assert np.isfinite(result.row_sums).tolist() == [True, False, True, True]
    assert nothing.computed_by["xla"] is False


def test_what_decides_the_last_bits_is_told(plain):
    told = plain.computed_by
    assert (told["device"], told["xla"], told["tensorflow"]) == ("CPU", False, tf.__version__)
    assert told["machine"]
    assert plain.threads >= 1


def test_xla_agrees_with_plain_tensorflow():
    xla = compiled(jit="on")
    assert xla.computed_by["xla"] is True
    waveform = rows()
    for stored, samples in zip(xla(waveform).features["spectrum"], waveform, strict=True):
        assert_spectrum(stored, samples)
    assert xla.traces == 1


def test_auto_uses_xla_where_it_agrees():
    assert compiled(jit="auto").computed_by["xla"] is True


def change_features(monkeypatch, change):
    build = frontend.build_features

    def changed(*given, **more):
        return {key: change(feature) for key, feature in build(*given, **more).items()}

    monkeypatch.setattr(frontend, "build_features", changed)


def test_auto_goes_on_without_xla_where_values_differ(monkeypatch, caplog):
    change_features(
        monkeypatch, lambda feature: dataclasses.replace(feature, jit_tolerance=-1.0)
    )  # nothing is that near
    frontend_ = compiled(jit="auto")
    assert frontend_.computed_by["xla"] is False
    assert "XLA's values differ from plain TensorFlow's on this machine" in caplog.text
    assert_spectrum(frontend_(rows()).features["spectrum"][0], rows()[0])


def test_auto_goes_on_without_xla_where_the_graph_does_not_compile(monkeypatch, caplog):
    def foreign(feature):
        def graph(waveform, valid):
            same = tf.numpy_function(lambda x: x, [waveform], tf.float32)
            return feature.graph(tf.ensure_shape(same, waveform.shape), valid)

        return dataclasses.replace(feature, graph=graph)

    change_features(monkeypatch, foreign)
    frontend_ = compiled(jit="auto")
    assert frontend_.computed_by["xla"] is False
    assert "XLA cannot compile the frontend here (" in caplog.text
    assert_spectrum(frontend_(rows()).features["spectrum"][0], rows()[0])

"""Features in standard deviations: values, their way back, and the names of what they are normalised by."""

import numpy as np
import pytest
import tensorflow as tf

from spectrabeam.transforms import frontend
from spectrabeam.transforms.normalization import (
    normalization_id,
    normalized,
    read_normalization,
    save_normalization,
)
from spectrabeam.transforms.statistics import Statistics

N, RATE = 64, 1000.0
ROWS = np.random.default_rng(4).standard_normal((20, N)).astype(np.float32)


def built(kind="log_spectrum"):
    kinds = frontend.feature_settings(frontend.FrontendSettings(features={"key": {"kind": kind}}))
    return frontend.build_features(kinds, N, RATE)["key"]


def values(feature, rows=ROWS):
    return feature.graph(tf.constant(rows), tf.fill([len(rows)], N)).numpy()


def statistics_of(rows):
    found = Statistics(rows.shape[-1])
    found.update(rows)
    return found


def test_values_have_mean_0_and_deviation_1_and_lead_back():
    plain = built()
    feature = normalized(plain, statistics_of(values(plain)))
    found = values(feature)
    assert np.abs(found.mean(axis=0)).max() < 1e-5
    assert found.std(axis=0) == pytest.approx(1, abs=1e-5)
    assert feature.linear(found) == pytest.approx(plain.linear(values(plain)), rel=1e-5, abs=1e-5)
    assert (feature.shape, feature.axes) == (plain.shape, plain.axes)


def test_a_hiding_epsilon_is_seen_through_it():
    silent = np.zeros((4, N), np.float32)
    plain = built()
    feature = normalized(plain, statistics_of(values(plain)))
    assert feature.near_epsilon(values(feature, silent)) == plain.near_epsilon(values(plain, silent))
    assert feature.near_epsilon(values(feature)) is None


@pytest.mark.parametrize(
    ("mean", "std", "divided"),
    [
        (0.0, 0.0, False),
        (1e-30, 1e-46, False),
        (1000.0, 1e-5, False),
        (1000.0, 1e-2, True),
        (0.0, 1e-30, True),
    ],
)
def test_a_deviation_of_rounding_errors_is_none(mean, std, divided):
    plain = built("magnitude")
    statistics = Statistics(N // 2 + 1)
    statistics.count, statistics.offset = 4, np.full(N // 2 + 1, mean)
    statistics.m2 = np.full(N // 2 + 1, 4 * std**2)
    found = values(normalized(plain, statistics))
    expected = values(plain).astype(np.float64) - mean
    assert np.isfinite(found).all()
    assert found == pytest.approx(
        expected / std if divided else expected, rel=1e-5, abs=1e-4 / (std or 1) * divided + 1e-4
    )


def test_gradients_are_divided_too():
    plain = built("power")
    statistics = statistics_of(values(plain))
    rows = tf.constant(ROWS[:2])
    gradients = []
    for feature, weight in ((plain, 1 / statistics.std), (normalized(plain, statistics), 1.0)):
        with tf.GradientTape() as tape:
            tape.watch(rows)
            total = tf.reduce_sum(feature.graph(rows, tf.constant([N, N])) * tf.cast(weight, tf.float32))
        gradients.append(tape.gradient(total, rows).numpy())
    assert gradients[1] == pytest.approx(gradients[0], rel=1e-4, abs=1e-5)


def test_the_name_follows_from_keys_means_and_deviations_alone():
    one, other = statistics_of(ROWS), statistics_of(ROWS + 1)
    name = normalization_id({"a": one})
    assert normalization_id({}) is None
    assert normalization_id({"b": one}) != name
    assert normalization_id({"a": other}) != name
    same = statistics_of(ROWS)
    same.histogram[:] = 0
    same.min -= 1
    assert normalization_id({"a": same}) == name


def test_only_what_was_planned_is_read(tmp_path):
    path = str(tmp_path / "n.npz")
    normalization = {"a": statistics_of(ROWS)}
    name = normalization_id(normalization)
    assert read_normalization(path, None) is None
    with pytest.raises(FileNotFoundError, match=r"n\.npz, by which features are normalised, is not there"):
        read_normalization(path, name)
    save_normalization(path, normalization)
    assert np.array_equal(read_normalization(path, name)["a"].mean, normalization["a"].mean)
    with pytest.raises(ValueError, match="holds other statistics than were planned"):
        read_normalization(path, "0" * 32)

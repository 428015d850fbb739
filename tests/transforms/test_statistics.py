"""Statistics of features against numpy, whatever the partition."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from spectrabeam.transforms.statistics import Statistics, counted_rows, from_file, merged, to_bytes

seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)


def of(*parts):
    found = Statistics(parts[0].shape[1])
    for part in parts:
        found.update(part)
    return found


def assert_numpy_s(found, values):
    values = values.astype(np.float64)
    assert found.count == len(values)
    scale = np.abs(values).max(axis=0) + values.std(axis=0)
    assert (np.abs(found.mean - values.mean(axis=0)) <= 1e-12 * scale).all()
    np.testing.assert_allclose(found.variance, values.var(axis=0), rtol=1e-12, atol=0)
    np.testing.assert_array_equal(found.min, values.min(axis=0))
    np.testing.assert_array_equal(found.max, values.max(axis=0))
    assert found.histogram.sum() == values.size


@given(seeds, st.lists(st.integers(0, 70), min_size=1, max_size=6), st.sampled_from([0.0, 1.0, -1e3, 1e6]))
@hypothesis_settings(deadline=None)
def test_any_partition_gives_numpy_s_values(rng, sizes, offset):
    sizes = [3, *sizes]
    parts = [
        (offset + rng.standard_normal((size, 5)) * [1e-3, 1, 10, 1e3, 0.1]).astype(np.float32)
        for size in sizes
    ]
    assert_numpy_s(of(*parts), np.concatenate(parts))
    whole = merged([{"a": of(part)} for part in parts])["a"]
    assert_numpy_s(whole, np.concatenate(parts))
    np.testing.assert_array_equal(whole.histogram, of(*parts).histogram)


def test_constants_have_no_variance():
    found = of(np.full((64, 3), 0.1, np.float32), np.full((7, 3), 0.1, np.float32))
    np.testing.assert_array_equal(found.m2, 0)


def test_without_values():
    none = Statistics(2)
    none.update(np.empty((0, 2), np.float32))
    none.merge(Statistics(2))
    assert none.count == 0
    np.testing.assert_array_equal(none.std, 0)
    with pytest.raises(ValueError, match="there are no values"):
        none.quantile(0.5)


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(1).standard_normal(20_000),
        np.random.default_rng(2).lognormal(0, 5, 20_000),
        -np.random.default_rng(3).lognormal(-9, 2, 20_000),
        np.zeros(10),
        np.array([-3.5]),
    ],
)
def test_quantiles_are_right_to_half_a_bucket(values):
    found = of(values.astype(np.float32)[:, None])
    for share in (0, 0.001, 0.1, 0.5, 0.9, 0.999, 1):
        expected = np.quantile(values.astype(np.float32), share, method="inverted_cdf")
        assert found.quantile(share) == pytest.approx(expected, rel=1 / 256 + 1e-6, abs=1e-30)
    with pytest.raises(ValueError, match=r"share=1\.5 must be from 0 to 1"):
        found.quantile(1.5)


def test_masked_rows_and_frames_without_a_real_sample_are_left_out():
    values = np.arange(3 * 4 * 2, dtype=np.float32).reshape(3, 4, 2)
    mask, valid = np.array([True, False, True]), np.array([8, 8, 5])
    found = counted_rows(values, mask, valid, frame_step=2)
    np.testing.assert_array_equal(
        found, np.concatenate([values[0], values[2, :3]])
    )  # frame 2 begins at sample 4
    np.testing.assert_array_equal(counted_rows(values[:, 0], mask, valid, 0), values[[0, 2], 0])


def test_files_lead_back_and_are_the_same_bytes():
    every = {"a": of(np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32)), "b": Statistics(3)}
    content = to_bytes(every)
    assert to_bytes(every) == content
    back = from_file(io.BytesIO(content))
    assert set(back) == {"a", "b"}
    assert to_bytes(back) == content
    for content in (b"", b"PK\x03\x04nothing", to_bytes({})[:-5]):
        with pytest.raises(ValueError, match="no statistics of features"):
            from_file(io.BytesIO(content))

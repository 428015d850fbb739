"""Statistics of features against numpy, whatever the partition."""

import io
import time
import tracemalloc
import zipfile

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


@given(seeds, st.tuples(*[st.integers(0, 40)] * 3), st.sampled_from([0.0, 1e6]))
@hypothesis_settings(deadline=None)
def test_merging_is_associative(rng, sizes, offset):
    a, b, c = ((offset + rng.standard_normal((size, 3))).astype(np.float32) for size in sizes)
    left, right, inner = of(a), of(a), of(b)
    left.merge(of(b))
    left.merge(of(c))
    inner.merge(of(c))
    right.merge(inner)
    assert left.count == right.count
    np.testing.assert_allclose(left.mean, right.mean, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(left.m2, right.m2, rtol=1e-12, atol=0)
    for name in ("min", "max", "histogram"):
        np.testing.assert_array_equal(getattr(left, name), getattr(right, name))


@pytest.mark.parametrize(
    ("offset", "deviation"),
    [(1e6, 1e-3), (1e6, 0.1), (-1e6, 3.0), (1e-3, 1e-9), (3e37, 1e33), (1e-38, 1e-40)],
)
def test_large_offsets_cost_no_digits(offset, deviation):
    """A naive sum of squares would have no digit right in most of these."""
    noise = np.random.default_rng(0).standard_normal((1000, 3))
    values = (offset + deviation * noise).astype(np.float32)
    assert_numpy_s(of(*np.split(values, 10)), values)
    assert_numpy_s(merged({"a": of(part)} for part in np.split(values, 10))["a"], values)


def test_a_first_row_far_from_the_others_costs_no_digits():
    values = np.random.default_rng(0).normal(5, 1e-3, (64, 3)).astype(np.float32)
    values[0] = np.log(np.float32(1e-30))
    rest = values[1:].copy()
    found = of(values[:1], rest)
    assert_numpy_s(found, values)
    assert_numpy_s(of(values), values)


def test_files_do_not_count_alike_but_their_rows():
    """C13: one row of 0 and 99 of 1 have the mean 0.99, not the 0.5 of the means of two files."""
    parts = [{"a": of(np.zeros((1, 1), np.float32))}, {"a": of(np.ones((99, 1), np.float32))}]
    whole = merged(parts)["a"]
    assert whole.count == 100
    assert whole.mean == pytest.approx(0.99, rel=1e-15)
    assert whole.std == pytest.approx(np.sqrt(0.99 * 0.01), rel=1e-14)  # 0 as a mean of two deviations


@pytest.mark.parametrize("value", [0.1, -13.815511, 16777215.0, 3e38, 1e-45, 0.0])
@pytest.mark.parametrize("rows", [1, 3, 64, 50_001])
def test_constants_have_no_variance(value, rows):
    values = np.full((rows, 3), value, np.float32)
    found = of(values, values[:7])
    np.testing.assert_array_equal(found.m2, 0)
    np.testing.assert_array_equal(found.mean, values[0].astype(np.float64))


def test_one_row():
    row = np.array([[-2.5, 0.1, 7.0]], np.float32)
    found = of(row)
    for name in ("mean", "min", "max"):
        np.testing.assert_array_equal(getattr(found, name), row[0].astype(np.float64))
    np.testing.assert_array_equal(found.std, 0)


def test_without_values():
    none = Statistics(2)
    none.update(np.empty((0, 2), np.float32))
    none.merge(Statistics(2))
    assert none.count == 0
    for name, expected in (("mean", 0), ("std", 0), ("min", np.inf), ("max", -np.inf)):
        np.testing.assert_array_equal(getattr(none, name), expected)
    with pytest.raises(ValueError, match="there are no values"):
        none.quantile(0.5)
    some = of(np.ones((3, 2), np.float32))
    before = to_bytes({"a": some})
    some.merge(none)
    none.merge(some)
    assert to_bytes({"a": some}) == to_bytes({"a": none}) == before


@given(seeds, st.integers(1, 5), st.integers(1, 4), st.integers(1, 3))
@hypothesis_settings(deadline=None)
def test_frames_and_channels_are_pooled(rng, rows, frames, channels):
    values = rng.standard_normal((rows, frames, channels, 3)).astype(np.float32)
    found = Statistics(3)
    found.update(values)
    assert_numpy_s(found, values.reshape(-1, 3))


def test_blocks_make_no_difference_and_bound_the_memory():
    values = np.random.default_rng(0).normal(-3, 2, (9000, 129)).astype(np.float32)  # nine blocks
    tracemalloc.start()
    try:
        found = of(values)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert_numpy_s(found, values)
    assert peak < 4 << 20  # in float64 they are 9 MiB


def test_the_same_values_give_the_same_bits_wherever_they_lie():
    rng = np.random.default_rng(0)
    values = rng.normal(1e3, 2, (65, 131)).astype(np.float32)
    expected = to_bytes({"a": of(values)})
    memory = np.empty(values.size + 16, np.float32)
    for shift in range(16):
        moved = memory[shift : shift + values.size].reshape(values.shape)
        moved[...] = values
        assert to_bytes({"a": of(moved)}) == expected
    assert to_bytes({"a": of(np.asfortranarray(values))}) == expected


def test_which_worker_made_a_shard_makes_no_difference():
    """Shards are made in any order, each on its own; merged in theirs they give the same bits."""
    rng = np.random.default_rng(0)
    shards = [rng.normal(shard, 2, (20 + shard, 7)).astype(np.float32) for shard in range(6)]
    one_after_the_other = {shard: of(*np.array_split(shards[shard], 3)) for shard in range(6)}
    backwards = {shard: of(*np.array_split(shards[shard], 3)) for shard in reversed(range(6))}
    stored = {shard: from_file(io.BytesIO(to_bytes({"a": each}))) for shard, each in backwards.items()}
    expected = to_bytes(merged({"a": one_after_the_other[shard]} for shard in range(6)))
    assert to_bytes(merged(stored[shard] for shard in range(6))) == expected


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (np.ones((2, 3)), r"values are float64 \[2, 3\], must be float32 \[rows, …, 3\]"),
        (np.ones((2, 1), np.float32), r"values are float32 \[2, 1\], must be float32 \[rows, …, 3\]"),
    ],
)
def test_other_values_are_refused(values, said):
    with pytest.raises(ValueError, match=said):
        Statistics(3).update(values)


def test_other_bins_are_refused():
    with pytest.raises(ValueError, match="statistics of 1 bins cannot be added to those of 3"):
        Statistics(3).merge(Statistics(1))


@pytest.mark.parametrize(
    "values",
    [
        np.random.default_rng(1).standard_normal(20_000),
        np.random.default_rng(2).lognormal(0, 5, 20_000),
        -np.random.default_rng(3).lognormal(-9, 2, 20_000),
        np.random.default_rng(4).normal(-80, 20, 20_000),  # dB
        np.log(np.abs(np.random.default_rng(5).standard_normal(20_000)) + 1e-6),
        np.random.default_rng(6).choice([-1e30, -1e-30, 0, 1e-38, 2.0, 3e38], 20_000),
        np.random.default_rng(7).uniform(0, 1e-40, 2_000),
        np.repeat([-1.0, 0, 1], 10),
        np.zeros(10),
        np.array([-3.5]),
    ],
)
def test_quantiles_are_right_to_half_a_bucket(values):
    found = of(values.astype(np.float32)[:, None])
    for share in (0, 0.001, 0.1, 0.5, 0.9, 0.999, 1):
        expected = np.quantile(values.astype(np.float32), share, method="inverted_cdf")
        assert abs(found.quantile(share) - expected) <= max(abs(float(expected)) / 256, 2.0**-133)
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


def test_what_all_counts_is_not_copied():
    values = np.ones((3, 4, 2), np.float32)
    mask, valid = np.ones(3, bool), np.array([8, 8, 7])
    assert np.shares_memory(counted_rows(values, mask, valid, frame_step=2), values)
    assert np.shares_memory(counted_rows(values, mask, valid, 0), values)


EVERY = {"a": of(np.random.default_rng(0).standard_normal((9, 4)).astype(np.float32)), "b/c": Statistics(3)}


def test_files_lead_back_and_are_the_same_bytes(monkeypatch):
    content = to_bytes(EVERY)
    monkeypatch.setattr(time, "time", lambda: 2e9)
    assert to_bytes(dict(reversed(EVERY.items()))) == content
    back = from_file(io.BytesIO(content))
    assert list(back) == ["a", "b/c"]
    assert to_bytes(back) == content
    assert to_bytes({}) == to_bytes(from_file(io.BytesIO(to_bytes({}))))


def test_arrays_lead_back_and_go_on():
    whole, more = EVERY["a"], np.ones((2, 4), np.float32)
    arrays = whole.to_arrays("x") | EVERY["b/c"].to_arrays("y")
    np.testing.assert_array_equal(arrays["x/mean"], whole.mean)
    back = Statistics.from_arrays(arrays, "x")
    back.update(more)
    assert back.count == 11
    assert whole.count == 9
    with pytest.raises(KeyError, match="z/mean"):
        Statistics.from_arrays(arrays, "z")


def npz(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def test_files_that_are_none_are_refused():
    plain, compressed = io.BytesIO(), io.BytesIO()
    np.save(plain, np.zeros(3))
    np.savez_compressed(compressed, **EVERY["a"].to_arrays("a"))
    good = EVERY["a"].to_arrays("a")
    files = {
        "": b"",
        "File is not a zip file": b"PK\x03\x04nothing",
        "pickle": npz(**good | {"a/mean": np.array([{}], object)}),
        "a/mean is not a file": npz(**{"a/count": np.int64(3)}),
        r"a/count is float64 \[\]": npz(**good | {"a/count": np.float64(9)}),
        r"a/m2 is float64 \[3\]": npz(**good | {"a/m2": np.zeros(3)}),
        r"a/bucket is int64 \[1\]": npz(**good | {"a/bucket": np.array([1 << 16])}),
        "a: 8 values a bin, and 36 in the histogram": npz(**good | {"a/count": np.int64(8)}),
        "a single array": plain.getvalue(),
        "an array is compressed": compressed.getvalue(),
    }
    for said, content in files.items():
        with pytest.raises(ValueError, match=f"no statistics of features: .*{said}"):
            from_file(io.BytesIO(content))
    with pytest.raises(FileNotFoundError):
        from_file("/nowhere/statistics.npz")


def test_damaged_files_are_refused_or_read_alike():
    content = to_bytes({"a": EVERY["a"]})
    rng = np.random.default_rng(0)
    for position, value in zip(rng.permutation(len(content))[:1500], rng.integers(1, 256, 1500), strict=True):
        damaged = bytearray(content)
        damaged[position] ^= value
        try:
            found = from_file(io.BytesIO(damaged))
        except ValueError as error:
            assert str(error).startswith("no statistics of features: ")  # noqa: PT017
        else:  # a date, or what else no reader looks at
            assert to_bytes(found) == content
    for length in range(0, len(content), 11):
        with pytest.raises(ValueError, match="no statistics of features"):
            from_file(io.BytesIO(content[:length]))


def test_entries_bear_no_time():
    with zipfile.ZipFile(io.BytesIO(to_bytes(EVERY))) as entries:
        assert {entry.date_time for entry in entries.infolist()} == {(1980, 1, 1, 0, 0, 0)}

"""Records against tf.train.Example: every key and value comes back, and equal rows give equal bytes."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from spectrabeam.transforms.elements import Batch
from spectrabeam.transforms.encode import ExampleEncoder
from spectrabeam.transforms.schema import FeatureSpec, context_specs, parse_spec

LABEL = {"label": "int64"}


def batch(ids, mask=None, seed=0):
    random = np.random.default_rng(seed)
    rows = len(ids)
    integers = lambda: random.integers(-1, 1 << 62, rows)  # noqa: E731
    return Batch(
        waveform=np.zeros((rows, 1), np.float32),
        stored=None,
        paired=None,
        rows=1,
        mask=np.ones(rows, bool) if mask is None else np.asarray(mask),
        recording=list(ids),
        channel=integers(),
        start=integers(),
        context={
            "valid": integers(),
            "label": integers(),
            "sample_rate": random.uniform(1, 1e6, rows).astype(np.float32),
            "site": [b"%d\xff" % number for number in range(rows)],
        },
        vectors={},
    )


def small(rows, key):
    """A small value of every row."""
    return rows.context[key] if key in rows.context else getattr(rows, key)


def encode(specs, rows, features):
    return [b"".join(record) for record in ExampleEncoder(specs).encode(rows, features)]


def values(record):
    """Key to values, as protobuf reads them."""
    lists = {"int64_list": np.int64, "float_list": np.float32, "bytes_list": object}
    found = {}
    for key, feature in tf.train.Example.FromString(record).features.feature.items():
        kind = feature.WhichOneof("kind")
        found[key] = np.array(getattr(feature, kind).value, lists[kind])
    return found


keys = st.lists(
    st.text("abz_09", min_size=1, max_size=12).map(lambda name: "f" + name),
    unique=True,
    min_size=1,
    max_size=3,
)
shapes = hnp.array_shapes(min_dims=1, max_dims=3, max_side=12)


@settings(max_examples=60, deadline=None)
@given(
    ids=st.lists(st.binary(max_size=200), min_size=1, max_size=5),
    names=keys,
    more=st.sampled_from([{}, {"label": "int64"}, {"label": "int64", "site": "bytes"}]),
    data=st.data(),
)
def test_every_value_comes_back(ids, names, more, data):
    specs = context_specs(more) | {name: FeatureSpec("float32", data.draw(shapes)) for name in names}
    mask = data.draw(hnp.arrays(bool, len(ids)))
    features = {
        name: data.draw(hnp.arrays(np.float32, (len(ids), *specs[name].shape), elements=st.floats(width=32)))
        for name in names
    }
    rows = batch(ids, mask)
    records = encode(specs, rows, features)
    assert len(records) == mask.sum()
    for row, record in zip(np.flatnonzero(mask), records, strict=True):
        found = values(record)
        assert set(found) == set(specs)
        assert found["recording"].tolist() == [ids[row]]
        for key in {"channel", "start", "valid", "sample_rate", *more}:
            assert found[key].tolist() == [small(rows, key)[row]]
        for name in names:
            np.testing.assert_array_equal(found[name], features[name][row].reshape(-1))


# Lengths around which a message's length takes one more byte.
@pytest.mark.parametrize("size", [1, 29, 30, 31, 32, 33, 4090, 4091, 4092, 4095, 4096, 8193, 524_288])
def test_any_length_of_a_feature_is_read_back(size):
    specs = context_specs({}) | {"spectrum": FeatureSpec("float32", (size,))}
    spectrum = np.random.default_rng(size).standard_normal((1, size)).astype(np.float32)
    (record,) = encode(specs, batch([b"a"]), {"spectrum": spectrum})
    np.testing.assert_array_equal(values(record)["spectrum"], spectrum[0])


def test_plain_tensorflow_parses_a_batch_of_records():
    specs = context_specs(LABEL) | {
        "mel": FeatureSpec("float32", (3, 4)),
        "spectrum": FeatureSpec("float32", (5,)),
    }
    random = np.random.default_rng(0)
    features = {
        "mel": random.standard_normal((4, 3, 4), np.float32),
        "spectrum": random.standard_normal((4, 5), np.float32),
    }
    rows = batch([b"a/\xff.raw", "ü".encode(), b"", b"d"], seed=1)
    parsed = tf.io.parse_example(encode(specs, rows, features), parse_spec(specs))
    for key, array in features.items():
        np.testing.assert_array_equal(parsed[key], array)
    for key in ("channel", "start", "valid", "label", "sample_rate"):
        np.testing.assert_array_equal(parsed[key], small(rows, key))
    assert parsed["recording"].numpy().tolist() == rows.recording


def test_int16_samples_are_one_little_endian_string():
    specs = context_specs({}) | {"waveform": FeatureSpec("int16", (3,))}
    stored = np.array([[1, -2, 32767]], np.int16)
    (record,) = encode(specs, batch([b"a"]), {"waveform": stored})
    assert values(record)["waveform"].tolist() == [stored[0].astype("<i2").tobytes()]


def test_without_features_the_small_values_alone_are_stored():
    (record,) = encode(context_specs({}), batch([b"a"]), {})
    assert set(values(record)) == {"recording", "channel", "start", "valid", "sample_rate"}


def test_without_channel_the_other_small_values_are_stored():
    (record,) = encode(context_specs({"site": "bytes"}, channel=False), batch([b"a"]), {})
    assert set(values(record)) == {"recording", "start", "valid", "sample_rate", "site"}
    assert values(record)["site"].tolist() == [b"0\xff"]


def test_stacked_features_are_stored_channel_by_channel():
    specs = context_specs({}, channel=False) | {"spectrum": FeatureSpec("float32", (2, 3))}
    spectrum = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    records = encode(specs, batch([b"a", b"b"]), {"spectrum": spectrum})
    assert [values(record)["spectrum"].tolist() for record in records] == [
        [0, 1, 2, 3, 4, 5],
        [6, 7, 8, 9, 10, 11],
    ]


def test_a_batch_without_real_rows_gives_no_record():
    specs = context_specs({}) | {"spectrum": FeatureSpec("float32", (2,))}
    assert encode(specs, batch([b"a", b"b"], [False, False]), {"spectrum": np.ones((2, 2), np.float32)}) == []


def test_a_row_gives_the_same_bytes_in_any_batch_and_by_any_encoder():
    specs = context_specs(LABEL) | {"spectrum": FeatureSpec("float32", (7,))}
    ids = [b"%d" % number for number in range(32)]
    features = {"spectrum": np.random.default_rng(2).standard_normal((32, 7)).astype(np.float32)}
    whole = batch(ids)
    together = encode(specs, whole, features)
    assert encode(specs, whole, features) == together
    masks = np.eye(32, dtype=bool)
    alone = [encode(specs, batch(ids, mask), features) for mask in masks]
    assert [record for (record,) in alone] == together


def test_order_of_the_specs_does_not_change_the_bytes():
    specs = context_specs(LABEL) | {
        "b": FeatureSpec("float32", (2,)),
        "a": FeatureSpec("float32", (2,)),
    }
    features = {"a": np.ones((1, 2), np.float32), "b": np.zeros((1, 2), np.float32)}
    backwards = dict(reversed(specs.items()))
    assert encode(backwards, batch([b"x"]), features) == encode(specs, batch([b"x"]), features)

"""What an example holds: keys, estimated length, parse spec, JSON."""

import numpy as np
import pytest
import tensorflow as tf

from spectrabeam.transforms.schema import RESERVED, FeatureSpec, context_specs, example_bytes, parse_spec

CONTRACT = {"recording", "channel", "start", "valid", "sample_rate"}


LABEL = {"label": "int64"}


def test_small_values_are_the_contracts_and_the_label_only_where_there_are_labels():
    assert set(context_specs({})) == CONTRACT
    labelled = context_specs(LABEL)
    assert set(labelled) == CONTRACT | {"label"}
    assert {name: spec.dtype for name, spec in labelled.items()} == {
        "recording": "bytes",
        "channel": "int64",
        "start": "int64",
        "valid": "int64",
        "label": "int64",
        "sample_rate": "float32",
    }
    assert all(spec.shape == () for spec in labelled.values())


def test_examples_of_several_channels_have_no_channel():
    assert set(context_specs({"rpm": "float32"}, channel=False)) == CONTRACT - {"channel"} | {"rpm"}


def test_keys_of_the_contract_are_reserved():
    assert CONTRACT <= RESERVED
    later = {"label", "labels", "target", "start_time_ns", "waveform", "target_waveform"}
    assert later <= RESERVED


@pytest.mark.parametrize(
    "spec", [FeatureSpec("float32", (3, 5)), FeatureSpec("int64"), FeatureSpec("int16", (7,))]
)
def test_spec_survives_json(spec):
    assert FeatureSpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize("bins", [129, 8193])
def test_estimated_length_is_near_the_real_one(bins):
    specs = context_specs(LABEL) | {"spectrum": FeatureSpec("float32", (bins,))}
    int64 = lambda value: tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))  # noqa: E731
    floats = lambda values: tf.train.Feature(float_list=tf.train.FloatList(value=values))  # noqa: E731
    name = tf.train.Feature(bytes_list=tf.train.BytesList(value=[b"inner_race/shaft18_00001.raw"]))
    feature = {"spectrum": floats(np.ones(bins)), "sample_rate": floats([25600.0]), "recording": name}
    feature |= {"channel": int64(0), "label": int64(2), "start": int64(163840), "valid": int64(16384)}
    example = tf.train.Example(features=tf.train.Features(feature=feature))
    framing = 16  # two lengths and two checksums of TFRecord
    assert example_bytes(specs) == pytest.approx(len(example.SerializeToString()) + framing, rel=0.1)


def test_parse_spec_reads_the_wanted_keys_alone():
    specs = context_specs({}) | {
        "spectrum": FeatureSpec("float32", (2, 3)),
        "waveform": FeatureSpec("int16", (4,)),
    }
    assert set(parse_spec(specs)) == set(specs)
    samples = np.array([1, -2, 300, -32768], "<i2")
    example = tf.train.Example()
    example.features.feature["spectrum"].float_list.value.extend([0, 1, 2, 3, 4, 5])
    example.features.feature["waveform"].bytes_list.value.append(samples.tobytes())
    parsed = tf.io.parse_single_example(
        example.SerializeToString(), parse_spec(specs, ["spectrum", "waveform"])
    )
    assert set(parsed) == {"spectrum", "waveform"}
    np.testing.assert_array_equal(parsed["spectrum"], [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(tf.io.decode_raw(parsed["waveform"], tf.int16), samples)

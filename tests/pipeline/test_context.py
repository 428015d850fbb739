"""What examples say beside their features: types of carried fields, several labels, targets, times, stacks."""

import math

import numpy as np
import pyarrow as pa
import pytest

from spectrabeam.pipeline.chosen_channels import stacked_channels
from spectrabeam.pipeline.context import context_of, usual_target, with_target
from spectrabeam.pipeline.recording import sift
from spectrabeam.pipeline.settings import SettingsError
from spectrabeam.pipeline.totals import totals_of
from spectrabeam.transforms.features.spectrum import LogSpectrum
from spectrabeam.transforms.rejects import Reason
from tests.helpers.plans import SEGMENT_LENGTH as L
from tests.helpers.plans import settings
from tests.helpers.recordings import recording

SPECTRUM = {"spectrum": LogSpectrum().build(L, 1000.0)}
PLAIN = {"channel", "recording", "sample_rate", "spectrum", "start", "valid"}


def context(recordings, columns=(), names=(), labelled=False, **values):
    has_times = totals_of(recordings, 1000.0).has_times
    chosen = settings(**values)
    return context_of(recordings, columns, list(names), chosen, labelled=labelled, has_times=has_times)


def carried(*given):
    """Type and values of a field that recordings have, None where one lacks it."""
    recordings = [
        recording(f"{number}", fields={} if value is None else {"x": value})
        for number, value in enumerate(given)
    ]
    result = context(recordings, carry="x")
    return result.small["x"], list(result.values["x"])


@pytest.mark.parametrize(
    ("given", "dtype", "values"),
    [
        ((1, 2), "int64", [1, 2]),
        (("1", "-2", "0"), "int64", [1, -2, 0]),
        ((True, False), "int64", [1, 0]),
        ((2**63 - 1, -(2**63)), "int64", [2**63 - 1, -(2**63)]),
        (("1", 2.5), "float32", [1.0, 2.5]),
        (("1e3", "-0.5"), "float32", [1000.0, -0.5]),
        ((1.0, 2.0), "float32", [1.0, 2.0]),
        ((2**63, 1), "float32", [2.0**63, 1.0]),
        (("007", "008"), "bytes", [b"007", b"008"]),
        (("0", "0.5"), "float32", [0.0, 0.5]),
        (("x", 1), "bytes", [b"x", b"1"]),
        (("ü",), "bytes", ["ü".encode()]),
        (("", "x"), "bytes", [b"", b"x"]),
        (("1.5x",), "bytes", [b"1.5x"]),
    ],
)
def test_a_carried_field_has_the_narrowest_type_that_holds_all_its_values(given, dtype, values):
    assert carried(*given) == (dtype, values)


def test_where_a_field_is_missing_numbers_are_nan_and_text_is_empty():
    dtype, values = carried(1, None)
    assert (dtype, values[0]) == ("float32", 1.0)
    assert math.isnan(values[1])
    assert carried("x", None) == ("bytes", [b"x", b""])


def test_where_a_field_is_missing_whole_numbers_that_float32_cannot_hold_stay_as_they_are_written():
    dtype, values = carried(2**24, None)
    assert (dtype, values[0]) == ("float32", 2.0**24)
    assert math.isnan(values[1])
    assert carried(2**24 + 1, None) == ("bytes", [b"16777217", b""])
    assert carried("20240501123", None) == ("bytes", [b"20240501123", b""])
    assert carried(2**24 + 1, 0.5) == ("bytes", [b"16777217", b"0.5"])


@pytest.mark.parametrize("word", ["nan", "inf", "Infinity", "1_000", " 5 ", "٣"])
def test_words_that_python_takes_for_numbers_are_kept_as_they_are_or_are_that_number(word):
    dtype, (value,) = carried(word)
    assert dtype in ("bytes", "float32", "int64")
    if dtype == "bytes":
        assert value == word.encode()
    else:
        assert math.isnan(value) if word == "nan" else value == float(word)


def test_fields_come_from_attributes_path_and_manifest():
    one = recording("ann/1.raw", attributes={"rpm": 1797.5}, fields={"site": "north"})
    result = context([one], carry="rpm,speaker,site", fields_from="path:^(?P<speaker>[a-z]+)/")
    assert dict(result.small) == {"rpm": "float32", "speaker": "bytes", "site": "bytes"}
    assert {name: values[0] for name, values in result.values.items()} == {
        "rpm": 1797.5,
        "speaker": b"ann",
        "site": b"north",
    }
    specs = result.specs(SPECTRUM, settings(), None)
    assert set(specs) == PLAIN | {"rpm", "speaker", "site"}
    small, vectors = result.arrow_types()
    assert small == pa.struct([("rpm", pa.float32()), ("site", pa.binary()), ("speaker", pa.binary())])
    assert vectors == pa.struct([])


def test_a_field_that_nothing_has_or_whose_name_is_taken_is_refused():
    with pytest.raises(SettingsError) as caught:
        context([recording()], carry="rpm")
    assert str(caught.value) == (
        "carry=rpm: no recording has such a field: name a manifest column, a path group or an attribute"
    )
    for name in ("label", "start", "waveform", "spectrum", "recording"):
        with pytest.raises(SettingsError) as caught:
            context([recording(fields={name: 1})], carry=name)
        assert str(caught.value) == (
            f"carry={name}: the key is taken by something else in an example: rename the column"
        )


def test_several_labels_are_a_multi_hot_vector():
    recordings = [
        recording("a", said={"labels": ("z", "x")}),
        recording("b", said={"labels": ("no",)}),
        recording("c"),
    ]
    result = context(recordings, ("uri", "labels"), ["x", "y", "z"])
    assert list(result.vectors["labels"]) == [(1.0, 0.0, 1.0), (0.0,) * 3, (0.0,) * 3]
    assert result.specs(SPECTRUM, settings(), None)["labels"].shape == (3,)
    assert not result.has_label


def test_target_is_a_vector_of_the_columns_in_their_order():
    recordings = [recording("a", fields={"x": "1.5", "y": 2}), recording("b", fields={"y": "-1", "x": 0})]
    chosen = {"target_columns": "y,x", "manifest": "m.csv"}
    result = context(recordings, ("uri", "x", "y"), **chosen)
    assert list(result.vectors["target"]) == [(2.0, 1.5), (-1.0, 0.0)]
    assert result.specs(SPECTRUM, settings(**chosen), None)["target"].shape == (2,)


def test_a_column_of_lists_is_a_target_of_their_length():
    recordings = [recording("a", fields={"y": [1, 2.5, "3"]}), recording("b", fields={"y": (4, 5, 6)})]
    result = context(recordings, ("uri", "y"), target_columns="y", manifest="m.parquet")
    assert list(result.vectors["target"]) == [(1.0, 2.5, 3.0), (4.0, 5.0, 6.0)]


def test_recordings_whose_target_is_not_as_long_as_most_or_not_finite_are_rejects():
    fields = [{"y": [1, 2]}, {"y": [3, 4]}, {"y": [5]}, {"y": [1, "x"]}, {}, {"y": [1, "inf"]}]
    recordings = [recording(str(number), fields=values) for number, values in enumerate(fields)]
    chosen = settings(target_columns="y", manifest="m.csv")
    sifted = sift(recordings, with_target(usual_target(recordings, chosen), chosen))
    assert [each.id for each in sifted.used] == [b"0", b"1"]
    assert [each.id for each in sifted.dropped] == [b"2", b"3", b"4", b"5"]
    assert {reject.reason for reject in sifted.rejects} == {Reason.TARGET_MISMATCH}
    assert sifted.rejects[0].message == (
        "target_columns=y give [5.0], and 2 finite numbers are expected: correct its row in the manifest"
    )


def test_a_target_of_padded_numbers_is_a_number():
    one = recording(fields={"y": "007"})
    assert with_target(1, settings(target_columns="y", manifest="m.csv"))(one) == one


def test_times_are_in_an_example_where_any_recording_has_one():
    stated = recording("a", start_time_ns=5, said={"start_time_ns": 7})
    in_file, unknown = recording("b", start_time_ns=5), recording("c")
    assert [each.start_time_ns for each in (stated, in_file, unknown)] == [7, 5, None]
    assert context([in_file, unknown]).has_times
    assert "start_time_ns" in context([in_file, unknown]).specs(SPECTRUM, settings(), None)
    assert not context([unknown]).has_times
    assert "start_time_ns" not in context([unknown]).specs(SPECTRUM, settings(), None)


def test_stacks_have_an_axis_of_channels_and_no_channel():
    chosen = settings(channels="stack", keep_waveform="int16")
    specs = context([recording()], ("uri", "target")).specs(SPECTRUM, chosen, 3)
    assert set(specs) == PLAIN - {"channel"} | {"waveform", "target_waveform"}
    assert (specs["spectrum"].shape, specs["waveform"].shape) == ((3, L // 2 + 1), (3, L))
    assert (specs["waveform"].dtype, specs["target_waveform"].dtype) == ("int16", "float32")
    assert specs["target_waveform"].shape == (3, L)


def test_stacked_are_the_channels_of_most_recordings():
    two, three, other_two = (recording(lists=[stack]) for stack in ((0, 1), (0, 1, 2), (2, 3)))
    assert stacked_channels([two, three, other_two], settings(channels="stack")) == 2
    assert stacked_channels([two, three, other_two], settings(channels="mix")) is None
    assert stacked_channels([three, two], settings(channels="stack")) == 2  # a draw: the fewer


def test_values_fit_the_types_that_are_stored():
    result = context([recording(fields={"x": 0.1, "n": 5})], carry="x,n")
    small, _ = result.arrow_types()
    stored = pa.array([{name: result.values[name][0] for name in ("x", "n")}], small).to_pylist()
    assert stored == [{"n": 5, "x": float(np.float32(0.1))}]

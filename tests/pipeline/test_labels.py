"""Labels and fields of recordings: where each kind finds them, which classes there are, what becomes of the others."""

import pytest

from spectrabeam.pipeline.labels import Facts, class_names, has_labels, with_label
from spectrabeam.pipeline.recording import Interval
from spectrabeam.pipeline.recording import sift as sift_all
from spectrabeam.pipeline.totals import totals_of
from spectrabeam.transforms.elements import Origin
from spectrabeam.transforms.rejects import Reason
from tests.helpers.plans import settings
from tests.helpers.recordings import recording

REGEX = r"(?P<speaker>[a-z]+)/(?P<label>\d)"


def label(one, **values):
    return Facts(settings(**values)).label(one)


@pytest.mark.parametrize(
    ("given", "one", "expected"),
    [
        (f"path:{REGEX}", recording("ann/3_x.raw"), "3"),
        (f"path:^{REGEX}", recording("deep/ann/3_x.raw"), None),
        (f"path:{REGEX}", recording("x.raw"), None),
        (
            r"path://(?P<label>.+)$",
            recording("x.mat", member="DE_time"),
            "DE_time",
        ),  # in the id, with its member
        (r"path:^(?P<label>[a-z]*)", recording("7.raw"), None),  # an empty label is none
        (r"path:(?P<label>ü)", recording("ü.raw"), "ü"),
        (r"member:(?P<label>DE|FE)_time", recording("x.mat", member="X105_DE_time"), "DE"),
        (r"member:(?P<label>DE|FE)_time", recording("DE_time.raw"), None),
        ("file:fault", recording(attributes={"fault": "inner"}), "inner"),
        ("file:fault", recording(attributes={"fault": 3}), "3"),
        ("file:fault", recording(attributes={"fault": 3.0}), "3"),
        ("file:fault", recording(attributes={"fault": 0.5}), "0.5"),
        ("file:fault", recording(attributes={"fault": ""}), None),
        ("file:*RPM", recording(attributes={"X105RPM": 1797, "A": 1}), "1797"),
        ("file:fault", recording(fields={"fault": "x"}), None),
        ("sidecar:fault", recording(fields={"fault": "outer"}), "outer"),
        ("sidecar:fault", recording(attributes={"fault": "outer"}), None),
        ("sidecar:fault", recording(fields={}), None),
        (None, recording(said={"label": "x"}), "x"),
        (None, recording(), None),
        ("sidecar:fault", recording(said={"label": "m"}, fields={"fault": "s"}), "m"),
        (f"path:{REGEX}", recording("ann/3_x.raw", said={"label": "m"}), "m"),
    ],
)
def test_label_is_found_where_the_setting_says(given, one, expected):
    assert label(one, label_from=given) == expected


def test_fields_are_those_of_the_file_then_of_the_path_then_of_manifest_and_sidecar():
    one = recording(
        "ann/3_x.raw", attributes={"a": 1, "speaker": "file", "day": "file"}, fields={"day": "row"}
    )
    facts = Facts(settings(label_from=f"path:{REGEX}", fields_from=r"path:_(?P<take>.)\."))
    assert facts.fields(one) == {"a": 1, "speaker": "ann", "label": "3", "take": "x", "day": "row"}


def test_a_group_that_took_no_part_in_the_match_is_no_field():
    facts = Facts(settings(fields_from=r"path:(?P<a>x)?(?P<b>y)"))
    assert facts.fields(recording("y.raw")) == {"b": "y"}


def sift(recordings, **values):
    sifted = sift_all(recordings, with_label(settings(**values)))
    return (
        {each.id.decode(): each.label for each in sifted.used},
        {each.recording.decode(): (each.reason, each.message) for each in sifted.rejects},
        [each.id.decode() for each in sifted.dropped],
    )


FROM_PATH = {"label_from": "path:^(?P<label>[a-z])/"}


def test_recordings_without_a_label_are_rejected_or_kept():
    recordings = [recording("a/1"), recording("7/1"), recording("b/1")]
    used, rejects, dropped = sift(recordings, **FROM_PATH)
    message = (
        "label_from=path:^(?P<label>[a-z])/ finds no label: mend the expression, leave the file out, or set "
        "missing_label=keep"
    )
    assert used == {"a/1": "a", "b/1": "b"}
    assert rejects == {"7/1": (Reason.LABEL_MISSING, message)}
    assert dropped == ["7/1"]
    assert sift(recordings, **FROM_PATH, missing_label="keep") == (
        {"a/1": "a", "7/1": None, "b/1": "b"},
        {},
        [],
    )


def test_labels_beside_the_given_names_are_rejected_or_kept_as_none():
    recordings = [recording("a/1"), recording("c/1")]
    used, rejects, _ = sift(recordings, **FROM_PATH, label_names="b,a")
    assert used == {"a/1": "a"}
    message = "label 'c' is not among label_names=b, a: add it, or correct it"
    assert rejects == {"c/1": (Reason.LABEL_UNKNOWN, message)}
    used, rejects, _ = sift(recordings, **FROM_PATH, label_names="b,a", missing_label="keep")
    assert (used, rejects) == ({"a/1": "a", "c/1": None}, {})


def test_a_known_label_beside_unknown_ones_of_several_is_kept():
    one = recording(said={"label": "a", "labels": ("a", "c")})
    used, _, _ = sift([one], label_names="a,b", missing_label="keep", manifest="m.csv")
    assert used == {"a.raw": "a"}


def test_a_row_of_a_manifest_without_a_label_is_told_as_such():
    _, rejects, _ = sift([recording(said={"label": "x"}), recording("b")], manifest="m.csv")
    message = "its row in manifest=m.csv has no label: add one, or set missing_label=keep"
    assert rejects == {"b": (Reason.LABEL_MISSING, message)}


def test_labelled_parts_with_other_names_are_left_out():
    parts = (Interval(0, 5, "x"), Interval(5, 9, "y"))
    one = recording(intervals=parts)
    assert with_label(settings(manifest="m", label_names="y,z"))(one).intervals == (Interval(5, 9, "y"),)
    assert with_label(settings(manifest="m"))(one).intervals == parts


def test_classes_are_the_given_ones_or_those_found_sorted():
    recordings = [
        recording("a", label="10"),
        recording("b", label="9"),
        recording("c"),
        recording("d", intervals=(Interval(0, 1, "0"), Interval(1, 2, "9"))),
    ]
    assert class_names(totals_of(recordings, 1000.0).labels, settings()) == ["0", "10", "9"]
    assert class_names(totals_of(recordings, 1000.0).labels, settings(label_names="9,none,10")) == [
        "9",
        "none",
        "10",
    ]
    assert class_names(set(), settings()) == []


def test_classes_of_several_labels_are_all_that_are_named():
    recordings = [recording("a", said={"labels": ("x", "z")}), recording("b", said={"labels": ("y",)})]
    assert class_names(totals_of(recordings, 1000.0).labels, settings()) == ["x", "y", "z"]


def test_there_are_labels_where_a_setting_or_a_column_gives_them():
    assert not has_labels(settings(), ("uri",), [])
    assert has_labels(settings(), ("uri", "label"), [])
    assert has_labels(settings(**FROM_PATH), (), [])


def test_examples_of_a_dataset_with_labels_have_theirs():
    stored, plain = {"origin": Origin(b"x", 0, 0)}, {"said": {"label": "x"}}
    assert has_labels(settings(), (), [recording(), recording(**stored, **plain)])
    assert not has_labels(settings(), (), [recording(**stored), recording(**plain)])

"""Reject lines: what they say, how they merge, and that nothing of them depends on order."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrabeam.transforms.rejects import PASSING, Reason, Reject, RejectError, merge, text, to_lines


def line(recording="a.raw", stage="read", reason="empty", message="m", segments=1, where=()):
    return {
        "recording": recording,
        "stage": stage,
        "reason": reason,
        "message": message,
        "segments": segments,
        "where": [list(pair) for pair in where],
    }


def test_line_holds_code_message_and_the_first_ten_places():
    where = tuple((0, start) for start in range(0, 1200, 100))
    reject = Reject(b"a/b.raw", "read", Reason.NON_FINITE, "3 samples are NaN", 12, where)
    assert reject.to_json() == line(
        "a/b.raw",
        "read",
        "non_finite",
        "3 samples are NaN",
        12,
        [(0, start) for start in range(0, 1000, 100)],
    )


def test_names_that_are_no_utf8_stay_readable_and_distinct():
    assert text("ä/ö.raw".encode()) == "ä/ö.raw"
    assert text(b"\xff.raw") == "\\xff.raw"
    assert text(b"\xfe.raw") != text(b"\xff.raw")


def test_an_error_carries_its_reason():
    with pytest.raises(RejectError, match="of no use") as caught:
        raise RejectError(Reason.TRUNCATED, "of no use")
    assert caught.value.reason is Reason.TRUNCATED


def test_lines_of_one_recording_stage_and_reason_become_one():
    merged = merge(
        [
            line("b", segments=2, where=[(0, 512), (0, 256)], message="later"),
            line("a", segments=1),
            line("b", segments=3, where=[(0, 0)], message="earlier"),
            line("b", reason="vanished"),
            line("b", stage="plan"),
        ]
    )
    assert [(each["recording"], each["stage"], each["reason"], each["segments"]) for each in merged] == [
        ("a", "read", "empty", 1),
        ("b", "plan", "empty", 1),
        ("b", "read", "empty", 5),
        ("b", "read", "vanished", 1),
    ]
    assert merged[2]["where"] == [[0, 0], [0, 256], [0, 512]]
    assert merged[2]["message"] == "earlier"


lines = st.builds(
    line,
    recording=st.sampled_from(["a", "b", "ü"]),
    stage=st.sampled_from(["plan", "read"]),
    reason=st.sampled_from(["empty", "vanished"]),
    message=st.sampled_from(["x", "y"]),
    segments=st.integers(0, 9),
    where=st.lists(st.tuples(st.integers(0, 1), st.integers(0, 99)), max_size=4),
)


@given(st.data(), st.lists(lines, max_size=12))
def test_merging_loses_no_segment_and_does_not_depend_on_order(data, given_lines):
    merged = merge(given_lines)
    assert sum(each["segments"] for each in merged) == sum(each["segments"] for each in given_lines)
    assert merge(data.draw(st.permutations(given_lines))) == merged


def test_merging_leaves_its_input_as_it_was():
    given_lines = [line(where=[(0, 9)]), line(where=[(0, 1)])]
    before = json.dumps(given_lines)
    merge(given_lines)
    assert json.dumps(given_lines) == before


def test_each_line_of_the_file_is_a_json_value():
    written = to_lines([line("ä"), line("b\nc")])
    assert written.endswith("\n")
    assert [json.loads(each)["recording"] for each in written.splitlines()] == ["ä", "b\nc"]
    assert "ä" in written
    assert to_lines([]) == ""


def test_only_causes_outside_the_content_are_tried_again():
    assert {reason.value for reason in PASSING} == {"unreadable", "vanished", "changed", "not_a_file"}

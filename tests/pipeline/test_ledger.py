"""The ledger: every matched recording, before anything is read and after."""

from spectrabeam.pipeline.ledger import SCHEMA, completed
from spectrabeam.transforms.rejects import Reason, Reject
from tests.helpers.plans import SEGMENT_LENGTH as L
from tests.helpers.plans import found, plan, rejected


def test_ledger_holds_every_matched_recording_sorted():
    lost = Reject(b"b.raw", "match", Reason.UNREADABLE, "the folder cannot be listed")
    result = plan(found("c.raw", "a.raw", frames=3 * L), [lost], splits={"all": 1.0}, num_shards=2)
    rows = result.recordings.to_pylist()
    assert [row["id"] for row in rows] == ["a.raw", "b.raw", "c.raw"]
    assert [row["segments_planned"] for row in rows] == [3, 0, 3]
    assert [row["split"] for row in rows] == ["all", None, "all"]
    assert sorted(row["shards"] for row in rows) == [[], ["all-00000"], ["all-00001"]]
    first = rows[0]
    assert (first["uri"], first["size"], first["format"]) == ("/not/there/a.raw", 12 * L, "raw")
    assert (first["sample_rate"], first["channels"], first["frames"]) == (1000, 1, 3 * L)
    assert (first["group"], first["segments_written"], first["segments_rejected"]) == ("a.raw", 0, 0)
    assert rejected(result) == [(b"b.raw", Reason.UNREADABLE, "the folder cannot be listed")]


LINES = [
    {"recording": "a.raw", "stage": "read", "reason": "non_finite", "segments": 1},
    {"recording": "a.raw", "stage": "read", "reason": "vanished", "segments": 2},
    {"recording": "b.raw", "stage": "plan", "reason": "empty", "segments": 0},
]


def test_ledger_is_completed_by_what_was_rejected_since():
    before = plan(found("a.raw", "b.raw", "c.raw", frames=4 * L), splits={"all": 1.0}).recordings
    after = completed(before, LINES)
    assert after.schema.equals(before.schema)
    assert after.column("segments_planned").to_pylist() == [4, 4, 4]
    assert after.column("segments_rejected").to_pylist() == [3, 0, 0]
    assert after.column("segments_written").to_pylist() == [1, 4, 4]


def test_a_recording_that_is_cut_by_time_is_in_several_splits_and_shards():
    given = {"split_by": "time", "splits": {"train": 0.5, "test": 0.5}}
    (row,) = plan(found("a.raw", frames=100 * L), **given).recordings.to_pylist()
    assert sorted(row["split"].split(",")) == ["test", "train"]
    assert row["shards"] == ["test-00000", "train-00000"]
    assert row["segments_planned"] == 99


def test_a_recording_that_was_dropped_keeps_its_line_with_what_its_header_says():
    result = plan(
        found("a/1.raw", "x.raw", frames=2 * L), label_from="path:^(?P<label>.)/", splits={"all": 1.0}
    )
    rows = {row["id"]: row for row in result.recordings.to_pylist()}
    assert rows["a/1.raw"]["label"] == "a"
    assert (rows["x.raw"]["frames"], rows["x.raw"]["dtype"], rows["x.raw"]["split"]) == (2 * L, "<f4", None)
    assert (rows["x.raw"]["segments_planned"], rows["x.raw"]["shards"], rows["x.raw"]["label"]) == (
        0,
        [],
        None,
    )
    assert result.recordings.schema.equals(SCHEMA)

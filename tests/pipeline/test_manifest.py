"""Manifests: every format gives the same rows, text stays text, ranges in samples or seconds, and each refusal."""

import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrabeam.pipeline.manifest import ManifestError, intervals, load_manifest, region, said, said_of_all
from spectrabeam.pipeline.plan import plan_inputs
from spectrabeam.pipeline.settings import SettingsError
from spectrabeam.transforms.rejects import Reason, RejectError
from tests.helpers.plans import SEGMENT_LENGTH as L
from tests.helpers.plans import settings
from tests.helpers.signals import noise, write_raw

ROWS = [
    {"uri": "a/1.raw", "label": "007", "rpm": "1500", "note": 'says "x, y"'},
    {"uri": "./a//inner", "label": "ö", "rpm": "", "note": "two\nlines"},
    {"uri": "b.raw", "label": "1e5", "rpm": "0.5", "note": ""},
]
EXPECTED = [{key: value for key, value in row.items() if value} for row in ROWS]


def write(path, rows):
    """Writes rows as the file's name says."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    if path.suffix == ".parquet":
        columns = {name: pa.array([row.get(name) for row in rows]) for name in names}
        pq.write_table(pa.table(columns), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    else:
        delimiter = {".tsv": "\t", ".txt": ";"}.get(path.suffix, ",")
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, names, delimiter=delimiter, lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
    return path


def load(path, times="auto"):
    return load_manifest(str(path), times)


def all_rows(manifest):
    return [row for rows in manifest.rows.values() for row in rows]


@pytest.mark.parametrize("ending", ["csv", "tsv", "txt", "jsonl", "parquet"])
def test_every_format_gives_the_same_rows(tmp_path, ending):
    manifest = load(write(tmp_path / f"m.{ending}", ROWS))
    assert manifest.columns == ("uri", "label", "rpm", "note")
    assert [dict(row.values) for row in all_rows(manifest)] == EXPECTED
    assert [(row.path, row.member) for row in all_rows(manifest)] == [
        ("a/1.raw", None),
        ("a", "inner"),
        ("b.raw", None),
    ]
    assert [row.where for row in all_rows(manifest)] == [f"m.{ending}, row {number}" for number in (1, 2, 3)]
    assert manifest.in_seconds is False


def test_text_of_a_table_stays_text_and_a_byte_order_mark_is_no_name(tmp_path):
    path = tmp_path / "m.csv"
    path.write_bytes(b"\xef\xbb\xbfuri , label\na.raw,007\n")
    manifest = load(path)
    assert manifest.columns == ("uri", "label")
    assert said(all_rows(manifest)[0]).label == "007"


def test_windows_line_ends_are_no_part_of_the_values(tmp_path):
    path = tmp_path / "m.csv"
    path.write_bytes(b"uri,label\r\na.raw,x\r\nb.raw,y\r\n")
    assert [row.values["label"] for row in all_rows(load(path))] == ["x", "y"]


def test_several_rows_of_one_file_stand_together_in_their_order(tmp_path):
    rows = [{"uri": "a.raw", "start": 8}, {"uri": "b.raw", "start": 1}, {"uri": "./x/../a.raw", "start": 4}]
    manifest = load(write(tmp_path / "m.jsonl", rows))
    assert list(manifest.rows) == ["a.raw", "b.raw"]
    assert [row.values["start"] for row in manifest.rows["a.raw"]] == [8, 4]


def test_a_row_says_what_is_known_of_its_recording(tmp_path):
    row = {
        "uri": "a.raw",
        "sample_rate": "25600",
        "unit": "g",
        "sensitivity": "100",
        "channel": "1",
        "label": "x",
        "labels": "x|y; z",
        "split": "test",
        "group": "g1",
        "target": "b.raw",
        "scale": "0.5",
        "start_time": "1970-01-01T00:00:01Z",
    }
    (read,) = all_rows(load(write(tmp_path / "m.csv", [row])))
    known = said(read)
    assert (known.sample_rate, known.unit, known.factors) == (25600.0, "g", (0.01,))
    assert (known.channel, known.label, known.labels) == ("1", "x", ("x", "y", "z"))
    assert (known.split, known.group, known.paired) == ("test", "g1", "b.raw")
    assert (known.overrides, known.start_time_ns) == ({"scale": 0.5}, 10**9)
    assert known.fields["sensitivity"] == "100"
    (bare,) = all_rows(load(write(tmp_path / "bare.csv", [{"uri": "a.raw"}])))
    assert (said(bare).sample_rate, said(bare).labels, said(bare).overrides) == (None, None, {})


def test_numbers_and_lists_of_typed_formats_are_taken(tmp_path):
    row = {
        "uri": "a.raw",
        "channel": 1,
        "label": 3,
        "labels": ["x", "y"],
        "sensitivity": [10.0, 4.0],
        "group": 2.0,
    }
    for name in ("m.jsonl", "m.parquet"):
        (read,) = all_rows(load(write(tmp_path / name, [row])))
        known = said(read)
        assert (known.channel, known.label, known.labels, known.group) == ("1", "3", ("x", "y"), "2")
        assert known.factors == (0.1, 0.25)


def test_nan_is_an_empty_cell(tmp_path):
    rows = [
        {"uri": "a.raw", "label": 1.0, "load": 2.5},
        {"uri": "b.raw", "label": float("nan"), "load": float("nan")},
    ]
    for name in ("m.jsonl", "m.parquet"):
        _, empty = all_rows(load(write(tmp_path / name, rows)))
        assert said(empty).label is None
        assert "load" not in said(empty).fields


def test_times_of_a_parquet_file_keep_their_nanoseconds(tmp_path):
    table = pa.table(
        {"uri": ["a.raw"], "start_time": pa.array([1_700_000_000_123_456_789], pa.timestamp("ns", "UTC"))}
    )
    pq.write_table(table, tmp_path / "m.parquet")
    (read,) = all_rows(load(tmp_path / "m.parquet"))
    assert said(read).start_time_ns == 1_700_000_000_123_456_789


@pytest.mark.parametrize(
    ("start", "end", "times", "seconds"),
    [
        ("0", "16000", "auto", False),
        ("0", "1.0", "auto", True),
        ("0.5", "", "auto", True),
        ("1e0", "2", "auto", True),
        ("0", "2", "seconds", True),
        ("0.0", "2.0", "samples", False),
        ("", "", "auto", False),
    ],
)
def test_a_decimal_point_anywhere_means_seconds(tmp_path, start, end, times, seconds):
    rows = [{"uri": "a.raw", "start": "3", "end": "4"}, {"uri": "b.raw", "start": start, "end": end}]
    manifest = load(write(tmp_path / "m.csv", rows), times)
    assert manifest.in_seconds is seconds
    unit = "seconds, since some have" if seconds else "samples, since none has"
    note = f"start and end of the manifest are taken as {unit} a decimal point: manifest_times says what they are"
    assert manifest.note == (note if times == "auto" else None)


@pytest.mark.parametrize("ending", ["jsonl", "parquet"])
def test_whole_numbers_are_samples_also_where_a_gap_makes_them_floats(tmp_path, ending):
    rows = [{"uri": "a.raw", "start": 3.0, "end": None}, {"uri": "b.raw", "start": 1.0, "end": 16000.0}]
    assert load(write(tmp_path / f"m.{ending}", rows)).in_seconds is False
    rows[0]["start"] = 3.5
    assert load(write(tmp_path / f"n.{ending}", rows)).in_seconds is True
    assert load(write(tmp_path / f"none.{ending}", [{"uri": "a.raw"}])).note is None


def row_of(tmp_path, **values):
    (row,) = all_rows(load(write(tmp_path / "row.jsonl", [{"uri": "a.raw"} | values])))
    return row


@pytest.mark.parametrize(
    ("values", "in_seconds", "expected"),
    [
        ({}, False, (0, 1000)),
        ({"start": 10}, False, (10, 1000)),
        ({"start": 10, "end": 20}, False, (10, 20)),
        ({"start": "10.0", "end": "2e1"}, False, (10, 20)),
        ({"start": 0.1, "end": 0.25}, True, (10, 25)),
        ({"start": "0.104", "end": "0.105"}, True, (10, 11)),  # 10.4 and 10.5 samples
        ({"start": 999, "end": 5000}, False, (999, 5000)),  # describe warns and cuts
    ],
)
def test_a_region_is_in_samples_or_seconds_to_the_nearest_sample(tmp_path, values, in_seconds, expected):
    assert (
        region(row_of(tmp_path, **values), in_seconds=in_seconds, sample_rate=100.0, frames=1000) == expected
    )


@given(
    rate=st.sampled_from([44100.0, 8000.0, 11025.0, 25600.5]),
    start=st.integers(0, 10**6),
    more=st.integers(1, 9999),
)
def test_seconds_that_were_printed_from_samples_give_the_same_samples(tmp_path_factory, rate, start, more):
    folder = tmp_path_factory.getbasetemp()
    row = row_of(folder, start=f"{start / rate:.9f}", end=repr((start + more) / rate))
    found_region = region(row, in_seconds=True, sample_rate=rate, frames=10**7)
    assert found_region == (start, start + more)


def refused(function, *arguments, **keywords):
    with pytest.raises(ManifestError) as caught:
        function(*arguments, **keywords)
    return str(caught.value)


@pytest.mark.parametrize(
    ("values", "keywords", "message"),
    [
        ({"start": "x"}, {}, "row.jsonl, row 1: start='x' is no number of samples or seconds"),
        ({"end": "1/0"}, {}, "row.jsonl, row 1: end='1/0' is no number of samples or seconds"),
        (
            {"start": 1.5},
            {},
            "row.jsonl, row 1: start=1.5 is no whole number of samples: set manifest_times=seconds",
        ),
        (
            {"start": 1.5},
            {"in_seconds": True, "sample_rate": None},
            "row.jsonl, row 1: start=1.5 is in seconds, and nothing says the sample rate: set sample_rate",
        ),
        ({"start": 5, "end": 5}, {}, "row.jsonl, row 1: start=5 and end=5 make no range: correct them"),
        ({"end": -1}, {}, "row.jsonl, row 1: start=0 and end=-1 make no range: correct them"),
        ({"start": -1, "end": 5}, {}, "row.jsonl, row 1: start=-1 and end=5 make no range: correct them"),
        ({"start": -1}, {}, "row.jsonl, row 1: start=-1 and end=None make no range: correct them"),
    ],
)
def test_bounds_that_make_no_range_are_refused(tmp_path, values, keywords, message):
    known = {"in_seconds": False, "sample_rate": 100.0, "frames": 1000} | keywords
    assert refused(region, row_of(tmp_path, **values), **known) == message


@pytest.mark.parametrize("value", ["nan", "inf", "-inf", float("nan"), float("inf")])
def test_bounds_that_are_no_finite_number_are_refused(tmp_path, value):
    path = tmp_path / "m.parquet"
    pq.write_table(pa.table({"uri": ["a.raw"], "start": [value]}), path)
    (row,) = all_rows(load(path))
    message = refused(region, row, in_seconds=True, sample_rate=100.0, frames=1000)
    assert "is no number of samples or seconds" in message


def test_a_region_that_begins_beyond_the_end_is_a_reject(tmp_path):
    with pytest.raises(RejectError) as caught:
        region(row_of(tmp_path, start=1000), in_seconds=False, sample_rate=None, frames=1000)
    assert caught.value.reason is Reason.EMPTY
    assert str(caught.value) == (
        "row.jsonl, row 1 begins at sample 1000, and the recording has 1000: correct the row"
    )


def test_labelled_parts_are_sorted_and_cut_at_the_end(tmp_path):
    rows = [
        {"uri": "a.raw", "start": 500, "end": 5000, "label": "b"},
        {"uri": "a.raw", "start": 10, "end": 20, "label": "7"},
        {"uri": "a.raw", "start": 2000, "end": 3000, "label": "beyond"},
    ]
    manifest = load(write(tmp_path / "m.jsonl", rows))
    parts = intervals(manifest.rows["a.raw"], in_seconds=False, sample_rate=None, frames=1000)
    assert [(part.start, part.end, part.label) for part in parts] == [(10, 20, "7"), (500, 1000, "b")]
    unlabelled = load(write(tmp_path / "u.jsonl", [{"uri": "a.raw", "start": 1, "end": 2}])).rows["a.raw"]
    assert refused(intervals, unlabelled, in_seconds=False, sample_rate=None, frames=9) == (
        "u.jsonl, row 1 has no label, and manifest_rows=labels gives each row one"
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"sample_rate": "fast"}, "row.jsonl, row 1: sample_rate='fast' is no number: correct it"),
        ({"sample_rate": True}, "row.jsonl, row 1: sample_rate=True is no number: correct it"),
        (
            {"scale": "half"},
            "row.jsonl, row 1: scale: 'half' is neither auto, pcm, none nor a factor such as 0.001",
        ),
        ({"sensitivity": 0}, "row.jsonl, row 1: sensitivity=0 cannot be divided by"),
        ({"sensitivity": "x"}, "row.jsonl, row 1: sensitivity='x' is no number"),
        (
            {"start_time": "noon"},
            "row.jsonl, row 1: 'noon' is no time: write ISO 8601, such as 2024-05-01T12:00:00Z",
        ),
    ],
)
def test_values_that_are_not_what_their_column_holds_are_refused(tmp_path, values, message):
    assert refused(said, row_of(tmp_path, **values)) == message


@pytest.mark.parametrize("value", ["nan", "inf", "0", "1e40"])
def test_a_scale_that_is_no_factor_is_refused(tmp_path, value):
    assert "row.jsonl, row 1: " in refused(said, row_of(tmp_path, scale=value))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("m.csv", "path,label\na.raw,x\n", " has no column uri, only path, label: name the recordings in it"),
        ("m.csv", "uri,label\n", " has no rows"),
        ("m.csv", "uri,a,a\nx,1,2\n", " has two columns of one name: uri, a, a"),
        ("m.csv", "uri,label\na.raw,x,y\n", " cannot be read: CSV parse error: Expected 2 columns, got 3"),
        ("m.csv", b"uri\n\xff.raw\n", " cannot be read: "),
        ("m.csv", "", " cannot be read: Empty CSV file"),
        ("m.jsonl", "{", " cannot be read: line 1: "),
        ("m.jsonl", '{"uri": "a.raw"}\n\n{"uri": }', " cannot be read: line 3: "),
        ("m.jsonl", '{"uri": "a.raw"}\n["b.raw"]\n', " cannot be read: line 2 is no JSON object"),
        ("m.jsonl", "[" * 100_000, " cannot be read: line 1: "),
        ("m.jsonl", b'{"uri": "\xff.raw"}', " cannot be read: "),
        ("m.jsonl", "", " has no column uri, only none: name the recordings in it"),
        ("m.parquet", "no parquet", " cannot be read: "),
        ("m.xlsx", "x", " is of no known kind: use .csv, .jsonl or .parquet"),
    ],
)
def test_a_file_that_is_no_manifest_is_refused(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert refused(load, path).startswith(f"manifest={path}{message}")


def test_a_manifest_that_is_not_there_is_refused(tmp_path):
    for ending in ("csv", "jsonl", "parquet"):
        path = tmp_path / f"none.{ending}"
        assert refused(load, path).startswith(f"manifest={path} cannot be read: ")
    (tmp_path / "folder.csv").mkdir()
    assert "cannot be read: Is a directory" in refused(load, tmp_path / "folder.csv")


def test_a_row_without_uri_and_two_rows_of_one_part_are_refused(tmp_path):
    path = write(tmp_path / "m.csv", [{"uri": "a.raw", "label": "x"}, {"uri": "", "label": "y"}])
    assert refused(load, path) == "m.csv, row 2 has no uri: name its recording"
    rows = [{"uri": "a.raw", "start": "1"}, {"uri": "b.raw", "start": "1"}, {"uri": "./a.raw", "start": "1"}]
    message = "m.csv, row 3 names the same part of ./a.raw as m.csv, row 1: leave one out"
    assert refused(load, write(path, rows)) == message
    rows[2]["start"] = "2"
    assert len(load(write(path, rows)).rows["a.raw"]) == 2


def test_an_object_of_a_store_is_refused(tmp_path):
    path = write(tmp_path / "m.csv", [{"uri": "a.raw"}, {"uri": "gs://bucket/a.raw"}])
    message = "m.csv, row 2: uri=gs://bucket/a.raw is no local path: object stores cannot be read yet"
    assert refused(load, path) == message


def test_text_of_json_that_looks_like_a_time_stays_text(tmp_path):
    (row,) = all_rows(load(write(tmp_path / "m.jsonl", [{"uri": "a.raw", "day": "2024-05-01T12:00:00Z"}])))
    assert row.values["day"] == "2024-05-01T12:00:00Z"


def test_labels_of_one_recording_may_differ_in_start_end_and_label_alone(tmp_path):
    rows = [
        {"uri": "a.raw", "start": 0, "end": 5, "label": "x", "group": "g", "unit": "Pa"},
        {"uri": "./a.raw", "start": 5, "end": 9, "label": "y", "group": "g", "unit": "Pa"},
    ]
    known = said_of_all(load(write(tmp_path / "m.jsonl", rows)).rows["a.raw"])
    assert (known.group, known.unit) == ("g", "Pa")
    for other, told in (({"group": "h"}, "'h', and 'g'"), ({"group": None}, "None, and 'g'")):
        odd = load(write(tmp_path / "m.jsonl", [rows[0], rows[1] | other])).rows["a.raw"]
        assert refused(said_of_all, odd) == (
            f"m.jsonl, row 2: group={told} in m.jsonl, row 1: with manifest_rows=labels the rows of a recording differ "
            "in start, end and label alone"
        )


@pytest.fixture
def planned(tmp_path):
    """Plans what a manifest beside raw files of 640 samples says of them."""
    for name in "abc":
        write_raw(tmp_path / f"{name}.raw", noise(10 * L))

    def plan(rows, **values):
        path = write(tmp_path / "m.jsonl", rows)
        return plan_inputs(settings(manifest=str(path), splits={"all": 1.0}, **values), None)

    return plan


def test_each_region_is_cut_on_its_own_from_its_start(planned):
    result = planned(
        [
            {"uri": "a.raw", "start": 10, "end": 10 + 2 * L, "label": "x"},
            {"uri": "a.raw", "start": 300, "end": 301, "label": "y"},
            {"uri": "b.raw", "label": "x"},
        ]
    )
    blocks = [
        (row["recording"], row["start"], row["count"], row["end"], row["label"])
        for row in result.part(result.shards[0]).to_pylist()
    ]
    assert sorted(blocks) == [
        (b"a.raw//10-138", 10, 2, 138, 0),
        (b"a.raw//300-301", 300, 1, 301, 1),
        (b"b.raw", 0, 10, 640, 0),
    ]
    assert result.label_names == ["x", "y"]


def test_files_that_the_manifest_does_not_name_are_left_out_and_those_not_there_are_rejects(
    planned, tmp_path
):
    result = planned([{"uri": "a.raw"}, {"uri": "gone.raw"}], input=str(tmp_path))
    assert result.left_out["files not in the manifest"] == 2
    (reject,) = result.rejects
    assert (reject.recording, reject.reason) == (b"gone.raw", Reason.NOT_FOUND)
    assert reject.message == f"the manifest names it, and there is no {tmp_path}/gone.raw: correct its uri"
    assert result.recordings.column("id").to_pylist() == ["a.raw", "gone.raw"]


def test_labels_of_parts_go_to_the_segments_that_they_cover_most_of(planned):
    rows = [
        {"uri": "a.raw", "start": 0, "end": L + 20, "label": "x"},  # whole of segment 0, 20 samples of 1
        {"uri": "a.raw", "start": L + 20, "end": 2 * L, "label": "y"},  # 44 of segment 1
        {"uri": "a.raw", "start": 4 * L, "end": 4 * L + 32, "label": "y"},  # half of segment 4 each
        {"uri": "a.raw", "start": 4 * L + 32, "end": 5 * L, "label": "x"},
    ]
    result = planned(rows, manifest_rows="labels")
    labels = {}
    for row in result.part(result.shards[0]).to_pylist():
        for number in range(row["count"]):
            labels[row["start"] // L + number] = result.label_names[row["label"]]
    assert labels == {0: "x", 1: "y", 4: "x"}
    assert result.left_out == {"segments without a label": 7}
    kept = planned(rows, manifest_rows="labels", missing_label="keep")
    assert kept.segments == 10
    assert kept.table["all", ""][2] == 7


def test_a_region_beyond_the_end_is_cut_with_a_warning(planned):
    result = planned([{"uri": "a.raw", "start": 600, "end": 700}])
    (row,) = result.recordings.to_pylist()
    assert row["warnings"] == ["its row ends at sample 700, and 640 are there"]
    (block,) = result.part(result.shards[0]).to_pylist()
    assert (block["start"], block["end"], block["count"]) == (600, 640, 1)
    assert (
        "1 recording used though odd, such as a.raw: its row ends at sample 700, and 640 are there; the ledger has all"
    ) in result.warnings


def test_a_member_that_is_not_there_is_a_reject(planned):
    (reject,) = planned([{"uri": "a.raw//x"}, {"uri": "b.raw"}]).rejects
    assert (reject.recording, reject.reason) == (b"a.raw//x", Reason.NO_MEMBER)
    assert reject.message.startswith("m.jsonl, row 1: there is no member x, only ")


def test_paired_recordings_need_the_same_rate_length_and_channels(planned, tmp_path):
    write_raw(tmp_path / "short.raw", noise(L))
    result = planned(
        [
            {"uri": "a.raw", "target": "b.raw"},
            {"uri": "b.raw", "target": "short.raw"},
            {"uri": "c.raw", "target": "gone.raw"},
            {"uri": "short.raw"},
        ]
    )
    assert {reject.recording: reject.message for reject in result.rejects} == {
        b"b.raw": f"target short.raw has another length, {L} and not {10 * L}: name the one that was recorded with it",
        b"c.raw": f"target gone.raw: the manifest names it, and there is no {tmp_path}/gone.raw: correct its uri",
        b"short.raw": "its row in the manifest names no target: name one, or leave the row out",
    }
    assert {reject.reason for reject in result.rejects} == {Reason.PAIR_MISMATCH}
    assert result.specs["target_waveform"].shape == (L,)
    (row,) = {row["recording"]: row for row in result.part(result.shards[0]).to_pylist()}.values()
    assert row["paired"]["uri"].endswith(b"/b.raw")


def test_two_rows_of_one_id_are_refused(planned):
    with pytest.raises(
        SettingsError, match="two recordings have the id x: give each row of the manifest its own"
    ):
        planned([{"uri": "a.raw", "id": "x"}, {"uri": "b.raw", "id": "x"}])

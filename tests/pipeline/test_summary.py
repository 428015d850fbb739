"""The text for a terminal: sums that reconcile, what was lost and why, what bounds the run."""

import pytest

from spectrabeam.pipeline.match import Found, Matches
from spectrabeam.pipeline.plan import make_plan
from spectrabeam.pipeline.settings import Settings
from spectrabeam.pipeline.summary import dataset_summary, extraction_summary, plan_summary
from spectrabeam.transforms.dataset import Layout
from spectrabeam.transforms.rejects import Reason, Reject

LAYOUT = Layout("/data/features")
METADATA = {
    "counts": {
        "recordings": {"matched": 1203, "used": 1200, "rejected": 3},
        "segments": {"planned": 2402, "examples": 2400, "rejected": 2},
        "rejects": {
            "empty": {"recordings": 2, "segments": 0},
            "non_finite": {"recordings": 1, "segments": 2},
        },
        "left_out": {"hidden files and folders": 4, "segments above max_segments": 1000},
    },
    "splits": {
        "test": {"examples": 400, "shards": [{"bytes": 1_500_000}]},
        "train": {"examples": 2000, "shards": [{"bytes": 5_000_000}, {"bytes": 6_000_000}]},
        "validation": {"examples": 0, "shards": []},
    },
    "features": {
        "spectrum": {"dtype": "float32", "shape": [8193]},
        "label": {"dtype": "int64", "shape": []},
    },
    "axes": {
        "spectrum": [{"name": "frequency", "unit": "Hz", "first": 0.0, "step": 1.5625, "count": 8193}],
    },
    "label_names": ["ball", "normal"],
    "segment_length": 16384,
    "hop_length": 8192,
    "sample_rate": 25600.0,
    "compression": "zlib",
    "warnings": ["split validation is empty"],
}
RUN = {
    "plan_s": 0.5,
    "total_s": 12.25,
    "shards_s": 8.0,
    "examples": 2000,
    "shards_kept": 0,
    "threads": {"read": 1, "compute": 2},
    "stage_s": {"read": 1.0, "compute": 6.0, "statistics": 0.0, "encode": 2.0, "write": 1.0},
}


def rows(text):
    """First column to the texts behind it."""
    found = {}
    for line in text.splitlines():
        found.setdefault(line[:12].strip(), []).append(line[12:])
    return found


def test_summary_of_a_run_reconciles_recordings_and_segments():
    told = rows(extraction_summary(METADATA, RUN, LAYOUT))
    assert told["Recordings"] == ["1,203 matched = 1,200 used + 3 rejected"]
    assert told["Segments"] == ["2,402 planned = 2,400 examples + 2 rejected"]
    assert told["Splits"] == ["test 400, train 2,000, validation 0"]
    assert told["Rejected"] == [
        "empty: 2 recordings, 0 planned segments",
        "non_finite: 1 recording, 2 planned segments",
    ]
    assert told["Left out"] == ["4 hidden files and folders, 1,000 segments above max_segments"]
    assert told["Written"] == ["12.5 MB in 3 shards to /data/features"]
    assert told["Warning"] == ["split validation is empty"]
    assert told["Next"] == ["spectrabeam inspect /data/features"]


def test_summary_of_a_run_tells_time_rate_and_where_it_went():
    told = rows(extraction_summary(METADATA, RUN, LAYOUT))
    assert told["Time"] == ["12.2 s in all, 0.5 s of it for planning; 250 examples/s once running"]
    (stages,) = told["Stages"]
    assert stages.startswith(
        "read 1.0 s (10%), compute 6.0 s (60%), statistics 0.0 s (0%), encode 2.0 s (20%), write 1.0 s (10%)"
    )
    assert told["Bound by"][0].startswith("computing: ")
    assert "Kept" not in told


@pytest.mark.parametrize(
    ("stage", "what"),
    [("read", "reading"), ("compute", "computing"), ("encode", "encoding"), ("write", "writing")],
)
def test_the_longest_stage_bounds_the_run(stage, what):
    # two threads read, two compute, one encodes and writes
    quiet = {"read": 2.0, "compute": 2.0, "statistics": 0.0, "encode": 0.5, "write": 0.5}
    run = RUN | {"threads": {"read": 2, "compute": 2}, "stage_s": quiet | {stage: quiet[stage] * 3}}
    assert rows(extraction_summary(METADATA, run, LAYOUT))["Bound by"][0].startswith(what)


def test_a_run_that_only_finalized_tells_what_was_kept():
    run = RUN | {
        "examples": 0,
        "shards_s": 0.0,
        "shards_kept": 3,
        "stage_s": dict.fromkeys(RUN["stage_s"], 0.0),
    }
    told = rows(extraction_summary(METADATA, run, LAYOUT))
    assert told["Kept"] == ["3 shards of an earlier attempt"]
    assert not {"Stages", "Bound by"} & set(told)


def test_summary_of_a_dataset_tells_what_an_example_holds():
    told = rows(dataset_summary(METADATA, LAYOUT))
    assert told["Dataset"] == ["/data/features"]
    assert told["Example"] == ["spectrum float32[8193], label int64"]
    assert told["Segments"][-1] == "16384 samples every 8192, at 25600 Hz"
    assert told["Axis"] == ["spectrum: frequency from 0 to 12800 Hz in steps of 1.5625"]
    assert told["Labels"] == ["0 ball, 1 normal"]
    assert told["Files"] == ["3 shards, 12.5 MB, compression zlib"]
    assert "Labels" not in rows(dataset_summary(METADATA | {"label_names": None}, LAYOUT))


def plan(**values):
    names = [f"{label}/{number}.raw".encode() for label in ("ball", "normal") for number in range(20)]
    found = [Found(name, b"/" + name, 4 * 640, 0, "raw") for name in names]
    lost = [Reject(b"x%d" % n, "match", Reason.UNREADABLE, f"message {n}") for n in range(5)]
    settings = {"raw_dtype": "<f4", "sample_rate": 1.0, "segment_length": 64, "max_segments": 2} | values
    return make_plan(Matches(found, lost, {"hidden files and folders": 1}), Settings(**settings))


def test_summary_of_a_plan_tells_counts_rejects_and_bytes():
    text = plan_summary(plan(splits={"all": 1.0}), {"bytes_in": 102_400, "bytes_out": 999})
    told = rows(text)
    assert told["Recordings"] == ["45 matched = 40 planned + 5 rejected"]
    assert told["Segments"] == ["80 planned"]
    assert told["Left out"] == ["1 hidden files and folders, 320 segments above max_segments"]
    assert told["Rejected"] == ["5 unreadable"]
    assert told[""] == ["x0: message 0", "x1: message 1", "x2: message 2"]
    assert told["Bytes"] == ["102.4 kB in, about 999 B out, in 1 shard"]
    assert "Time" not in told
    assert text.endswith("\nNothing was written.")


def test_summary_of_a_plan_has_a_table_of_splits_and_labels():
    labelled = plan(label_from="path:^(?P<label>[a-z]+)/")
    text = plan_summary(labelled, {"bytes_in": 0, "bytes_out": 0})
    lines = text.splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("Split "))
    assert lines[head].split() == ["Split", "label", "groups", "recordings", "segments"]
    rows_ = [line.split() for line in lines[head + 1 : head + 1 + len(labelled.table)]]
    table = {(split, label): tuple(map(int, numbers)) for split, label, *numbers in rows_}
    assert table == labelled.table
    assert {split for split, _ in table} == {"train", "validation", "test"}
    for label in ("ball", "normal"):
        columns = zip(*(numbers for (_, name), numbers in table.items() if name == label), strict=True)
        assert [sum(column) for column in columns] == [20, 20, 40]


def test_summary_of_a_plan_without_labels_has_a_table_of_splits():
    lines = plan_summary(plan(splits={"all": 1.0}), {"bytes_in": 0, "bytes_out": 0}).splitlines()
    head = next(number for number, line in enumerate(lines) if line.startswith("Split "))
    assert lines[head].split() == ["Split", "groups", "recordings", "segments"]
    assert lines[head + 1].split() == ["all", "40", "40", "80"]


def test_summary_of_a_plan_tells_the_estimated_time_and_its_source():
    estimate = {
        "bytes_in": 0,
        "bytes_out": 5e12,
        "seconds": 1234.4,
        "rate": 987.6,
        "measured": "64 segments here",
    }
    told = rows(plan_summary(plan(), estimate))
    assert told["Time"] == [
        "a few seconds to start, then about 1,234 s at 988 examples/s, measured on 64 segments here"
    ]
    assert "about 5.0 TB out" in told["Bytes"][0]

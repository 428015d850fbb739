"""The plan: every segment once, in one split and shard, the table of what goes where, and what is left out."""

import numpy as np
import pyarrow as pa
import pytest
import scipy.io

from spectrabeam.pipeline.describe import describe
from spectrabeam.pipeline.match import Found
from spectrabeam.pipeline.settings import SettingsError
from spectrabeam.transforms import parts
from spectrabeam.transforms.rejects import Reason
from spectrabeam.transforms.segment import SegmentSettings, cut_blocks
from tests.helpers.plans import SEGMENT_LENGTH as L
from tests.helpers.plans import found, names, order_of, plan, rejected, segments_of, split_of
from tests.helpers.signals import noise


def test_every_segment_of_every_channel_is_in_one_shard():
    files = found("a.raw", frames=5000) + found("b.raw", frames=70) + found("c.raw", frames=20_000)
    result = plan(files, raw_channels=2, hop_length=48, num_shards=5, splits={"x": 0.5, "y": 0.5})
    segments = []
    for shard in result.shards:
        rows = result.part(shard).to_pylist()
        assert sum(row["count"] for row in rows) == shard.segments > 0
        segments += [
            (r["recording"], tuple(r["channels"]), r["start"] + 48 * k)
            for r in rows
            for k in range(r["count"])
        ]
    expected = []
    for item in files:
        starts, counts = cut_blocks(item.size // 8, SegmentSettings(segment_length=L, hop_length=48))
        for start, count in zip(starts.tolist(), counts.tolist(), strict=True):
            expected += [(item.recording, (c,), start + 48 * k) for c in (0, 1) for k in range(count)]
    assert sorted(segments) == sorted(expected)
    assert result.segments == len(expected)


def test_a_part_holds_all_that_a_worker_needs(tmp_path):
    result = plan(found("a/1.raw", frames=2 * L), label_from="path:^(?P<label>.)", splits={"all": 1.0})
    (shard,) = result.shards
    table = result.part(shard)
    assert table.schema.equals(parts.schema(pa.struct([]), pa.struct([])))
    path = str(tmp_path / "part")
    parts.write_part(path, shard.name, table)
    (block,) = parts.read_part(path).blocks()
    assert (block.recording, block.channels, block.start, block.count) == (b"a/1.raw", (0,), 0, 2)
    assert (block.end, block.sample_rate, block.label, dict(block.context)) == (2 * L, 1000.0, 0, {})
    source = block.source
    assert (source.uri, source.name) == (b"/not/there/a/1.raw", b"a/1.raw")
    assert (source.format, source.size) == ("raw", 8 * L)
    assert (source.frames, source.sample_rate, source.factors, source.overrides) == (2 * L, 1000.0, (), "")
    assert (block.paired, block.vectors, block.start_time_ns) == (None, {}, None)


def test_all_segments_of_a_recording_are_in_one_split():
    result = plan(found(*names(30), frames=200 * L), num_shards=20)
    splits = {}
    for shard in result.shards:
        for name in result.part(shard).column("recording").to_pylist():
            splits.setdefault(name, set()).add(shard.name.split)
    assert {len(each) for each in splits.values()} == {1}
    assert {name.decode(): min(each) for name, each in splits.items()} == split_of(result)


def test_seed_chooses_splits_and_order():
    one, other = (plan(found(*names(100)), seed=seed) for seed in (0, 1))
    assert split_of(one) != split_of(other)
    whole = {"splits": {"all": 1.0}}
    orders = [order_of(plan(found(*names(100)), seed=seed, **whole)) for seed in (0, 1)]
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1])


def test_rows_are_scattered():
    result = plan(found(*names(400)), splits={"all": 1.0})
    order = [int(name[1:6]) for name in order_of(result)]
    assert abs(np.corrcoef(order, np.arange(400))[0, 1]) < 0.2


def test_names_that_are_no_utf8_can_be_planned():
    assert plan(found(b"\xff.raw", b"\xfe.raw")).segments == 2


def test_labels_are_classes_by_sorted_name():
    files = found("inner/1.raw", "outer/1.raw", "ball/1.raw", "ball/2.raw", "odd.raw")
    result = plan(files, label_from="path:^(?P<label>[a-z]+)/", splits={"all": 1.0})
    assert result.label_names == ["ball", "inner", "outer"]
    rows = [row for shard in result.shards for row in result.part(shard).to_pylist()]
    assert {row["recording"].split(b"/")[0]: row["label"] for row in rows} == {
        b"ball": 0,
        b"inner": 1,
        b"outer": 2,
    }
    assert segments_of(result) == {"all": {"ball": 2, "inner": 1, "outer": 1}}
    message = (
        "label_from=path:^(?P<label>[a-z]+)/ finds no label: mend the expression, leave the file out, or set "
        "missing_label=keep"
    )
    assert rejected(result) == [(b"odd.raw", Reason.LABEL_MISSING, message)]


def test_without_labels_there_are_no_names_and_no_key():
    result = plan(found("a.raw"), splits={"all": 1.0})
    assert result.label_names is None
    assert "label" not in result.specs
    table = result.part(result.shards[0])
    assert table.schema.field("context").type == pa.struct([])
    assert table.column("label").to_pylist() == [None]
    assert result.table == {("all", ""): (1, 1, 1)}


def test_table_counts_groups_recordings_and_segments_as_the_parts_have_them():
    files = found(*(f"{label}/{number}.raw" for label in "ab" for number in range(40)), frames=3 * L)
    given = {"label_from": "path:^(?P<label>.)/", "fields_from": r"path:/(?P<ten>\d)", "split_by": "ten"}
    result = plan(files, **given)
    counted = {}
    for shard in result.shards:
        for row in result.part(shard).to_pylist():
            key = shard.name.split, "ab"[row["label"]]
            groups, recordings, segments = counted.setdefault(key, [set(), set(), 0])
            groups.add(row["recording"].split(b"/")[1][:1])
            recordings.add(row["recording"])
            counted[key][2] = segments + row["count"]
    assert result.table == {key: (len(g), len(r), n) for key, (g, r, n) in counted.items()}
    assert sum(segments for _, _, segments in result.table.values()) == 240


def test_an_empty_split_is_a_warning_and_has_no_shard():
    result = plan(found("a.raw"), splits={"train": 0.999999, "rare": 0.000001})
    assert [str(shard.name) for shard in result.shards] == ["train-00000"]
    assert result.splits == ["rare", "train"]
    assert result.warnings == ["split rare is empty"]


def test_hops_above_the_segment_length_are_a_warning_with_the_unused_share():
    result = plan(found("a.raw"), splits={"all": 1.0}, hop_length=4 * L)
    assert result.warnings == [
        f"hop_length={4 * L} is above segment_length={L}: 75% of the samples are not used"
    ]


def test_a_split_without_a_class_and_a_class_without_examples_are_warnings():
    files = found("a/1.raw", "a/2.raw", "b/1.raw")
    result = plan(
        files,
        fields_from=r"path:/(?P<number>\d)",
        label_from="path:^(?P<label>.)/",
        label_names="a,b,c",
        splits={"test": {"number": "2"}, "train": 1.0},
    )
    assert "split test has no example of b, c" in result.warnings
    assert "split train has no example of c" in result.warnings
    assert "no example of c" in result.warnings


def test_a_group_that_is_most_of_a_split_of_many_groups_is_a_warning():
    others = found("b.raw", "c.raw", "d.raw", "e.raw", "f.raw", frames=2 * L)
    (warning,) = plan(found("a.raw", frames=12 * L) + others, splits={"all": 1.0}).warnings
    assert warning == "group a.raw is 55% of split all, which has 6 groups"
    assert plan(found("a.raw", frames=10 * L) + others, splits={"all": 1.0}).warnings == []
    assert plan(found("a.raw", frames=12 * L), splits={"all": 1.0}).warnings == []


def test_much_padding_is_a_warning():
    (warning,) = plan(found(*names(4), frames=40), splits={"all": 1.0}).warnings
    assert warning == (
        "4 of 4 segments are padded, 38% of all samples are zeros: check the sample type, or set a segment_length "
        f"below {L}"
    )
    assert plan(found(*names(4), frames=48), splits={"all": 1.0}).warnings == []


def test_recordings_with_too_few_real_samples_are_rejects_with_the_rule():
    result = plan(found("a.raw", frames=15), min_valid=0.25)
    assert [(reason, message) for _, reason, message in rejected(result)] == [
        (Reason.TOO_SHORT, f"15 samples are fewer than min_valid=0.25 of segment_length={L}: lower either")
    ]
    assert plan(found("a.raw", frames=16), min_valid=0.25).segments == 1


def test_segments_that_are_not_wanted_are_counted_for_each_channel():
    files = found("a.raw", frames=2 * (10 * L + 1))
    result = plan(
        files, raw_channels=2, max_segments=4, min_valid=0.5, left_out={"hidden files and folders": 3}
    )
    assert result.left_out == {
        "hidden files and folders": 3,
        "segments above max_segments": 12,
        "segments with too few real samples": 2,
    }
    assert result.segments == 8


def test_channels_that_are_not_there_are_a_reject():
    result = plan(found("a.raw", frames=2 * L), raw_channels=2, channels="0,2")
    assert rejected(result) == [
        (b"a.raw", Reason.CHANNEL_MISMATCH, "there is no channel 2: pick among its 2, from 0")
    ]
    assert plan(found("a.raw", frames=2 * L), raw_channels=2, channels="0,1").segments == 2


def test_stacked_channels_make_one_example_with_an_axis_for_them():
    result = plan(found("a.raw", frames=6 * L), raw_channels=3, channels="stack:2,0")
    assert result.segments == 2
    (row,) = result.part(result.shards[0]).to_pylist()
    assert row["channels"] == [2, 0]
    assert result.specs["spectrum"].shape == (2, L // 2 + 1)
    assert "channel" not in result.specs
    with pytest.raises(
        SettingsError, match="batch_size=2 must hold the 3 channels that are stacked: raise it"
    ):
        plan(found("a.raw", frames=6 * L), raw_channels=3, channels="stack", batch_size=2)


def test_the_same_input_gives_the_same_plan():
    files = found(*names(50), frames=1000)
    one, other = plan(files, num_shards=9), plan(files, num_shards=9)
    assert one.shards == other.shards
    assert one.blocks.equals(other.blocks)
    assert one.sources.equals(other.sources)
    assert one.recordings.equals(other.recordings)


def test_no_recordings_give_an_empty_plan():
    result = plan([])
    assert (result.shards, result.segments, result.recordings.num_rows) == ([], 0, 0)


def test_keys_of_an_example_follow_from_the_settings():
    plain = {"channel", "recording", "sample_rate", "spectrum", "start", "valid"}
    assert set(plan(found("a.raw")).specs) == plain
    given = {"label_from": "path:(?P<label>.)(?P<second>.)", "keep_waveform": "int16", "carry": "second"}
    more = plan(found("ab.raw"), segment_length=9, **given).specs
    assert set(more) == plain | {"label", "waveform", "second"}
    assert (more["waveform"].dtype, more["waveform"].shape, more["spectrum"].shape) == ("int16", (9,), (5,))
    assert (more["label"].dtype, more["second"].dtype) == ("int64", "bytes")


@pytest.mark.parametrize(
    ("values", "needed"),
    [
        ({"carry": "rpm"}, True),
        ({"split_by": "rpm"}, True),
        ({"label_from": "file:rpm"}, True),
        ({"splits": {"a": {"rpm": 3}, "b": 1.0}}, True),
        ({"label_from": "path:^(?P<label>[a-z])"}, False),
        ({}, False),
    ],
)
def test_what_a_file_says_is_kept_where_anything_asks_for_it(tmp_path, monkeypatch, values, needed):
    described = []

    def keep(*arguments, **keywords):
        described.append(describe(*arguments, **keywords))
        return described[-1]

    monkeypatch.setattr("spectrabeam.pipeline.plan.describe", keep)
    path = tmp_path / "a.mat"
    scipy.io.savemat(path, {"x": noise(L), "rpm": 3.0})
    result = plan([Found(b"a.mat", str(path).encode(), path.stat().st_size, 0, "mat")], **values)
    (one,) = (each for each in described[0].recordings if each.description.member in (None, "x"))
    assert dict(one.description.attributes) == ({"rpm": 3.0} if needed else {})
    assert result.segments == 1

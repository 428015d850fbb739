"""Parquet and Arrow files written by pyarrow and pandas, read back: rows of lists, and plain columns."""

import io
import time

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather, ipc, parquet

from spectrabeam.transforms.formats.base import ReadSettings
from spectrabeam.transforms.formats.tables.columns import ArrowReader, ParquetReader
from spectrabeam.transforms.rejects import Reason, RejectError

READERS = {"parquet": ParquetReader, "arrow": ArrowReader}
FORMATS = pytest.mark.parametrize("kind", READERS)
DTYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"]


def write(kind, table, group=3):
    file = io.BytesIO()
    if kind == "parquet":
        parquet.write_table(table, file, row_group_size=group)
    else:
        with ipc.new_file(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=group)
    return file.getvalue()


def describe(kind, content, **given_settings):
    return READERS[kind](ReadSettings(**given_settings)).describe(io.BytesIO(content), len(content))


def read(kind, content, described, channel=0, start=0, count=None, dtype=np.float32, **given_settings):
    out = np.full(described.frames if count is None else count, 77, dtype)
    READERS[kind](ReadSettings(**given_settings)).read(
        io.BytesIO(content), described.locator, channel, start, out
    )
    return out


def rejected(kind, content, **given_settings):
    with pytest.raises(RejectError) as error:
        describe(kind, content, **given_settings)
    return error.value.reason, str(error.value)


def rows_of(lengths, dtype="f4", seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 100, length).astype(dtype) for length in lengths]


@FORMATS
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("container", [pa.list_, pa.large_list, lambda inner: pa.list_(inner, 50)])
def test_each_row_of_a_list_column_is_a_recording(kind, dtype, container):
    column = container(pa.from_numpy_dtype(np.dtype(dtype)))
    lengths = [50] * 8 if pa.types.is_fixed_size_list(column) else [5, 1, 50, 7, 9, 1000, 3, 2]
    rows = rows_of(lengths, dtype)
    content = write(kind, pa.table({"x": pa.array(rows, column), "label": pa.array(list("abcdefgh"))}))
    assert READERS[kind].matches(content[:4096])
    assert not READERS[kind].matches(content[1:4096])
    found = describe(kind, content)
    assert [each.member for each in found] == list("01234567")
    for row, each in zip(rows, found, strict=True):
        assert (each.format, each.channels, each.frames, each.dtype) == (
            kind,
            1,
            len(row),
            np.dtype(dtype).str,
        )
        assert (each.sample_rate, each.attributes) == (None, {"label": "abcdefgh"[int(each.member)]})
        np.testing.assert_array_equal(read(kind, content, each), row.astype(np.float32))
        if dtype == "i2":
            np.testing.assert_array_equal(read(kind, content, each, dtype=np.int16), row)
    if dtype != "i2":
        with pytest.raises(RejectError, match="keep_waveform=int16"):
            read(kind, content, found[0], dtype=np.int16)


@FORMATS
@settings(max_examples=25)
@given(st.data())
def test_any_range_of_any_row_is_read(kind, data):
    lengths = data.draw(st.lists(st.none() | st.integers(0, 20), min_size=1, max_size=12).filter(any))
    rows = rows_of([length or 0 for length in lengths], "f8")
    rows = [None if length is None else row for length, row in zip(lengths, rows, strict=True)]
    content = write(
        kind, pa.table({"x": pa.array(rows, pa.list_(pa.float64()))}), data.draw(st.integers(1, 5))
    )
    for row, length, each in zip(rows, lengths, describe(kind, content), strict=True):
        if not length:
            assert (each.reason, "null" in str(each)) == (Reason.EMPTY, length is None)
            continue
        start = data.draw(st.integers(0, length - 1))
        count = data.draw(st.integers(1, length - start))
        np.testing.assert_array_equal(
            read(kind, content, each, 0, start, count), row[start : start + count].astype("f4")
        )
        with pytest.raises(RejectError):
            read(kind, content, each, 0, start, length - start + 1)


@FORMATS
def test_small_columns_give_rate_time_and_attributes(kind):
    table = pa.table(
        {
            "waveform": pa.array(rows_of([10, 10, 10, 10]), pa.list_(pa.float32())),
            "other": pa.array(rows_of([3, 3, 3, 3]), pa.list_(pa.float32())),
            "fs": [8000, 16000, None, 0],
            "sample_rate": [1.0, 2.0, 3.0, 4.0],
            "word": pa.array(["a", "b", "a", None]).dictionary_encode(),
            "good": [True, False, True, True],
            "raw": [b"ok", b"\xff\xfe", b"", b"x"],
            "when": pa.array([0, 1_500_000, None, 2_000_000], pa.timestamp("us", "UTC")),
            "long": ["x" * 1001, "y", "z", "z"],
        }
    ).replace_schema_metadata({"machine": "M1", "word": "file"})
    content = write(kind, table)
    found = describe(kind, content, rate_key="fs", time_key="when")
    assert [each.sample_rate for each in found] == [8000.0, 16000.0, None, 0.0]
    assert [each.start_time_ns for each in found] == [0, 1_500_000_000, None, 2_000_000_000]
    expected = {"fs": 16000, "sample_rate": 2.0, "word": "b", "good": 0, "machine": "M1", "long": "y"}
    assert {key: value for key, value in found[1].attributes.items() if key != "when"} == expected
    assert "long" not in found[0].attributes
    assert (found[0].attributes["raw"], found[3].attributes["word"]) == ("ok", "file")
    assert [each.sample_rate for each in describe(kind, content)] == [1.0, 2.0, 3.0, 4.0]
    assert describe(kind, content, waveform_key="other")[2].frames == 3
    assert [each.member for each in describe(kind, content, members=("3", "1"))] == ["1", "3"]


@FORMATS
def test_nulls_in_a_list_are_nan(kind):
    content = write(kind, pa.table({"x": pa.array([[1, None, 3], [4, 5]], pa.list_(pa.int16()))}))
    first, second = describe(kind, content)
    np.testing.assert_array_equal(read(kind, content, first), np.array([1, np.nan, 3], np.float32))
    np.testing.assert_array_equal(read(kind, content, second), np.array([4, 5], np.float32))


@FORMATS
def test_a_doubtful_column_is_no_guess(kind):
    lists = pa.array(rows_of([3, 3]), pa.list_(pa.float32()))
    nested = pa.array([[[1.0]], [[2.0]]], pa.list_(pa.list_(pa.float32())))
    tensor = pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((2, 3, 4)))
    words = pa.array(["a", "b"])
    for columns, kept, reason, message in (
        ({"a": lists, "b": lists}, {}, Reason.NO_MEMBER, "set waveform_key to one of a, b"),
        ({"a": lists}, {"waveform_key": "z"}, Reason.NO_MEMBER, "no such column among a (list<"),
        ({"a": lists, "w": words}, {"waveform_key": "w"}, Reason.BAD_FORMAT, "column w holds string"),
        ({"a": nested}, {}, Reason.BAD_FORMAT, "store each channel as a row or a column of its own"),
        ({"a": tensor}, {}, Reason.BAD_FORMAT, "store each channel"),
        (
            {"a": words},
            {},
            Reason.BAD_FORMAT,
            "no column of numbers or of lists of numbers; the columns are a (string)",
        ),
        ({"a": lists[:0]}, {}, Reason.EMPTY, "no row"),
        ({"x": [1.0, 2.0]}, {"csv_columns": ("y",)}, Reason.NO_MEMBER, "csv_columns=y"),
        ({"x": [1.0, 2.0]}, {"csv_time": "y"}, Reason.NO_MEMBER, "csv_time=y"),
    ):
        found = rejected(kind, write(kind, pa.table(columns)), **kept)
        assert found[0] == reason
        assert message in found[1]
    table = pa.Table.from_arrays([lists, lists], names=["a", "a"])
    assert rejected(kind, write(kind, table))[0] == Reason.BAD_FORMAT
    reason, message = rejected(
        kind, write(kind, pa.table({"x": pa.array([[], [], None], pa.list_(pa.int8()))}))
    )
    assert reason == Reason.EMPTY
    assert message == "none of 3 rows can be used; row 0: column x holds no sample"


@FORMATS
@pytest.mark.parametrize("dtype", DTYPES)
def test_plain_columns_are_the_channels_of_one_recording(kind, dtype):
    values = np.random.default_rng(1).integers(0, 100, (500, 2)).astype(dtype)
    table = pa.table(
        {"time": np.arange(500) / 1000, "x": values[:, 0], "note": ["a"] * 500, "y": values[:, 1]}
    )
    content = write(kind, table, 64)
    (found,) = describe(kind, content)
    assert (found.member, found.channels, found.frames, found.sample_rate) == (None, 2, 500, 1000.0)
    assert (found.channel_names, found.dtype) == (("x", "y"), np.dtype(dtype).str)
    for channel in (0, 1):
        for start, count in ((0, 500), (63, 2), (64, 64), (499, 1), (100, 333)):
            expected = values[start : start + count, channel].astype(np.float32)
            np.testing.assert_array_equal(read(kind, content, found, channel, start, count), expected)
    with pytest.raises(RejectError, match="only 1 of 2"):
        read(kind, content, found, 0, 499, 2)
    (found,) = describe(kind, content, csv_columns=("y",), csv_time="none")
    assert (found.channel_names, found.sample_rate) == (("y",), None)
    np.testing.assert_array_equal(
        read(kind, content, found, csv_columns=("y",), csv_time="none"), values[:, 1]
    )
    assert describe(kind, content, waveform_key="x")[0].channel_names == ("x",)


@FORMATS
def test_a_time_column_gives_stretches_and_start(kind):
    rows = np.delete(np.arange(1000), np.arange(300, 400))
    stamps = pa.array(1_700_000_000_000_000 + rows * 500, pa.timestamp("us"))
    content = write(kind, pa.table({"timestamp": stamps, "x": rows.astype("f4")}), 77)
    first, second = describe(kind, content)
    assert (first.member, first.frames, first.sample_rate, second.member, second.frames) == (
        "row0",
        300,
        2000.0,
        "row300",
        600,
    )
    assert second.start_time_ns == 1_700_000_000_000_000_000 + 400 * 500_000
    assert read(kind, content, second).tolist() == list(range(400, 1000))
    assert [each.member for each in describe(kind, content, members=("row3*",))] == ["row300"]
    content = write(kind, pa.table({"t_ms": pa.array(rows[:200], pa.int32()), "x": rows[:200]}))
    assert describe(kind, content)[0].sample_rate == 1000.0
    content = write(kind, pa.table({"t": np.array([0, 1, 1, 2], "f4"), "x": np.zeros(4)}))
    assert "row 2: time stands still at 1 s (column t)" in rejected(kind, content)[1]
    content = write(kind, pa.table({"t": (np.arange(5000) / 4096).astype("f4"), "x": np.zeros(5000)}), 5000)
    assert describe(kind, content)[0].sample_rate == 4096.0


def test_what_pandas_and_feather_write_is_read():
    import pandas

    frame = pandas.DataFrame(
        {"a": [1.0, 2, 3]}, index=pandas.date_range("2024-01-01", periods=3, freq="10ms")
    )
    for each in (frame, frame.rename_axis("time")):
        file = io.BytesIO()
        each.to_parquet(file)
        (found,) = describe("parquet", file.getvalue())
        assert (found.channel_names, found.sample_rate, found.start_time_ns) == (
            ("a",),
            100.0,
            1_704_067_200 * 10**9,
        )
    file = io.BytesIO()
    pandas.DataFrame({"a": [1.0, 2, 3]}, index=[5, 6, 9]).to_parquet(file)
    assert describe("parquet", file.getvalue())[0].channel_names == ("a",)
    for compression in ("lz4", "zstd", "uncompressed"):
        file = io.BytesIO()
        feather.write_feather(pa.table({"x": rows_of([1000, 5])}), file, compression=compression)
        found = describe("arrow", file.getvalue())
        np.testing.assert_array_equal(read("arrow", file.getvalue(), found[0]), rows_of([1000, 5])[0])
    assert "Feather version 1" in rejected("arrow", b"FEA1" + bytes(100))[1]


@FORMATS
def test_bad_files_are_rejected(kind):
    content = write(kind, pa.table({"x": rows_of([100] * 10)}))
    assert rejected(kind, b"")[0] == Reason.EMPTY
    for bad in (
        b"x",
        content[:4],
        content[:50],
        content[: len(content) // 2],
        content[:-1],
        b"PAR1" * 20,
        b"ARROW1\0\0" * 20,
    ):
        assert rejected(kind, bad)[0] == Reason.BAD_FORMAT
    with pytest.raises(PermissionError):  # what the file itself raises is no fault of its content
        describe_failing(kind, content)


def describe_failing(kind, content):
    class Failing(io.BytesIO):
        def read(self, size=-1):
            if self.tell() > 4:
                raise PermissionError(13, "no")
            return super().read(size)

    READERS[kind](ReadSettings()).describe(Failing(content), len(content))


@FORMATS
def test_damage_is_a_reject_and_never_anything_else(kind):
    table = pa.table({"x": rows_of([30] * 6), "s": list("abcdef"), "t": pa.array([1] * 6, pa.timestamp("s"))})
    content = write(kind, table)
    rng = np.random.default_rng(5)
    reasons = set()
    for _ in range(400):
        damaged = bytearray(content)
        for at in rng.integers(8, len(content), 3):
            damaged[at] = rng.integers(256)
        try:
            for each in describe(kind, bytes(damaged), time_key="t"):
                if isinstance(each, RejectError):
                    reasons.add(each.reason)
                elif each.frames < 10_000:
                    read(kind, bytes(damaged), each, dtype=np.float32)
        except RejectError as error:
            reasons.add(error.reason)
    assert reasons <= {
        Reason.BAD_FORMAT, Reason.CORRUPT, Reason.NO_MEMBER, Reason.EMPTY, Reason.TOO_LARGE, Reason.TRUNCATED,
    }  # fmt: skip


@FORMATS
def test_a_group_above_the_limit_is_rejected_before_it_is_decoded(kind):
    content = write(kind, pa.table({"x": [np.zeros(1_000_000, np.float32)] * 4}), 4)
    reason, message = rejected(kind, content, decode_limit=1 << 20)
    assert reason == Reason.TOO_LARGE
    assert "decode_limit=1 MiB" in message


@FORMATS
def test_a_hundred_thousand_rows_are_described_in_linear_time_and_little_memory(kind, tmp_path):
    table = pa.table(
        {
            "x": pa.array(np.zeros((100_000, 64), "f4").tolist(), pa.list_(pa.float32())),
            "label": ["a"] * 100_000,
        }
    )
    content = write(kind, table, 10_000)
    began = time.monotonic()
    found = describe(kind, content)
    assert time.monotonic() - began < 10
    assert len(found) == 100_000
    path = tmp_path / "a"
    path.write_bytes(content)
    one = READERS[kind](ReadSettings())
    out = np.empty(64, np.float32)
    with path.open("rb", buffering=0) as file:
        began = time.monotonic()
        for each in found[::50]:
            one.read(file, each.locator, 0, 0, out)
        assert time.monotonic() - began < 2  # each group is decoded once
        assert not file.closed

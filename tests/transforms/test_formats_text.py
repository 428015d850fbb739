"""Text tables written by the csv module, numpy and pandas, read back; and tables that no reader should guess at."""

import csv
import io
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectrabeam.transforms.formats.base import ReadSettings
from spectrabeam.transforms.formats.tables.text import TextReader
from spectrabeam.transforms.rejects import Reason, RejectError


def reader(**given_settings):
    return TextReader(ReadSettings(**given_settings))


def as_bytes(content):
    return content.encode() if isinstance(content, str) else content


def describe(content, **given_settings):
    content = as_bytes(content)
    return reader(**given_settings).describe(io.BytesIO(content), len(content))


def one(content, **given_settings):
    (found,) = describe(content, **given_settings)
    return found


def read(content, described, channel=0, start=0, count=None, **given_settings):
    out = np.full(described.frames if count is None else count, 77, np.float32)
    reader(**given_settings).read(io.BytesIO(as_bytes(content)), described.locator, channel, start, out)
    return out


def columns(content, **given_settings):
    """Every channel of the only recording, as lists."""
    found = one(content, **given_settings)
    return [read(content, found, channel, **given_settings).tolist() for channel in range(found.channels)]


def rejected(content, **given_settings):
    with pytest.raises(RejectError) as error:
        describe(content, **given_settings)
    return error.value.reason, str(error.value)


A34 = "t;x\n0,001;1,5\n0,002;2,5\n0,003;-3,5\n"


def test_a34_decimal_commas_and_semicolons_are_found_and_a_footer_is_skipped_by_setting():
    content = A34 + "Rate 935, overflows 4\n"
    found = one(content, csv_skip_footer=1)
    assert (found.frames, found.channels, found.channel_names, found.sample_rate) == (3, 1, ("x",), 1000.0)
    assert read(content, found, csv_skip_footer=1).tolist() == [1.5, 2.5, -3.5]
    reason, message = rejected(content)
    assert reason == Reason.BAD_FORMAT
    assert message.startswith(
        "line 5: 1 fields where the first lines have 2 (delimiter ';', decimal mark ','): 'Rate 935"
    )
    assert "csv_skip_footer" in message


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|", " "])
@pytest.mark.parametrize("mark", [".", ","])
@pytest.mark.parametrize("header", [True, False])
def test_delimiter_decimal_mark_line_ends_and_header_are_detected(end, delimiter, mark, header):
    """A34 beyond the one input."""
    if mark == delimiter:
        return
    rows = [("0.001", "-1.5", "2e-3"), ("0.002", "2.25", "7"), ("0.003", "+3.5", "-1E+2")]
    lines = [delimiter.join(row).replace(".", mark) for row in rows]
    if header:
        lines.insert(0, delimiter.join(("t", "x", '"acc"')))
    content = end.join(lines) + end
    kept = {} if header else {"csv_time": "0"}
    assert columns(content, **kept) == [[-1.5, 2.25, 3.5], [np.float32(0.002), 7.0, -100.0]]
    assert one(content, **kept).channel_names == (("x", "acc") if header else ())
    assert columns(content.rstrip(end), **kept) == columns(content + end + end, **kept)


@pytest.mark.parametrize(
    "content",
    [
        "\ufefft,x\n0.1,1\n0.2,2\n",
        "\ufeff0.1,1\n0.2,2\n",
        "# made by a logger\n#\n# t,x\n0.1,1\n0.2,2\n",
        '"Time [s]","x"\n"0.1","1"\n"0.2","2"\n',
        "t,x,\n0.1,1,\n0.2,2,\n",
        "t,x\n0.1,1,\n0.2,2,\n",
        "t,x,\n0.1,1\n0.2,2\n",
        "t, x\n0.1, 1\n\n0.2 , 2\n\n",
        "   t        x\n  0.1      1.0\n  0.2      2.0\n",
        " t \t x\n 0.1 \t 1.0\n 0.2\t2.0 \n",
        ",t,x\n0,0.1,1\n1,0.2,2\n",
        "t,x\n+0.1,+1\n+0.2,+2\n",
    ],
)
def test_what_programs_write_is_read(content):
    kept = {} if "t" in content.lower() else {"csv_time": "0"}
    assert columns(content, **kept) == [[1.0, 2.0]]
    assert one(content, **kept).sample_rate == 10.0


def test_latin_1_headers_are_tolerated_and_the_unit_is_taken_from_them():
    content = "time [s];a [m/s²];b [m/s²]\n0,1;1;2\n0,2;3;4\n".encode("latin-1")
    found = one(content)
    assert (found.channel_names, found.unit) == (("a [m/s²]", "b [m/s²]"), "m/s²")
    assert one("t,a [g],b [V]\n0,1,2\n1,1,2\n").unit is None
    assert one("t,a [g]\n0,1\n1,1\n", scale=0.5).unit is None


def test_numpy_and_pandas_tables_come_back_exact_to_float32():
    import pandas

    values = np.random.default_rng(0).standard_normal((500, 3))
    frame = pandas.DataFrame(values, columns=["a", "b", "c"])
    frame["time"] = np.arange(500) / 2000
    for content, count in (
        (frame.to_csv(index=False), 3),
        (frame.to_csv(), 3),
        (frame.to_csv(sep=";", decimal=","), 3),
        (frame.to_csv(sep="\t", quoting=csv.QUOTE_ALL), 3),
    ):
        found = one(content)
        assert (found.channel_names, found.sample_rate) == (("a", "b", "c"), 2000.0)
        for channel in range(count):
            np.testing.assert_array_equal(
                read(content, found, channel), values[:, channel].astype(np.float32)
            )
    for save in (
        {},
        {"delimiter": ","},
        {"header": "a b c"},
        {"fmt": "%.17g", "delimiter": ";", "header": "a;b;c"},
    ):
        file = io.BytesIO()
        np.savetxt(file, values, **save)
        content = file.getvalue()
        found = one(content)
        assert found.sample_rate is None
        assert found.channel_names == (("a", "b", "c") if "header" in save else ())
        for channel in range(3):
            np.testing.assert_array_equal(
                read(content, found, channel), values[:, channel].astype(np.float32)
            )


@settings(max_examples=50)
@given(st.data())
def test_any_range_of_any_channel_is_read(data):
    channels = data.draw(st.integers(1, 4))
    number = st.floats(allow_nan=False, width=32) | st.integers(-(2**40), 2**40)
    rows = data.draw(st.lists(st.tuples(*[number] * channels), min_size=1, max_size=30))
    delimiter = data.draw(st.sampled_from(",;\t| "))
    file = io.StringIO()
    csv.writer(file, delimiter=delimiter).writerows([[f"c{index}" for index in range(channels)], *rows])
    found = one(file.getvalue())
    assert (found.frames, found.channels) == (len(rows), channels)
    channel = data.draw(st.integers(0, channels - 1))
    start = data.draw(st.integers(0, len(rows) - 1))
    count = data.draw(st.integers(1, len(rows) - start))
    with np.errstate(over="ignore"):
        expected = np.array([float(row[channel]) for row in rows]).astype(np.float32)[start : start + count]
    expected[
        np.isinf(expected) & np.array([np.isinf(row[channel]) for row in rows])[start : start + count]
    ] = np.nan
    np.testing.assert_array_equal(read(file.getvalue(), found, channel, start, count), expected)


def test_columns_are_chosen_by_name_or_number():
    content = "t,x,y,note\n0.1,1,2,a\n0.2,3,4,b\n"
    assert one(content).warnings == ("columns that are left out, since they hold no samples: note",)
    assert columns(content) == [[1.0, 3.0], [2.0, 4.0]]
    assert columns(content, csv_columns=("y", "1")) == [[2.0, 4.0], [1.0, 3.0]]
    assert one(content, csv_columns=("y", "1")).channel_names == ("y", "x")
    for setting in ({"csv_columns": ("z",)}, {"csv_time": "z"}, {"csv_columns": ("9",)}):
        reason, message = rejected(content, **setting)
        assert reason == Reason.NO_MEMBER
        assert "no such column; the columns are t, x, y, note" in message
    assert rejected("x,x\n1,2\n", csv_columns=("x",))[0] == Reason.NO_MEMBER
    assert rejected(content, csv_columns=("t",))[0] == Reason.NO_MEMBER
    reason, message = rejected(content, csv_columns=("note",))
    assert (reason, message[:34]) == (Reason.BAD_FORMAT, "line 2: 'a' in column note is no n")


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        ("t", 1), ("T", 1), ("Time", 1), ("timestamp", 1), ("time_s", 1), ("time [s]", 1), ("Time (ms)", 1e3), ("t_us", 1e6),
        ("TIME [µs]", 1e6), ("timestamp_ns", 1e9), ("Elapsed Time (s)", 1), ("Date/Time", 1), ("time stamp [ms]", 1e3),
    ],
)  # fmt: skip
def test_a_time_column_is_found_by_its_name_and_gives_the_rate_in_its_unit(name, rate):
    content = f"{name},x\n" + "".join(f"{row},1\n" for row in range(50))
    found = one(content)
    assert (found.sample_rate, found.channels, found.start_time_ns) == (
        pytest.approx(rate, rel=1e-12),
        1,
        None,
    )
    assert one(content, csv_time="none").channels == 2
    assert one(content, csv_time="none").sample_rate is None
    assert "counts up evenly" not in str(one(content, csv_time="none").warnings)


@pytest.mark.parametrize("name", ["T [°C]", "timer", "temperature", "date of birth", "x"])
def test_other_columns_are_no_time_but_one_that_counts_up_evenly_is_pointed_out(name):
    content = f"{name},x\n" + "".join(f"{row * 0.1:.1f},{row % 3}\n" for row in range(50))
    found = one(content)
    assert (found.channels, found.sample_rate) == (2, None)
    assert "counts up evenly: if it is the time, set csv_time" in found.warnings[0]
    if "[" not in name:
        assert one(content, csv_time="0").sample_rate == 10.0


def test_an_unknown_unit_or_a_number_too_large_for_seconds_is_no_guess():
    assert "the unit 'days'" in rejected("time [days],x\n1,2\n2,3\n")[1]
    now = "".join(f"{1_700_000_000_000 + 10 * row},1\n" for row in range(50))
    reason, message = rejected("timestamp,x\n" + now)
    assert reason == Reason.BAD_FORMAT
    assert "too large for seconds" in message
    assert one("timestamp_ms,x\n" + now).sample_rate == 100.0


@pytest.mark.parametrize(
    ("first", "start_ns"),
    [
        ("2024-01-02T03:04:05.{:06d}", 1_704_164_645_000_000_000),
        ("2024-01-02 03:04:05.{:06d}", 1_704_164_645_000_000_000),
        ("2024-01-02T03:04:05.{:06d}Z", 1_704_164_645_000_000_000),
        ("2024-01-02T03:04:05.{:06d}+02:00", 1_704_157_445_000_000_000),
    ],
)
def test_iso_timestamps_give_rate_and_start_and_without_zone_are_utc(first, start_ns):
    content = "Timestamp,x\n" + "".join(first.format(500 * row) + f",{row}\n" for row in range(100))
    found = one(content)
    assert (found.sample_rate, found.start_time_ns, found.channel_names) == (2000.0, start_ns, ("x",))
    spaced = content.replace(",", " , ")
    assert one(spaced).start_time_ns == start_ns


@pytest.mark.parametrize("rate", [44100, 48000, 25600, 12800.5, 3, 1 / 3, 10000 / 3, 51200, 0.1, 1652.89])
@pytest.mark.parametrize("printed", ["{:.6f}", "{:.9f}", "{:.9e}", "{!r}", "{:.10g}"])
def test_the_rate_is_the_true_one_though_times_are_printed_with_few_digits(rate, printed):
    content = "t,x\n" + "".join(printed.format(row / rate) + ",1\n" for row in range(20_000))
    assert one(content).sample_rate == pytest.approx(rate, rel=1e-12)


def test_times_in_whole_milliseconds_of_a_rate_that_does_not_fit_them_leave_no_gaps():
    content = "time_ms,x\n" + "".join(f"{int(1000 * row / 833)},1\n" for row in range(5000))
    found = one(content)
    assert (found.sample_rate, found.frames, found.warnings) == (833.0, 5000, ())


def test_a_gap_begins_a_new_recording_and_nothing_is_bridged():
    rows = [row for row in range(1000) if not 300 <= row < 400 and row != 700]
    content = "t,x\n" + "".join(f"{row / 1000:.3f},{row}\n" for row in rows)
    found = describe(content)
    assert [(each.member, each.frames, each.sample_rate) for each in found] == [
        ("row0", 300, 1000.0), ("row300", 300, 1000.0), ("row600", 299, 1000.0),
    ]  # fmt: skip
    assert read(content, found[1]).tolist() == list(range(400, 700))
    assert read(content, found[2], start=298, count=1).tolist() == [999.0]
    with pytest.raises(RejectError, match="only 1 of 2 samples"):
        read(content, found[1], start=299, count=2)
    assert [each.member for each in describe(content, members=("row6*",))] == ["row600"]
    stamps = "time,x\n" + "".join(
        f"2024-01-01T00:00:{row // 10:02d}.{row % 10},1\n" for row in [*range(50), *range(60, 99)]
    )
    assert [each.start_time_ns for each in describe(stamps)] == [1_704_067_200 * 10**9, 1_704_067_206 * 10**9]


def test_time_that_stands_still_runs_backwards_or_is_missing_is_rejected_with_its_line():
    rows = [f"{row / 10:.1f},1\n" for row in range(20)]
    for bad, message in (
        ("0.4", "stands still at 0.4 s"),
        ("0.2", "backwards from 0.4 s to 0.2 s"),
        ("nan", "missing"),
    ):
        content = "# a comment\nt,x\n\n" + "".join(rows[:5]) + f"{bad},1\n" + "".join(rows[6:])
        reason, text = rejected(content)
        assert reason == Reason.BAD_FORMAT
        assert text.startswith("line 9: ")
        assert message in text
        assert "csv_time=none" in text
        assert one(content, csv_time="none").frames == 20


def test_jitter_is_a_warning_with_its_figures_and_no_common_step_is_rejected():
    rng = np.random.default_rng(0)
    times = np.arange(1000) * 0.01 + rng.uniform(-0.001, 0.001, 1000)
    found = one("t,x\n" + "".join(f"{each:.6f},1\n" for each in times))
    assert "% of the steps in time are off by more than 5 % from 0.0" in found.warnings[0]
    assert found.sample_rate == pytest.approx(100, rel=1e-3)
    times = np.cumsum(rng.exponential(1, 1000))
    assert "no common step" in rejected("t,x\n" + "".join(f"{each:.6f},1\n" for each in times))[1]


def test_missing_and_infinite_cells_are_nan_so_that_their_segments_are_rejected_later():
    content = "a,b\n1,2\n,NaN\nnan,inf\nnull,-Inf\nN/A,3\n"
    found = one(content)
    assert np.isnan(read(content, found, 0)).tolist() == [False, True, True, True, True]
    assert np.isnan(read(content, found, 1)).tolist() == [False, True, True, True, False]
    single = "x\n1\n\n3\n"
    assert np.isnan(read(single, one(single))).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("content", "line", "words"),
    [
        ("t,x\ns,V\n0.1,1\n0.2,2\n", 2, "'s' in column t is no number"),
        ("x,y\n1,2\n3\n4,5\n", 3, "1 fields where the first lines have 2"),
        ("x,y\n1,2\n3,4,5\n4,5\n", 3, "3 fields"),
        ("x,y\r\n1,2\r\n\r\n3,abc\r\n", 4, "'abc' in column y"),
        ("# c\n\nx;y\n1;2\n1,5;2\n", 5, "'1,5'" ),
        ("1 2\n3 4\n\n   \n5 x\n", 5, "'x' in column 1"),
        ("x,y\n1,2\n1.2.3,4\n", 3, "'1.2.3'"),
        ("x,y\n1,2\n0x10,4\n", 3, "'0x10'"),
        ("x,y\n1,2\n# the end\n", 3, "1 fields"),
        ('x,y\n1,2\n"3\n4",5\n', 3, "1 fields"),
    ],
)  # fmt: skip
def test_a_line_that_does_not_parse_is_rejected_with_its_number_and_text(content, line, words):
    kept = {"csv_decimal": "."} if ";" in content else {}
    reason, message = rejected(content, **kept)
    assert reason == Reason.BAD_FORMAT
    assert message.startswith(f"line {line}: ")
    assert words in message
    assert "csv_skip_rows" in message


def test_the_line_number_is_right_far_down_a_large_file():
    lines = [f"{row},{row * 0.5}" for row in range(300_000)]
    lines[250_000] = "1,2,oops"
    assert rejected("\n".join(lines))[1].startswith("line 250001: 3 fields")
    lines[250_000] = "1,oops"
    assert rejected("\n".join(lines))[1].startswith("line 250001: 'oops' in column 1")


def test_lines_before_and_after_the_table_are_skipped_by_setting():
    content = "Logger 3000\nserial;12\n\n# x\nt;x\n0,1;1\n0,2;2\n\nend\nof file\n\n"
    assert columns(content, csv_skip_rows=2, csv_skip_footer=2) == [[1.0, 2.0]]
    reason, message = rejected(content, csv_skip_rows=0, csv_skip_footer=2)
    assert reason == Reason.BAD_FORMAT
    assert "csv_skip_rows" in message
    assert rejected(content, csv_skip_rows=99)[0] == Reason.EMPTY
    assert rejected(content, csv_skip_footer=99)[0] == Reason.EMPTY
    units = "t,x\ns,V\n0.1,1\n0.2,2\n"
    assert columns(units, csv_skip_rows=2, csv_time="0") == [[1.0, 2.0]]


def test_delimiter_and_decimal_mark_can_be_set():
    content = "1,5\n2,5\n"
    assert columns(content) == [[1.0, 2.0], [5.0, 5.0]]
    assert columns(content, csv_decimal=",") == [[1.5, 2.5]]
    assert columns("1,05\n2,50\n") == [[np.float32(1.05), 2.5]]
    assert columns("x\n1,5\n2,5\n") == [[1.5, 2.5]]
    assert columns("1:2\n3:4\n", csv_delimiter=":") == [[1.0, 3.0], [2.0, 4.0]]
    assert columns("1\t2\n3\t4\n", csv_delimiter="\\t") == [[1.0, 3.0], [2.0, 4.0]]
    for delimiter in ("ab", ".", "1", ""):
        with pytest.raises(ValueError, match="csv_delimiter"):
            reader(csv_delimiter=delimiter)
    with pytest.raises(ValueError, match="both a comma"):
        reader(csv_delimiter=",", csv_decimal=",")


def test_a_first_row_of_column_numbers_is_pointed_out():
    assert "the first row counts 0, 1" in one("0,1\n0.5,1.5\n2.5,3.5\n").warnings[0]
    assert columns(",0,1\n0,0.5,1.5\n1,2.5,3.5\n") == [[0.5, 2.5], [1.5, 3.5]]


def test_thousands_separators_are_rejected_not_guessed():
    assert rejected('"1,234.5","2,345.5"\n"1,234.5","2,345.5"\n')[0] == Reason.BAD_FORMAT
    assert rejected("x;y\n1.234,5;1\n1,5;2\n")[1].startswith("line 2: '1.234,5'")


def test_tables_without_a_row_or_a_number_are_rejected():
    for content in ("", "t,x\n", "\n\n", "# only a comment\n", "x"):
        assert rejected(content)[0] == Reason.EMPTY
    reason, message = rejected("name,city\nann,rome\nbob,bonn\n")
    assert reason == Reason.BAD_FORMAT
    assert message.startswith("no column of numbers")
    assert "line 1 is 'name,city'" in message
    for content in (b"\x89PNG\r\n\x1a\n" + bytes(100), "t,x\n1,2\n".encode("utf-16")):
        assert rejected(content)[0] == Reason.BAD_FORMAT
    assert not TextReader.matches(b"t,x\n1,2\n")


def test_a_seismic_text_file_is_not_taken_for_a_table(shared):
    content = (shared / "data" / "odd" / "slist.ascii").read_bytes()
    assert not TextReader.matches(content[:4096])
    reason, message = rejected(content)
    assert reason == Reason.BAD_FORMAT
    assert "csv_skip_rows" in message


def test_hostile_tables_are_rejected_soon_and_in_bounded_memory():
    began = time.monotonic()
    assert rejected(b"1" * (40 << 20))[0] == Reason.BAD_FORMAT
    assert rejected(b"\n" * (40 << 20))[0] == Reason.EMPTY
    assert rejected("\n".join(["1,2"] * 100_000), decode_limit=1_000_000)[0] == Reason.TOO_LARGE
    wide = ",".join(["1"] * 20_000)
    assert one(f"{wide}\n{wide}\n").channels == 20_000
    assert rejected("a,b\n" + '"' * 200_001 + "\n" + "1,2\n" * 5)[0] == Reason.BAD_FORMAT
    assert time.monotonic() - began < 20


@given(st.binary(max_size=200))
def test_any_bytes_are_a_table_or_a_reject(content):
    try:
        found = describe(content)
    except RejectError:
        return
    for each in found:
        read(content, each)


def test_int16_is_refused_and_a_scale_applied():
    content = "x\n1\n2\n"
    with pytest.raises(RejectError, match="keep_waveform=int16"):
        reader().read(io.BytesIO(content.encode()), one(content).locator, 0, 0, np.empty(2, np.int16))
    assert read(content, one(content), scale=0.5).tolist() == [0.5, 1.0]


def test_a_large_table_is_decoded_once(tmp_path):
    values = np.random.default_rng(1).standard_normal((200_000, 2)).astype(np.float32)
    path = tmp_path / "a.csv"
    np.savetxt(path, values, delimiter=",", fmt="%.9g", header="x,y", comments="")
    each = reader()
    out = np.empty(16384, np.float32)
    with path.open("rb", buffering=0) as file:
        found = each.describe(file, path.stat().st_size)[0]
        began = time.monotonic()
        for channel in (0, 1):
            for start in range(0, 180_000, 16384):
                each.read(file, found.locator, channel, start, out)
                np.testing.assert_array_equal(out, values[start : start + 16384, channel])
        assert time.monotonic() - began < 1
        assert not file.closed

"""TFRecord files of tf.train.Example written by TensorFlow, read back without it."""

import gzip
import io
import struct
import subprocess
import sys
import time
import zlib

import google_crc32c
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectrabeam.transforms.formats.base import ReadSettings
from spectrabeam.transforms.formats.tables.tfrecord import TfrecordReader
from spectrabeam.transforms.rejects import Reason, RejectError

OPTIONS = {"": "none", "GZIP": "gzip", "ZLIB": "zlib"}


def example(**values):
    """A serialised tf.train.Example: float arrays, integer arrays, bytes, text."""
    import tensorflow as tf

    features = {}
    for key, value in values.items():
        if isinstance(value, (bytes, str)):
            value = value.encode() if isinstance(value, str) else value
            features[key] = tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
        elif isinstance(value, list) and value and isinstance(value[0], bytes):
            features[key] = tf.train.Feature(bytes_list=tf.train.BytesList(value=value))
        else:
            array = np.atleast_1d(value)
            if array.dtype.kind == "f":
                features[key] = tf.train.Feature(float_list=tf.train.FloatList(value=array))
            else:
                features[key] = tf.train.Feature(int64_list=tf.train.Int64List(value=array))
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


def write(path, records, compression=""):
    import tensorflow as tf

    with tf.io.TFRecordWriter(str(path), tf.io.TFRecordOptions(compression_type=compression)) as writer:
        for record in records:
            writer.write(record)
    return path.read_bytes()


def frame(record):
    """A record as it is framed, by the format's definition."""

    def masked(content):
        crc = google_crc32c.value(content)
        return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)

    length = struct.pack("<Q", len(record))
    return length + masked(length) + record + masked(record)


def reader(**given_settings):
    return TfrecordReader(ReadSettings(**given_settings))


def describe(content, **given_settings):
    return reader(**given_settings).describe(io.BytesIO(content), len(content))


def read(content, described, start, count, dtype=np.float32, **given_settings):
    out = np.full(count, 77, dtype)
    reader(**given_settings).read(io.BytesIO(content), described.locator, 0, start, out)
    return out


def rejected(content, **given_settings):
    with pytest.raises(RejectError) as error:
        describe(content, **given_settings)
    return error.value.reason, str(error.value)


def waves(count, frames=1000, seed=0):
    return np.random.default_rng(seed).standard_normal((count, frames)).astype(np.float32)


@pytest.mark.parametrize("compression", OPTIONS)
def test_records_come_back_exact_with_rate_time_and_single_values(tmp_path, compression):
    samples = waves(5)
    records = [
        example(
            waveform=each, sample_rate=np.float32(25600), label=index, name=f"é{index}", rpm=1797.5, t="2024-01-02T03:04:05Z",
            image=b"\xff\xd8", many=[b"a", b"b"], spectrum=each[:10],
        )
        for index, each in enumerate(samples)
    ]  # fmt: skip
    content = write(tmp_path / "a.tfrecord", records, compression)
    assert TfrecordReader.matches(content[:4096])
    assert not TfrecordReader.matches(content[:11])
    found = describe(content, time_key="t")
    assert [each.member for each in found] == ["0", "1", "2", "3", "4"]
    for index, each in enumerate(found):
        assert (each.channels, each.frames, each.dtype, each.sample_rate) == (1, 1000, "<f4", 25600.0)
        assert each.start_time_ns == 1_704_164_645 * 10**9
        assert each.attributes == {
            "label": index, "name": f"é{index}", "rpm": 1797.5, "t": "2024-01-02T03:04:05Z", "sample_rate": 25600.0,
        }  # fmt: skip
        np.testing.assert_array_equal(read(content, each, 0, 1000), samples[index])
        np.testing.assert_array_equal(read(content, each, 990, 10), samples[index, 990:])


@settings(max_examples=40)
@given(st.data())
def test_any_range_of_integers_of_any_size_is_read(data):
    values = data.draw(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=2, max_size=50))
    start = data.draw(st.integers(0, len(values) - 1))
    count = data.draw(st.integers(1, len(values) - start))
    content = frame(example(x=np.array(values, np.int64)))
    (found,) = describe(content)
    assert (found.frames, found.dtype) == (len(values), "<i8")
    expected = np.array(values, np.int64).astype(np.float32)[start : start + count]
    np.testing.assert_array_equal(read(content, found, start, count), expected)


@pytest.mark.parametrize("dtype", ["<i2", ">i2", "u1", "<f4", ">f8", "<c8", ">i4"])
def test_bytes_are_samples_of_the_type_that_is_set(dtype):
    values = np.random.default_rng(1).integers(0, 200, 300).astype(dtype)
    content = frame(example(signal=values.tobytes(), fs=8000))
    (found,) = describe(content, tfrecord_dtype=dtype, rate_key="fs")
    assert (found.frames, found.dtype, found.sample_rate) == (300, np.dtype(dtype).str, 8000.0)
    assert found.is_complex == (dtype == "<c8")
    out = np.complex64 if found.is_complex else np.float32
    expected = values.astype(out)[7:107]
    np.testing.assert_array_equal(read(content, found, 7, 100, out, tfrecord_dtype=dtype), expected)
    if dtype[1:] == "i2":
        np.testing.assert_array_equal(
            read(content, found, 7, 100, np.int16, tfrecord_dtype=dtype), values[7:107]
        )
    else:
        with pytest.raises(RejectError, match="keep_waveform=int16"):
            read(content, found, 7, 100, np.int16, tfrecord_dtype=dtype)


def test_bytes_without_a_type_are_rejected_and_so_are_odd_ones():
    content = frame(example(waveform=b"\0\1\2"))
    (entry,) = describe(content)
    assert (entry.reason, entry.member) == (Reason.DTYPE_MISMATCH, "0")
    assert "set tfrecord_dtype, such as <i2" in str(entry)
    (entry,) = describe(content, tfrecord_dtype="<i2")
    assert "key waveform holds 3 bytes" in str(entry)
    (entry,) = describe(frame(example(waveform=[b"ab", b"cd"])), tfrecord_dtype="<i2")
    assert "several values" in str(entry)


def test_the_key_is_the_one_named_or_waveform_or_the_only_list():
    two = frame(example(a=waves(1)[0], b=waves(1)[0][:5], label=1, text="x"))
    (entry,) = describe(two)
    assert (entry.reason, entry.member) == (Reason.NO_MEMBER, "0")
    assert "a (1000 float), b (5 float), label (1 int64), text (1 bytes)" in str(entry)
    assert describe(two, waveform_key="b")[0].frames == 5
    (entry,) = describe(two, waveform_key="c")
    assert "no key c among its keys a (1000 float)" in str(entry)
    assert describe(frame(example(waveform=waves(1)[0], b=waves(1)[0])))[0].frames == 1000
    assert describe(frame(example(b=waves(1)[0], label=3)))[0].frames == 1000


def test_records_that_all_fail_for_one_cause_are_one_reject_and_others_stand_among_the_good():
    images = frame(example(image=b"\xff\xd8", label=1))
    reason, message = rejected(images * 1000)
    assert reason == Reason.NO_MEMBER
    assert message.startswith("none of 1000 records can be used; record 0: no samples among its keys image")
    good = frame(example(waveform=waves(1)[0]))
    entries = describe(images + good + frame(example(waveform=np.zeros(0, np.float32))) + good)
    assert [getattr(each, "reason", None) for each in entries] == [Reason.NO_MEMBER, None, Reason.EMPTY, None]
    assert [each.member for each in entries] == ["0", "1", "2", "3"]


def test_members_are_chosen_by_record_number():
    content = b"".join(frame(example(waveform=each)) for each in waves(12, 20))
    found = describe(content, members=("re:^1",))
    assert [each.member for each in found] == ["1", "10", "11"]
    np.testing.assert_array_equal(read(content, found[1], 0, 20), waves(12, 20)[10])
    assert rejected(content, members=("x",))[0] == Reason.NO_MEMBER


@pytest.mark.parametrize("kept", ["float32", "int16"])
@pytest.mark.parametrize("compression", OPTIONS)
def test_spectrabeams_own_segments_are_used_up_to_their_valid_samples(tmp_path, kept, compression):
    """As `extract --keep-waveform` writes them: zeros after `valid` samples, int16 as one bytes value."""
    values = np.zeros(4096, np.int16)
    values[:3000] = np.random.default_rng(3).integers(-32768, 32767, 3000)
    waveform = values.tobytes() if kept == "int16" else values.astype(np.float32)
    record = example(
        waveform=waveform, recording=b"a/b.wav", channel=1, start=8192, valid=3000, sample_rate=np.float32(12000), label=2,
        spectrum=np.zeros(2049, np.float32), start_time_ns=1_700_000_000_123_456_789,
    )  # fmt: skip
    content = write(tmp_path / "spectrabeam-train-00000.tfrecord", [record], compression)
    (found,) = describe(content)
    assert (found.frames, found.dtype) == (3000, "<i2" if kept == "int16" else "<f4")
    assert (found.sample_rate, found.start_time_ns) == (12000.0, 1_700_000_000_123_456_789)
    expected = {"recording": "a/b.wav", "channel": 1, "start": 8192, "label": 2}
    assert {key: found.attributes[key] for key in expected} == expected
    np.testing.assert_array_equal(read(content, found, 0, 3000), values[:3000].astype(np.float32))
    if kept == "int16":
        np.testing.assert_array_equal(read(content, found, 100, 50, np.int16), values[100:150])
    with pytest.raises(RejectError, match="only 0 of 10 samples"):
        read(content, found, 3000, 10)


def test_own_segments_that_do_not_add_up_or_are_stacked_are_rejected():
    own = {"waveform": np.zeros(10, np.float32), "recording": b"a", "start": 0, "valid": 10}
    for values, message in (
        (own, "stacked channels"),
        ({**own, "channel": 0, "valid": 11}, "valid=11 is not within its 10 samples"),
        ({**own, "channel": 0, "valid": [1, 2]}, "valid=-1"),
    ):
        (entry,) = describe(frame(example(**values)))
        assert entry.reason == Reason.BAD_FORMAT
        assert message in str(entry)
    (entry,) = describe(frame(example(**{**own, "channel": 0, "valid": 0})))
    assert entry.reason == Reason.EMPTY


def test_a_cut_file_is_used_up_to_the_cut_with_a_warning_unless_strict():
    whole = b"".join(frame(example(waveform=each)) for each in waves(3, 100))
    one = len(whole) // 3
    for cut in (1, 11, 12, 13, one - 1):
        found = describe(whole[: 2 * one + cut])
        assert [each.member for each in found] == ["0", "1"]
        assert found[0].warnings == ()
        assert "cut short or damaged in record 2, at byte" in found[1].warnings[0]
        assert rejected(whole[: 2 * one + cut], strict=True)[0] == Reason.TRUNCATED
    assert rejected(whole[: one - 1])[0] == Reason.TRUNCATED
    assert rejected(whole[:5])[0] == Reason.TRUNCATED
    with pytest.raises(RejectError) as error:
        read(whole[:-1], describe(whole)[2], 0, 100)
    assert error.value.reason == Reason.TRUNCATED


@pytest.mark.parametrize("compression", ["GZIP", "ZLIB"])
def test_a_cut_compressed_file_is_used_up_to_the_cut(tmp_path, compression):
    samples = waves(20, 2000)
    content = write(tmp_path / "a", [example(waveform=each) for each in samples], compression)
    found = describe(content[: len(content) // 2])
    assert 2 <= len(found) < 20
    assert "cut short or damaged" in found[-1].warnings[0]
    np.testing.assert_array_equal(
        read(content[: len(content) // 2], found[-1], 0, 2000), samples[len(found) - 1]
    )


def test_damage_is_found_by_the_checksums():
    records = [frame(example(waveform=each, label=1)) for each in waves(3, 100)]
    content = bytearray(b"".join(records))
    content[len(records[0]) + 200] ^= 1  # a sample of record 1
    found = describe(bytes(content))
    with pytest.raises(RejectError, match="checksum of the record's") as error:
        read(bytes(content), found[1], 0, 100)
    assert error.value.reason == Reason.CORRUPT
    np.testing.assert_array_equal(read(bytes(content), found[2], 0, 100), waves(3, 100)[2])

    content = bytearray(b"".join(records))
    content[len(records[0]) + 12] ^= 0xFF  # the message's first tag
    entries = describe(bytes(content))
    assert (entries[1].reason, entries[1].member) == (Reason.CORRUPT, "1")

    content = bytearray(b"".join(records))
    content[len(records[0])] ^= 1  # the length of record 1
    entries = describe(bytes(content))
    assert [each.member for each in entries] == ["0", "1"]
    assert entries[1].reason == Reason.CORRUPT
    assert rejected(bytes(content), strict=True)[0] == Reason.CORRUPT


def test_what_is_no_tfrecord_is_rejected_and_not_matched():
    assert rejected(b"")[0] == Reason.EMPTY
    for content in (
        b"\0" * 5000,
        b"RIFF" + b"\1" * 100,
        gzip.compress(b"hello" * 100),
        zlib.compress(bytes(99)),
    ):
        assert not TfrecordReader.matches(content[:4096])
        assert rejected(content)[0] == Reason.BAD_FORMAT
    assert rejected(gzip.compress(b""))[0] == Reason.EMPTY
    (entry,) = describe(frame(b"no protobuf at all"))
    assert (entry.reason, entry.member) == (Reason.BAD_FORMAT, "0")
    assert "no tf.train.Example" in str(entry)


def test_compression_is_told_by_content_not_by_name():
    """B17: a GZIP shard named .tfrecord and a plain one named .gz; concatenated gzip files too."""
    records = [frame(example(waveform=each)) for each in waves(4, 50)]
    for content in (
        b"".join(records),
        b"".join(map(gzip.compress, records)),
        zlib.compress(b"".join(records)),
    ):
        assert TfrecordReader.matches(content[:4096])
        found = describe(content)
        assert len(found) == 4
        np.testing.assert_array_equal(read(content, found[3], 0, 50), waves(4, 50)[3])


def test_hostile_sizes_are_rejected_at_once():
    began = time.monotonic()
    huge = struct.pack("<Q", 1 << 62)
    crc = google_crc32c.value(huge)
    huge += struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
    assert rejected(huge + bytes(100))[0] == Reason.TRUNCATED
    bomb = zlib.compress(frame(example(waveform=np.zeros(1_000_000, np.float32))))
    assert rejected(bomb, decode_limit=1_000_000)[0] == Reason.TOO_LARGE
    lies = b"\x0a\xff\xff\xff\xff\x7f"  # features of 34 GB
    assert describe(frame(lies))[0].reason == Reason.BAD_FORMAT
    for tail in (b"\x0a", b"\xff" * 20, b"\x0f", b"\x0a\x02\x0a\x09"):
        assert describe(frame(tail))[0].reason == Reason.BAD_FORMAT
    assert time.monotonic() - began < 5


@given(st.binary(max_size=60), st.integers(0, 2**32))
def test_damaged_messages_are_rejected_and_never_anything_else(junk, seed):
    message = bytearray(example(waveform=waves(1, 5)[0], label=300, s="x"))
    at = seed % len(message)
    message[at : at + len(junk)] = junk
    (entry,) = describe(frame(bytes(message)))
    if not isinstance(entry, RejectError):
        read(frame(bytes(message)), entry, 0, entry.frames, tfrecord_dtype="u1")


def test_numbers_that_are_not_packed_or_in_pieces_are_read_as_protobuf_allows():
    def field(number, content):
        return bytes([number << 3 | 2, len(content)]) + content

    def record(feature):
        return frame(field(1, field(1, field(1, b"waveform") + field(2, feature))))

    single = b"".join(b"\x0d" + struct.pack("<f", each) for each in (1.5, -2, 3))
    pieces = field(1, struct.pack("<f", 1.5)) + field(1, struct.pack("<2f", -2, 3))
    varints = b"\x08\x05\x08\xac\x02"
    for content, expected in (
        (record(field(2, single)), [1.5, -2, 3]),
        (record(field(2, pieces)), [1.5, -2, 3]),
        (record(field(3, varints)), [5, 300]),
    ):
        (found,) = describe(content)
        assert read(content, found, 0, found.frames).tolist() == expected
    assert describe(record(field(2, single + b"\0")))[0].reason == Reason.BAD_FORMAT
    assert describe(record(field(2, b"\x0a\x03abc")))[0].reason == Reason.BAD_FORMAT


def test_a_large_record_is_decoded_once_and_above_the_limit_rejected(tmp_path):
    samples = waves(1, 2_000_000)[0]
    path = tmp_path / "a.tfrecord"
    content = write(path, [example(waveform=samples)])
    (found,) = describe(content)
    one = reader()
    out = np.empty(16384, np.float32)
    with path.open("rb", buffering=0) as file:
        one.read(file, found.locator, 0, 0, out)
        began = time.monotonic()
        for start in range(0, 1_900_000, 16384):
            one.read(file, found.locator, 0, start, out)
            np.testing.assert_array_equal(out, samples[start : start + 16384])
        assert time.monotonic() - began < 1
    with pytest.raises(RejectError, match="decode_limit") as error:
        read(content, found, 0, 10, decode_limit=1000)
    assert error.value.reason == Reason.TOO_LARGE


def test_ten_thousand_records_are_described_without_reading_their_samples(tmp_path):
    content = frame(example(waveform=waves(1, 16384)[0], sample_rate=np.float32(1), label=1)) * 10_000
    path = tmp_path / "a.tfrecord"
    path.write_bytes(content)
    began = time.monotonic()
    with path.open("rb", buffering=0) as file:
        found = reader().describe(file, len(content))
        assert not file.closed
    assert len(found) == 10_000
    assert time.monotonic() - began < 10


def test_reading_does_not_import_tensorflow(tmp_path):
    path = tmp_path / "a.tfrecord"
    write(path, [example(waveform=waves(1)[0])])
    code = (
        "import sys, numpy as np\n"
        "from spectrabeam.transforms.formats.base import ReadSettings\n"
        "from spectrabeam.transforms.formats.tables.tfrecord import TfrecordReader\n"
        f"file = open({str(path)!r}, 'rb', buffering=0)\n"
        "one = TfrecordReader(ReadSettings())\n"
        "found = one.describe(file, file.seek(0, 2))[0]\n"
        "one.read(file, found.locator, 0, 0, np.empty(5, np.float32))\n"
        "assert 'tensorflow' not in sys.modules and 'apache_beam' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

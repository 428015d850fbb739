"""Matched files to usable recordings: labels, the one sample rate, and what is rejected with which reason."""

import pytest

from spectrabeam.pipeline.match import Found
from spectrabeam.pipeline.plan import split_table
from spectrabeam.pipeline.settings import SettingsError
from spectrabeam.transforms.rejects import Reason
from tests.helpers.plans import SEGMENT_LENGTH as L
from tests.helpers.plans import found, plan, rejected
from tests.helpers.signals import noise, write_wav


def test_labels_are_classes_by_sorted_name():
    files = found("inner/1.raw", "outer/1.raw", "ball/1.raw", "ball/2.raw", "odd.raw")
    result = plan(files, label_from="path:^(?P<label>[a-z]+)/", splits={"all": 1.0})
    assert result.label_names == ["ball", "inner", "outer"]
    rows = result.blocks.to_pylist()
    assert {row["recording"].split(b"/")[0]: row["label"] for row in rows} == {
        b"ball": 0,
        b"inner": 1,
        b"outer": 2,
    }
    assert split_table(result) == {"all": {"ball": 2, "inner": 1, "outer": 1}}
    message = "label_from=path:^(?P<label>[a-z]+)/ finds no label in the path: mend the expression, or leave the file out"
    assert rejected(result) == [(b"odd.raw", Reason.LABEL_MISSING, message)]


def test_without_labels_there_are_no_names():
    result = plan(found("a.raw"), splits={"all": 1.0})
    assert result.label_names is None
    assert result.blocks.column("label").to_pylist() == [None]
    assert split_table(result) == {"all": {"": 1}}


def wavs(tmp_path, **rates):
    paths = [write_wav(tmp_path / f"{name}.wav", noise(L) / 4, rate) for name, rate in rates.items()]
    return [Found(p.name.encode(), str(p).encode(), p.stat().st_size, 0, "wav") for p in paths]


def test_the_only_rate_of_the_files_is_the_datasets(tmp_path):
    result = plan(wavs(tmp_path, a=8000, b=8000), sample_rate=None)
    assert result.sample_rate == 8000
    assert result.rejects == []


def test_several_rates_are_refused_with_a_table(tmp_path):
    message = r"several sample rates \(8000 Hz: 2, 44100 Hz: 1\).* a dataset has one: set sample_rate"
    with pytest.raises(SettingsError, match=message):
        plan(wavs(tmp_path, a=8000, b=44100, c=8000), sample_rate=None)


def test_other_rates_than_the_given_one_are_rejected(tmp_path):
    result = plan(wavs(tmp_path, a=8000, b=44100), sample_rate=8000)
    ((recording, reason, message),) = rejected(result)
    assert (recording, reason) == (b"b.wav", Reason.RATE_MISMATCH)
    assert "sample_rate=44100 Hz" in message
    assert "8000 Hz is expected: resample the file, or set sample_rate" in message
    assert result.segments == 1


def test_headerless_files_without_their_settings_are_refused():
    with pytest.raises(SettingsError, match="raw_dtype is not set, and headerless files do not say it"):
        plan(found("a.raw"), raw_dtype=None)


def test_recordings_that_cannot_be_used_are_rejects_of_the_plan(tmp_path):
    def file(name, content, format=None):
        (tmp_path / name).write_bytes(content)
        return Found(name.encode(), str(tmp_path / name).encode(), len(content), 0, format)

    gone = Found(b"gone.wav", b"/not/there.wav", 9, 0, "wav")
    files = [file("a.bin", b""), file("b.bin", b"what is this"), file("c.raw", b"12345", "raw"), gone]
    result = plan([*files, *found("short.raw", frames=L - 1)], tail="drop")
    reasons = {recording: (reason, message) for recording, reason, message in rejected(result)}
    assert reasons[b"a.bin"] == (Reason.EMPTY, "the file has 0 bytes")
    assert reasons[b"b.bin"] == (
        Reason.UNKNOWN_FORMAT,
        "neither name nor content shows the format: set input_format",
    )
    assert reasons[b"c.raw"][0] is Reason.PARTIAL_FRAME
    assert reasons[b"gone.wav"] == (Reason.UNREADABLE, "the file cannot be read: No such file or directory")
    assert reasons[b"short.raw"] == (
        Reason.TOO_SHORT,
        f"63 samples are fewer than segment_length={L}: set tail=pad, or a shorter segment",
    )
    assert {reject.stage for reject in result.rejects} == {"plan"}

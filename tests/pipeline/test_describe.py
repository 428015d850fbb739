"""Matched files to usable recordings: headers, the one sample rate, and what is rejected with which reason."""

import pytest

from spectrabeam.pipeline.match import Found
from spectrabeam.pipeline.settings import SettingsError
from spectrabeam.transforms.rejects import Reason
from tests.helpers.plans import SEGMENT_LENGTH as L
from tests.helpers.plans import found, plan, rejected
from tests.helpers.signals import noise, write_wav


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
    assert "8000 Hz is expected: set resample, or sample_rate" in message
    assert result.segments == 1


def test_other_rates_than_the_given_one_are_resampled_where_that_is_set(tmp_path):
    result = plan(wavs(tmp_path, a=8000, b=44100), sample_rate=8000, resample=True, splits={"all": 1.0})
    assert (result.sample_rate, result.resampled, result.rejects) == (8000, 1, [])
    assert result.segments == 2  # 64 samples at 44100 Hz become 12
    ends = {row["recording"]: row["end"] for row in result.part(result.shards[0]).to_pylist()}
    assert ends == {b"a.wav": L, b"b.wav": 12}
    assert {row["id"]: row["sample_rate"] for row in result.recordings.to_pylist()} == {
        "a.wav": 8000,
        "b.wav": 44100,
    }


def test_rates_that_lie_too_far_apart_are_rejected_even_so(tmp_path):
    result = plan(wavs(tmp_path, a=8000, b=30), sample_rate=8000, resample=True)
    ((recording, reason, message),) = rejected(result)
    assert (recording, reason) == (b"b.wav", Reason.RATE_MISMATCH)
    assert message == (
        "sample_rate=30 Hz, and 8000 Hz is expected: rates may differ by a factor of 256; state the right one in a "
        "manifest"
    )


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"raw_dtype": None},
            r"raw_dtype is not set, and headerless files do not say it: .* \(for a\.raw\)$",
        ),
        (
            {"sample_rate": None},
            "sample_rate is not set, and a.raw does not say it: give it in Hz, such as --sample-rate 25600, by "
            "rate_key where the file has it under some name, in a manifest, or in a sidecar",
        ),
    ],
)
def test_headerless_files_without_their_settings_are_refused(values, message):
    with pytest.raises(SettingsError, match=message):
        plan(found("a.raw"), **values)


@pytest.mark.parametrize("values", [{"raw_dtype": "<c8"}, {"iq": True, "raw_channels": 2}])
def test_complex_samples_are_refused_by_features_that_take_real_ones(values):
    message = "features.log_mel: log_mel takes real samples, and these are complex: use one of log_spectrum, "
    with pytest.raises(SettingsError, match=message):
        plan(found("a.raw", frames=4 * L), features="log_mel", **values)


@pytest.mark.parametrize(
    ("values", "dtype"), [({"raw_dtype": "<c8"}, "<c8"), ({"iq": True, "raw_channels": 2}, "<f4")]
)
def test_samples_of_all_recordings_may_be_complex(values, dtype):
    result = plan(found("a.raw", frames=8 * L), **values, keep_waveform="float32", splits={"all": 1.0})
    assert result.is_complex
    assert result.recordings.column("dtype").to_pylist() == [dtype]
    assert result.recordings.column("channels").to_pylist() == [1]
    assert result.specs["spectrum"].shape == (L,)
    assert result.specs["waveform"].shape == (L, 2)


def test_integers_as_they_came_are_for_real_samples():
    with pytest.raises(SettingsError, match="keep_waveform=int16 keeps real samples, and these are complex"):
        plan(found("a.raw", frames=8 * L), raw_dtype="<c8", keep_waveform="int16")


def test_an_odd_number_of_channels_has_no_pairs():
    ((_, reason, message),) = rejected(plan(found("a.raw", frames=6 * L), iq=True, raw_channels=3))
    assert reason is Reason.CHANNEL_MISMATCH
    assert "iq makes complex samples of pairs of channels, and there are 3" in message


def test_a_sensitivity_for_all_is_the_factor_of_those_that_say_none():
    result = plan(found("a.raw"), sensitivity=100.0, unit="g", splits={"all": 1.0})
    assert result.unit == "g"
    (row,) = result.part(result.shards[0]).to_pylist()
    assert row["source"]["factors"] == [0.01]


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

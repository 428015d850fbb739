"""The settings of a run: every check of a value, what is stored, and what names and compares them."""

import json

import pytest

from spectrabeam.pipeline.settings import content_settings, differences, fingerprint, stored_settings
from tests.helpers.settings import load, refused


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"segment_lenght": 5}, "segment_lenght: no such setting (FILE): did you mean segment_length?"),
        ({"xyzzy": 5}, "xyzzy: no such setting (FILE)"),
        ({5: 5}, "5: no such setting (FILE)"),
        ({"segment_length": 0}, "segment_length=0 (FILE): input should be greater than or equal to 1"),
        ({"segment_length": "long"}, "segment_length='long' (FILE): input should be a valid integer"),
        ({"label_names": ["a", "b", "a"]}, "label_names (FILE): 'a' stands there twice: leave one out"),
        ({"carry": "x,y,x"}, "carry (FILE): 'x' stands there twice: leave one out"),
        (
            {"features": {"logmel": {}}},
            "features (FILE): logmel: there is no kind logmel, did you mean log_mel?",
        ),
        (
            {"features": {"log_mel": {"hop_length": 9}}},
            "features.log_mel.hop_length: no such setting (FILE): it is frame_step here",
        ),
        ({"hop_length": 0}, "hop_length=0 (FILE): input should be greater than or equal to 1"),
        ({"tail": "cut"}, "tail='cut' (FILE): input should be 'pad' or 'drop'"),
        ({"sample_rate": float("nan")}, "sample_rate=nan (FILE): input should be"),
        ({"batch_size": 0}, "batch_size=0 (FILE): input should be greater than or equal to 1"),
        (
            {"max_reject_fraction": 1.5},
            "max_reject_fraction=1.5 (FILE): input should be less than or equal to 1",
        ),
        (
            {"shard_size": "128 lots"},
            "shard_size (FILE): '128 lots' is no size: write bytes or a number with kB",
        ),
        ({"splits": "train"}, "splits (FILE): 'train': write each split once as NAME=FRACTION"),
        ({"splits": "a=0.5,a=0.5"}, "splits (FILE): 'a=0.5,a=0.5': write each split once"),
        (
            {"splits": {"1st": 1.0}},
            "splits (FILE): '1st' cannot be a split's name: use letters, digits and _",
        ),
        ({"splits": {"a": 1.5}}, "splits (FILE): a=1.5 must be above 0 and at most 1"),
        ({"splits": {"a": 1.0, "b": 0}}, "splits (FILE): b=0.0 must be above 0 and at most 1"),
        ({"splits": {"a": 0.5, "b": 0.4}}, "splits (FILE): the fractions add up to 0.9, not to 1"),
        ({"splits": {"a": "half"}}, "splits (FILE): a='half' is no fraction: write a number"),
        ({"splits": {"a": True}}, "splits (FILE): a=True is no fraction: write a number"),
        ({"splits": {}}, "splits (FILE): no split is named: write NAME=FRACTION"),
        (
            {"splits": {"a": {"load": []}}},
            "splits (FILE): a names no field or no value: write a: {field: [value]}",
        ),
        ({"splits": {"a": {}}}, "splits (FILE): a names no field or no value"),
        (
            {"splits": {"a": {"load": 3}, "b": 0.9, "c": 0.2}},
            "splits (FILE): the fractions add up to 1.1, not to 1",
        ),
        (
            {"split_by": "recording,day"},
            "split_by (FILE): recording stands alone: a recording has one value of",
        ),
        ({"duplicates": "maybe"}, "duplicates='maybe' (FILE): input should be 'off', 'warn' or 'reject'"),
        (
            {"label_from": "regex:x"},
            "label_from (FILE): 'regex:x' must begin with path: or member: and a regular expression, or file: or "
            "sidecar: and a name",
        ),
        (
            {"label_from": "file:"},
            "label_from (FILE): 'file:' must begin with path: or member: and a regular",
        ),
        ({"label_from": "member:(.)"}, "label_from (FILE): '(.)' has no group (?P<label>…)"),
        (
            {"fields_from": "member:(?P<day>.)"},
            "fields_from (FILE): 'member:(?P<day>.)' must begin with path: and a regular expression",
        ),
        ({"fields_from": "path:(.)"}, "fields_from (FILE): '(.)' has no named group such as (?P<speaker>…)"),
        ({"fields_from": "path:("}, "fields_from (FILE): '(' is no regular expression: missing )"),
        ({"target_columns": "x,y"}, "target_columns=x,y are columns of a manifest: set it"),
        (
            {"channels": "each:"},
            "channels (FILE): 'each:' picks no channel: write each, mix or stack, or channels",
        ),
        ({"channels": "left,left"}, "channels (FILE): 'left,left' names a channel twice"),
        ({"sensitivity": 0}, "sensitivity (FILE): 0 cannot be divided by"),
        ({"members": "re:("}, "members (FILE): '(' is no regular expression: missing )"),
        ({"iq": True, "raw_dtype": "<c8"}, "iq: raw_dtype=<c8 is complex already"),
        ({"input_format": "mp9"}, "input_format=mp9 is not known: use auto, "),
        ({"plugins": "no.such"}, "plugins: no.such cannot be imported: No module named 'no'"),
        ({"seed": True}, "seed=true must be a number: salt of the hashes"),
        (
            {"batch_size": 100_000, "segment_length": 100_000},
            "batch_size=100000 segments of segment_length=100000 take 37.3 GiB, and a batch may take 2: lower",
        ),
        ({"label_from": "path:("}, "label_from (FILE): '(' is no regular expression: missing )"),
        ({"label_from": "path:(.)"}, "label_from (FILE): '(.)' has no group (?P<label>…)"),
        ({"raw_dtype": "f4"}, "raw_dtype (FILE): 'f4' says no byte order: write <f4 (little) or >f4 (big)"),
        ({"scale": "half"}, "scale (FILE): 'half' is neither auto, pcm, none nor a factor such as 0.001"),
        ({"beam": {1: 2}}, "beam (FILE): keys are option names, not 1"),
        (
            {"features": "log_mell"},
            "features (FILE): there is no kind log_mell, did you mean log_mel?; there are log_spectrum, ",
        ),
        (
            {"features": {"a": {"kind": "log_spectrum", "epsilom": 1}}},
            "features.a.epsilom: no such setting (FILE)",
        ),
        ({"features": {"stft": {"frame_lenght": 64}}}, "features.stft.frame_lenght: no such setting (FILE)"),
        ({"features": {"a": {"kind": "fft"}}}, "features.a (FILE): there is no kind fft"),
        ({"features": "stft,stft"}, "features (FILE): stft,stft names a kind twice"),
        (
            {"features": "psd", "amplitude": "peak"},
            "amplitude: none of the features psd takes it: leave it out",
        ),
        ({"band": [5, 1]}, "band (FILE): 5 1 must be two frequencies in Hz, the lower one first"),
        (
            {"features": {"start": {"kind": "log_spectrum"}}},
            "features (FILE): 'start' cannot be a feature's key",
        ),
        (
            {"features": {}},
            "features: is empty, so an example would hold nothing: name a feature or set keep_wav",
        ),
        (
            {"features": {"a": {"kind": "log_spectrum"}}, "epsilon": 1},
            "epsilon: is for features that are only named; where features is a mapping, set it in there",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_setting_value_rule_and_place(config, values, message):
    path = config(values)
    assert refused(config=path).startswith(message.replace("FILE", str(path)))


def test_metadata_of_a_dataset_is_a_settings_file(tmp_path):
    first = load("--segment-length", "100", "--raw-dtype", "<f4", "--input", "data", "--epsilon", "0.5")
    path = tmp_path / "spectrabeam.json"
    path.write_text(json.dumps({"settings": stored_settings(first)}))
    again = load(config=path)
    assert content_settings(again) == content_settings(first)
    assert again.output == str(tmp_path)
    assert again.input[0].endswith("/data")
    assert again.input[0].startswith("/")
    assert load("--output", "elsewhere", "--seed", "4", config=path).output == "elsewhere"


def test_fingerprint_names_what_can_change_the_content_and_nothing_else():
    plain = fingerprint(content_settings(load()))
    other = {
        "--seed": "1",
        "--segment-length": "8",
        "--hop-length": "5",
        "--batch-size": "8",
        "--epsilon": "0.5",
        "--splits": "train=1",
        "--jit": "off",
        "--compression": "gzip",
        "--scale": "2",
        "--non-finite": "zero",
        "--keep-waveform": "int16",
        "--shard-size": "1MB",
        "--label-from": "path:(?P<label>.)",
        "--fields-from": "path:(?P<day>.)",
        "--label-names": "a,b",
        "--missing-label": "keep",
        "--manifest-rows": "labels",
        "--manifest-times": "seconds",
        "--carry": "rpm",
        "--split-by": "day",
        "--stratify": "true",
        "--duplicates": "reject",
        "--channels": "mix",
        "--resample": "true",
        "--unit": "g",
        "--sensitivity": "100",
    }
    assert len({plain, *(fingerprint(content_settings(load(*flag))) for flag in other.items())}) == 1 + len(
        other
    )
    same = [
        ("--input", "a", "--output", "b"),
        ("--manifest", "rows.csv"),
        ("--split-by", "file"),
        ("--splits", "test=0.1,train=0.8,validation=0.1"),
        ("--read-threads", "9"),
        ("--device", "cpu"),
        ("--max-reject-fraction", "1"),
        ("--verbose",),
        ("--hop-length", "16384"),
        ("--features", "log_spectrum"),
        ("--epsilon", "1e-6"),
        ("--duplicates", "warn"),
    ]
    assert {fingerprint(content_settings(load(*flags))) for flags in same} == {plain}


def test_credentials_and_options_of_the_engine_are_not_stored(config):
    settings = load(config=config({"beam": {"s3_secret_access_key": "hunter2"}}))
    assert "hunter2" not in json.dumps(stored_settings(settings))


def test_differences_are_told_with_both_values():
    old, new = content_settings(load()), content_settings(load("--seed", "3", "--tail", "drop"))
    assert differences(old, new) == ["seed: 0 in the folder, 3 now", 'tail: "pad" in the folder, "drop" now']
    assert differences(old, old) == []


def test_order_of_the_splits_counts_where_they_follow_one_another_in_time(tmp_path):
    one, other = "train=0.8,test=0.2", "test=0.2,train=0.8"
    by_time = [load("--split-by", "time", "--splits", splits) for splits in (one, other)]
    assert fingerprint(content_settings(by_time[0])) != fingerprint(content_settings(by_time[1]))
    path = tmp_path / "spectrabeam.json"
    for settings in by_time:
        path.write_text(json.dumps({"settings": stored_settings(settings)}, sort_keys=True))
        again = load(config=path)
        assert list(again.splits.items()) == list(settings.splits.items())
        assert content_settings(again) == content_settings(settings)


def test_manifest_is_stored_with_its_whole_path():
    assert stored_settings(load("--manifest", "rows.csv"))["manifest"].startswith("/")
    assert stored_settings(load())["manifest"] is None

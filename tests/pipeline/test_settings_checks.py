"""Every check of the settings and of the file they come from: setting, value, rule and place are told."""

import pytest

from spectrabeam.pipeline.settings import SettingsError
from tests.helpers.settings import load


def refused(*flags, config=None):
    with pytest.raises(SettingsError) as caught:
        load(*flags, config=config)
    return str(caught.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"segment_lenght": 5}, "segment_lenght: no such setting (FILE): did you mean segment_length?"),
        ({"xyzzy": 5}, "xyzzy: no such setting (FILE)"),
        ({5: 5}, "5: no such setting (FILE)"),
        ({"segment_length": 0}, "segment_length=0 (FILE): input should be greater than or equal to 1"),
        ({"segment_length": "long"}, "segment_length='long' (FILE): input should be a valid integer"),
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
        ({"splits": {"a": "half"}}, "splits.a='half' (FILE): input should be a valid number"),
        (
            {"label_from": "regex:x"},
            "label_from (FILE): 'regex:x' must begin with path: and a regular expression",
        ),
        ({"label_from": "path:("}, "label_from (FILE): '(' is no regular expression: missing )"),
        ({"label_from": "path:(.)"}, "label_from (FILE): '(.)' has no group (?P<label>…)"),
        ({"raw_dtype": "f4"}, "raw_dtype (FILE): 'f4' says no byte order: write <f4 (little) or >f4 (big)"),
        ({"scale": "half"}, "scale (FILE): 'half' is neither auto, pcm, none nor a factor such as 0.001"),
        ({"beam": {1: 2}}, "beam"),
        (
            {"features": "log_mell"},
            "features.log_mell.kind='log_mell' (FILE): input should be 'log_spectrum'",
        ),
        ({"features": {"a": {"epsilom": 1}}}, "features.a.epsilom: no such setting (FILE)"),
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
            "epsilon: is a flag of the default spectrum; where features is given, set it in its mapping",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_setting_value_rule_and_place(config, values, message):
    path = config(values)
    assert refused(config=path).startswith(message.replace("FILE", str(path)))


def test_a_flag_is_told_without_a_file(config):
    path = config({"segment_length": 0, "tail": "drop"})
    assert refused("--segment-length", "-3", config=path).startswith("segment_length='-3': input should be")


def test_all_problems_are_told_at_once():
    message = refused("--segment-length", "0", "--tail", "cut")
    assert "segment_length='0': " in message
    assert "; tail='cut': " in message


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("seed: 1\ntail: pad\nseed: 2\n", "is no YAML, line 3: 'seed' stands twice"),
        (
            "features:\n  a: {kind: log_spectrum}\n  a: {kind: log_spectrum}\n",
            "is no YAML, line 3: 'a' stands",
        ),
        ("splits: {train: 0.5, train: 0.5}\n", "is no YAML, line 1: 'train' stands twice"),
        ("input: [a\nseed: 1\n", "is no YAML, line 2: "),
        (
            "seed: !!python/object/apply:os.getpid []\n",
            "is no YAML, line 1: could not determine a constructor",
        ),
        ("- seed\n", "holds a list, not settings: write lines of NAME: VALUE"),
        ("seed\n", "holds a str, not settings"),
    ],
)
def test_a_file_that_holds_no_settings_is_refused(config, content, message):
    path = config(content)
    assert refused(config=path).startswith(f"config={path} {message}")


def test_a_file_that_cannot_be_read_is_refused(tmp_path):
    path = tmp_path / "missing.yaml"
    assert refused(config=path) == f"config={path} cannot be read: No such file or directory"
    path.write_bytes(b"\xff\xfeseed")
    assert refused(config=path) == f"config={path} is no text in UTF-8"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "holds no settings: it is not the metadata of a dataset"),
        ("{", "spectrabeam.json is damaged: "),
    ],
)
def test_metadata_without_settings_is_refused(config, content, message):
    path = config(content, "spectrabeam.json")
    assert message in refused(config=path)
    assert str(path) in refused(config=path)

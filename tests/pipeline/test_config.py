"""Settings from flags and YAML: which one wins, how they are written, and errors in the words of both."""

import argparse
import dataclasses

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from spectrabeam.pipeline.config import add_flags, table
from spectrabeam.pipeline.settings import Settings, fields
from spectrabeam.transforms.declare import suggest
from tests.helpers.pipelines import run
from tests.helpers.settings import load, refused
from tests.helpers.signals import noise, write_raw


def test_flags_win_over_the_file_and_the_file_over_defaults(config):
    path = config({"segment_length": 512, "batch_size": 8, "input": "data/"})
    settings = load("--batch-size", "4", config=path)
    assert (settings.segment_length, settings.batch_size, settings.seed) == (512, 4, 0)
    assert settings.input == ("data/",)
    assert load("--input", "a", "b", "--input", "c", config=path).input == ("a", "b", "c")


def test_documented_defaults():
    settings = load()
    assert (settings.segment_length, settings.hop, settings.batch_size, settings.tail) == (
        16384,
        16384,
        64,
        "pad",
    )
    assert (settings.shard_size, settings.max_reject_fraction, settings.jit) == (128 << 20, 0.05, "auto")
    assert (settings.raw_dtype, settings.sample_rate, settings.compression) == (None, None, "none")
    assert settings.splits == {"train": 0.8, "validation": 0.1, "test": 0.1}


def test_a_null_in_the_file_is_the_default(config):
    assert load(config=config("segment_length: null\n")) == load()
    assert load(config=config("")) == load()


def test_numbers_that_yaml_reads_as_text_are_numbers(config):
    features = load(config=config("features: {spectrum: {kind: log_spectrum, epsilon: 1e-6}}")).features
    assert features["spectrum"].epsilon == 1e-6


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("1000", 1000),
        ("64B", 64),
        ("2kB", 2000),
        ("1.5 MB", 1_500_000),
        ("128MiB", 128 << 20),
        ("1GiB", 1 << 30),
    ],
)
def test_sizes_are_bytes_or_have_a_unit(text, size):
    assert load("--shard-size", text).shard_size == size


def test_splits_can_be_text_or_a_mapping(config):
    expected = {"train": 0.75, "dev": 0.25}
    assert load("--splits", "train=0.75, dev=0.25").splits == expected
    assert load(config=config({"splits": expected})).splits == expected


@pytest.mark.parametrize(
    ("flags", "value"),
    [((), False), (("--overwrite",), True), (("--overwrite=true",), True), (("--overwrite=false",), False)],
)
def test_a_switch_can_be_bare_or_have_a_value(flags, value):
    assert load(*flags).overwrite is value


@pytest.mark.parametrize(
    ("flags", "value"),
    [
        ((), False),
        (("--keep-waveform",), "float32"),
        (("--keep-waveform=int16",), "int16"),
        (("--keep-waveform=true",), "float32"),
        (("--keep-waveform=false",), False),
    ],
)
def test_samples_are_kept_as_float_unless_int16_is_said(flags, value):
    assert load(*flags).keep_waveform == value


@pytest.mark.parametrize(
    "flags",
    [
        ("--segment-length", "100"),
        ("--segment_length", "100"),
        ("--segment-length=100",),
        ("--segment_length=100",),
    ],
)
def test_flags_take_dashes_or_underscores(tmp_path, flags):
    path = write_raw(tmp_path / "a.raw", noise(450))
    result = run("inspect", path, "--raw_dtype=<f4", "--sample-rate", "10", "--raw-header_bytes", "0", *flags)
    assert result.code == 0, result.err
    assert "5 a channel, of 100 samples every 100" in result.out


def subclasses(cls):
    for each in cls.__subclasses__():
        yield each
        yield from subclasses(each)


def test_no_flag_of_ours_bears_the_name_of_a_beam_option():
    beam = argparse.ArgumentParser(conflict_handler="resolve", add_help=False)
    for options in dict.fromkeys(subclasses(PipelineOptions)):
        if "_add_argparse_args" in vars(options):
            options._add_argparse_args(beam)
    theirs = {name for action in beam._actions for name in (action.dest, *action.option_strings)}
    theirs = {name.lstrip("-").replace("-", "_") for name in theirs} | set(
        PipelineOptions([]).get_all_options()
    )
    assert {"runner", "dry_run", "label", "labels"} <= theirs
    assert not theirs & ({field.name for field in dataclasses.fields(Settings)} | {"config"})


def test_every_setting_but_those_of_beam_is_a_flag_with_help():
    parser = argparse.ArgumentParser()
    add_flags(parser)
    flags = {action.dest: action for action in parser._actions if action.dest != "help"}
    assert set(flags) == {field.name for field in fields()} - {"beam"} | {"config"}
    assert all(action.help and action.metavar for action in flags.values())
    assert "(default: 16384)" in flags["segment_length"].help
    assert flags["tail"].metavar == "{pad,drop}"


def test_words_have_commas_in_a_flag_and_may_be_a_list_in_the_file(config):
    expected = ("speaker", "day")
    assert load("--split-by", "speaker, day").split_by == expected
    assert load(config=config({"split_by": ["speaker", "day"]})).split_by == expected
    assert load("--channels", "mix:0,2").channels == "mix:0,2"
    assert load(config=config({"channels": [0, 2]})).channels == "0,2"
    assert load(config=config({"channels": 1})).channels == "1"


def test_splits_by_value_come_from_the_file(config):
    given = {"test": {"load": [3, "x"], "day": "mon"}, "train": 0.9, "dev": 0.1}
    splits = load(config=config({"splits": given})).splits
    assert splits == {"test": {"load": ("3", "x"), "day": ("mon",)}, "train": 0.9, "dev": 0.1}


def test_a_name_is_suggested_only_where_one_is_close():
    assert suggest("segment_lenght", ["segment_length", "tail"]) == ": did you mean segment_length?"
    assert suggest("xyzzy", ["segment_length", "tail"]) == ""


def test_table_has_a_row_for_every_setting_with_its_default():
    rows = table().splitlines()[2:]
    assert [row.split("`")[1] for row in rows] == [field.name for field in fields()]
    (row,) = (row for row in rows if row.startswith("| `shard_size`"))
    assert row.startswith("| `shard_size` | `SIZE` | `128MiB` | bytes of one shard before compression")


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

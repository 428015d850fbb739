"""Settings: where they come from, which one wins, every check, and what names them."""

import argparse
import dataclasses
import json

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from spectrabeam.pipeline.settings import (
    Settings,
    content_settings,
    differences,
    example_specs,
    fingerprint,
    stored_settings,
)
from tests.helpers.pipelines import run
from tests.helpers.settings import load
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
    }
    assert len({plain, *(fingerprint(content_settings(load(*flag))) for flag in other.items())}) == 1 + len(
        other
    )
    same = [
        ("--input", "a", "--output", "b"),
        ("--read-threads", "9"),
        ("--device", "cpu"),
        ("--max-reject-fraction", "1"),
        ("--verbose",),
        ("--hop-length", "16384"),
        ("--features", "log_spectrum"),
        ("--epsilon", "1e-6"),
    ]
    assert {fingerprint(content_settings(load(*flags))) for flags in same} == {plain}


def test_credentials_and_options_of_the_engine_are_not_stored(config):
    settings = load(config=config({"beam": {"s3_secret_access_key": "hunter2"}}))
    assert "hunter2" not in json.dumps(stored_settings(settings))


def test_differences_are_told_with_both_values():
    old, new = content_settings(load()), content_settings(load("--seed", "3", "--tail", "drop"))
    assert differences(old, new) == ["seed: 0 in the folder, 3 now", 'tail: "pad" in the folder, "drop" now']
    assert differences(old, old) == []


def test_keys_of_an_example_follow_from_the_settings():
    plain = {"channel", "recording", "sample_rate", "spectrum", "start", "valid"}
    assert set(example_specs(load())) == plain
    more = example_specs(
        load("--label-from", "path:(?P<label>.)", "--keep-waveform=int16", "--segment-length", "9")
    )
    assert set(more) == plain | {"label", "waveform"}
    assert (more["waveform"].dtype, more["waveform"].shape, more["spectrum"].shape) == ("int16", (9,), (5,))

"""Beam's options: known ones are passed on, unknown ones refused, and the local runner is in this process."""

import argparse

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from spectrabeam.pipeline.runners import LOCAL_RUNNER, beam_options, is_in_process
from spectrabeam.pipeline.settings import SettingsError

OURS = ["--input", "--output", "--segment-length"]


def options(*flags, **mapping):
    return beam_options(list(flags), mapping, OURS).get_all_options()


def refused(*flags, **mapping):
    with pytest.raises(SettingsError) as caught:
        options(*flags, **mapping)
    return str(caught.value)


@pytest.mark.parametrize(
    "flags", [(), ("--runner=DirectRunner",), ("--runner", "FnApiRunner"), ("--runner=",)]
)
def test_the_local_runner_is_beams_in_process_one(flags):
    assert (
        options(*flags)["runner"]
        == LOCAL_RUNNER
        == "apache_beam.runners.portability.fn_api_runner.FnApiRunner"
    )


def test_the_local_runner_can_be_named_in_the_settings_file():
    assert options(runner="DirectRunner")["runner"] == LOCAL_RUNNER


@pytest.mark.parametrize("runner", ["FlinkRunner", "DataflowRunner", "PrismRunner"])
def test_other_runners_are_passed_on(runner):
    assert options(f"--runner={runner}")["runner"] == runner
    assert options(runner=runner)["runner"] == runner


def test_flags_win_over_the_settings_file():
    found = options("--runner=FlinkRunner", "--parallelism", "8", runner="DataflowRunner", parallelism=4)
    assert (found["runner"], found["parallelism"]) == ("FlinkRunner", 8)


def test_lists_and_absent_values_of_the_settings_file():
    found = options(experiments=["a", "b=1"], temp_location=None, job_name="nightly")
    assert found["experiments"] == ["a", "b=1"]
    assert (found["temp_location"], found["job_name"]) == (None, "nightly")


SWITCHES = ("streaming", "save_main_session", "use_public_ips", "pipeline_type_check")
SWITCHES += ("direct_runner_use_stacked_bundle", "no_auth", "runtime_type_check")


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("name", SWITCHES)
def test_switches_of_the_settings_file_mean_what_they_say(name, value):
    assert bool(options(**{name: value})[name]) is value


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        (
            "--runer=FlinkRunner",
            "--runer: neither Spectrabeam nor Beam has such a flag: did you mean --runner?",
        ),
        ("--inptu", "--inptu: neither Spectrabeam nor Beam has such a flag: did you mean --input?"),
        (
            "--segment-lenght=5",
            "--segment-lenght: neither Spectrabeam nor Beam has such a flag: did you mean --segment",
        ),
        ("--xyzzy", "--xyzzy: neither Spectrabeam nor Beam has such a flag"),
    ],
)
def test_an_unknown_flag_is_refused_with_a_suggestion(flag, message):
    assert refused(flag).startswith(message)
    assert refused("--runner=FlinkRunner", flag, "value").startswith(message)


@pytest.mark.parametrize("flags", [("-x",), ("--runner=DirectRunner", "-x")])
def test_an_unknown_short_flag_is_refused(flags):
    assert refused(*flags).startswith("-x: neither Spectrabeam nor Beam has such a flag")


@pytest.mark.parametrize("flags", [("stray",), ("--runner=DirectRunner", "stray")])
def test_a_value_without_a_flag_is_refused(flags):
    assert refused(*flags) == "'stray': a value without a flag; inputs are given as --input PATH …"


def test_values_of_flags_may_look_like_anything():
    assert options("--job_name", "x-y_z")["job_name"] == "x-y_z"
    assert options("--experiments", "a=--b")["experiments"] == ["a=--b"]


def test_an_unknown_key_of_the_settings_file_is_refused_with_a_suggestion():
    assert refused(paralelism=4) == "beam.paralelism: Beam has no such option: did you mean parallelism?"
    assert refused(xyzzy=4) == "beam.xyzzy: Beam has no such option"


def test_workers_are_threads_of_this_process_only_with_the_local_runner():
    assert is_in_process(beam_options([], {}, OURS))
    assert not is_in_process(beam_options(["--direct_running_mode=multi_processing"], {}, OURS))
    assert not is_in_process(beam_options(["--runner=FlinkRunner"], {}, OURS))


def test_every_switch_of_beam_can_be_set_in_the_settings_file():
    parser = argparse.ArgumentParser(conflict_handler="resolve", add_help=False)
    for cls in PipelineOptions.__subclasses__():
        if "_add_argparse_args" in vars(cls):
            cls._add_argparse_args(parser)
    names = {action.dest for action in parser._actions if action.const is True and action.nargs == 0}
    assert len(names) > 10
    for name in sorted(names & set(PipelineOptions([]).get_all_options())):
        assert options(**{name: True})[name] is True, name

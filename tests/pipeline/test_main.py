"""The command line: exit codes, errors in one line, help, and what is not imported before it is needed."""

import subprocess
import sys

import numpy as np
import pytest

from spectrabeam.pipeline import sample
from spectrabeam.pipeline.__main__ import main
from tests.helpers.pipelines import RAW, extract, run
from tests.helpers.signals import noise, write_raw, write_recordings

VERBS = ["extract", "plan", "inspect", "verify", "sample"]


def failed(code, *arguments):
    """Runs what must fail, and returns the error's one line."""
    result = run(*arguments)
    assert result.code == code, (result.code, result.err, result.out)
    prefix, rest = result.err.split("spectrabeam: error: ")
    assert (prefix, rest.count("\n"), rest[-1]) == ("", 1, "\n")
    return rest[:-1]


@pytest.fixture
def source(tmp_path):
    write_recordings(tmp_path / "in", 3)
    return tmp_path / "in"


def test_success_is_0(source, tmp_path):
    assert extract(source, tmp_path / "out").code == 0
    again = extract(source, tmp_path / "out")
    assert again.out.startswith(f"nothing to do: {tmp_path / 'out'} holds these 3 segments already")
    assert run("verify", tmp_path / "out").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "the following arguments are required: VERB: see spectrabeam --help"),
        (("extrakt",), "argument VERB: invalid choice: 'extrakt'"),
        (("extract",), "input is not set: name folders, files or globs, such as --input recordings/"),
        (("plan",), "input is not set: name folders, files or globs"),
        (
            ("extract", "--input", "IN"),
            "output is not set: name the dataset's folder, such as --output features/",
        ),
        (
            ("extract", "--input"),
            "argument --input: expected at least one argument: see spectrabeam extract --help",
        ),
        (("extract", "--input", "IN", "--output", "OUT", "--tail", "cut"), "tail='cut': input should be"),
        (("extract", "--input", "IN", "--output", "OUT", "--segment_lenght=5"), "--segment_lenght: neither"),
        (
            ("extract", "--input", "IN", "--output", "OUT", "--config", "no.yaml"),
            "config=no.yaml cannot be read: ",
        ),
        (("extract", "--input", "IN/none", "--output", "OUT", *RAW), "input=IN/none does not exist"),
        (
            ("extract", "--input", "IN", "--output", "OUT"),
            "raw_dtype is not set, and headerless files do not say it",
        ),
        (("extract", "--input", "IN", "--output", "IN", *RAW), "output=IN holds other files (a "),
        (
            ("extract", "--input", "IN", "--output", "IN/a/r000.raw", *RAW),
            "output=IN/a/r000.raw is a file: name a",
        ),
        (("verify",), "the following arguments are required: DATASET: see spectrabeam verify --help"),
        (("verify", "IN"), "IN is not a dataset: it has no spectrabeam.json"),
        (("verify", "IN", "--fast"), "--fast: verify takes no such argument: see spectrabeam verify --help"),
        (("inspect", "IN/none"), "IN/none does not exist"),
        (("inspect", "IN", "IN"), "IN: inspect takes no such argument: see spectrabeam inspect --help"),
        (("sample", "--output", "OUT", "--count", "0"), "count=0 must be 1 or more"),
        (("sample", "--output", "OUT", "--count", "x"), "argument --count: invalid int value: 'x'"),
    ],
)
def test_wrong_arguments_settings_inputs_and_folders_are_2(source, tmp_path, arguments, message):
    def filled(text):
        return text.replace("IN", str(source)).replace("OUT", str(tmp_path / "out"))

    assert failed(2, *map(filled, arguments)).startswith(filled(message))
    assert not (tmp_path / "out").exists()


def test_other_settings_into_a_dataset_are_2_and_told_by_name(source, tmp_path):
    extract(source, tmp_path / "out")
    again = ("extract", "--input", source, "--output", tmp_path / "out", *RAW)
    message = failed(2, *again, "--seed", "1", "--epsilon", "0.5")
    assert "was made with other settings (" in message
    assert "seed: 0 in the folder, 1 now" in message
    assert '"epsilon": 0.5' in message


def test_too_many_rejects_are_3_and_a_higher_fraction_is_enough(tmp_path):
    write_recordings(tmp_path / "in", 3)
    write_raw(tmp_path / "in" / "bad.raw", noise(9), header=b"1")
    arguments = ("extract", "--input", tmp_path / "in", "--output", tmp_path / "out", *RAW)
    message = failed(3, *arguments)
    assert message.startswith(
        "1 of 4 recordings and 0 of 3 segments were rejected, most often partial_frame (bad.raw: 37 bytes less"
    )
    assert "that is 25.0%, and max_reject_fraction=0.05: see " in message
    assert not (tmp_path / "out" / "spectrabeam.json").exists()
    assert (tmp_path / "out" / "rejects.jsonl").exists()
    assert run(*arguments, "--max-reject-fraction", "0.25").code == 0


@pytest.mark.parametrize("stage", ["plan", "read"])
def test_no_example_at_all_is_3_whatever_is_allowed(tmp_path, stage):
    if stage == "plan":
        write_raw(tmp_path / "in" / "a.raw", noise(9), header=b"1")
    else:
        write_raw(tmp_path / "in" / "a.raw", np.full(256, np.nan))
    arguments = ("extract", "--input", tmp_path / "in", "--output", tmp_path / "out", *RAW)
    message = failed(3, *arguments, "--max-reject-fraction", "1")
    code = {"plan": "partial_frame", "read": "non_finite"}[stage]
    assert message.startswith(f"no example came out of 1 recordings, most often {code} (a.raw: ")
    assert message.endswith("rejects.jsonl")
    assert not (tmp_path / "out" / "spectrabeam.json").exists()


def test_problems_that_verify_finds_are_1(dataset):
    next(dataset.glob("spectrabeam-*.tfrecord")).unlink()
    result = run("verify", dataset)
    assert (result.code, result.err) == (1, "")
    assert "cannot be read: No such file or directory" in result.out


def broken(*_):
    raise OSError("the disk\nis on fire")


def test_anything_else_is_1_and_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(sample, "write_sample", broken)
    assert failed(1, "sample", "--output", tmp_path / "out") == "OSError: the disk is on fire"


def test_traceback_comes_only_with_verbose(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(sample, "write_sample", broken)
    failed(1, "sample", "--output", tmp_path / "out")
    assert "Traceback" not in caplog.text
    failed(1, "sample", "--output", tmp_path / "out", "--verbose")
    assert "Traceback" in caplog.text
    assert "in broken" in caplog.text


def test_an_interrupt_is_told_in_a_line(tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(sample, "write_sample", interrupted)
    message = failed(1, "sample", "--output", tmp_path / "out")
    assert message == "interrupted"


@pytest.mark.parametrize("verb", VERBS)
def test_each_verb_has_help(verb, capsys):
    with pytest.raises(SystemExit) as caught:
        main([verb, "--help"])
    assert caught.value.code == 0
    told = capsys.readouterr()
    assert told.out.startswith(f"usage: spectrabeam {verb} ")
    assert told.err == ""


def python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


def test_help_of_the_program_names_every_verb_and_loads_nothing_heavy():
    done = python(
        "import sys\n"
        "from spectrabeam.pipeline.__main__ import main\n"
        "for arguments in (['--help'], ['extract', '--help'], ['--version']):\n"
        "    try:\n"
        "        main(arguments)\n"
        "    except SystemExit as end:\n"
        "        assert end.code == 0, end\n"
        "print('loaded', {'tensorflow', 'apache_beam', 'tfx_bsl'} & set(sys.modules))\n"
    )
    assert all(verb in done.stdout for verb in VERBS)
    assert "--segment-length" in done.stdout
    assert done.stdout.endswith("loaded set()\n")
    assert done.stderr == ""


LIGHT = [
    "ahead",
    "batch",
    "dataset",
    "elements",
    "encode",
    "frontend",
    "parts",
    "rejects",
    "schema",
    "segment",
]
LIGHT += ["settings", "write", "formats.choose", "device", "compute"]


def test_modules_that_a_trainer_may_use_load_neither_tensorflow_nor_beam():
    done = python(
        "import importlib, sys\n"
        f"for name in {LIGHT}:\n"
        "    importlib.import_module('spectrabeam.transforms.' + name)\n"
        "import spectrabeam.pipeline.settings, spectrabeam.pipeline.match, spectrabeam.pipeline.plan\n"
        "print({'tensorflow', 'apache_beam', 'tfx_bsl'} & set(sys.modules))\n"
    )
    assert done.stdout == "set()\n"


def test_the_package_can_be_run_as_a_module():
    done = subprocess.run(
        [sys.executable, "-m", "spectrabeam.pipeline", "verify", "/not/there"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "spectrabeam: error: /not/there is not a dataset: there is no such folder\n"

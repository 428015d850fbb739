"""The process that submits a run: no TensorFlow in it, and what is missing is said before the first file."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import textwrap

import google_crc32c
import pytest

from tests.helpers.pipelines import RAW, metadata, run
from tests.helpers.processes import LIMIT_S, extract_arguments, run_fresh
from tests.helpers.signals import write_recordings

NO_GPU = {"CUDA_VISIBLE_DEVICES": ""}


def loads_tensorflow(code: str, *arguments: object) -> bool:
    """Whether the code does, in a fresh interpreter."""
    code = "import sys\n" + textwrap.dedent(code) + "\nprint('tensorflow' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, *(str(each) for each in arguments)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
    )
    return done.stdout.splitlines()[-1] == "True"


@pytest.mark.parametrize(
    "names",
    [
        ["spectrabeam.pipeline.__main__"],
        ["spectrabeam.pipeline." + name for name in ("build", "extract", "plan", "finalize", "verify")],
        ["spectrabeam.transforms." + name for name in ("shard", "compute", "frontend", "encode", "write")],
    ],
    ids=["command line", "pipeline", "transforms"],
)
def test_importing_does_not_load_tensorflow(names):
    """B02."""
    assert not loads_tensorflow(f"import {', '.join(names)}")


def test_a_pipeline_is_planned_and_built_without_tensorflow(tmp_path):
    """B02: matching, planning, the files of the plan, and everything that is sent to a runner."""
    write_recordings(tmp_path / "source", 8)
    code = """
        import apache_beam as beam
        from spectrabeam.pipeline import folder
        from spectrabeam.pipeline.build import build
        from spectrabeam.pipeline.match import match
        from spectrabeam.pipeline.plan import make_plan
        from spectrabeam.pipeline.runners import beam_options
        from spectrabeam.pipeline.settings import Settings
        from spectrabeam.transforms.dataset import Layout

        source, output = sys.argv[1:]
        settings = Settings(raw_dtype="<f4", sample_rate=1000, segment_length=256)
        layout = Layout(output)
        with folder.claim(layout):
            plan = make_plan(match((source,), settings, output), settings)
            work = folder.prepare(layout, plan, settings)
        assert len(work.todo) > 1
        pipeline = beam.Pipeline(options=beam_options([], {}, []))
        build(pipeline, layout, plan, work.todo, settings)
        pipeline.to_runner_api().SerializeToString()
    """
    assert not loads_tensorflow(code, tmp_path / "source", tmp_path / "out")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["extract", "--help"],
        ["plan", "--help"],
        ["verify", "/nowhere"],
        ["extract", "--input", "/nowhere", "--output", "/nowhere"],
        ["extract", "--segment-length", "0"],
    ],
    ids=" ".join,
)
def test_help_and_wrong_arguments_do_not_load_tensorflow(tmp_path, arguments):
    """B02."""
    result = run_fresh(tmp_path, *arguments)
    assert result.code == (0 if "--help" in arguments else 2)
    assert not result.tensorflow
    assert (result.out if "--help" in arguments else result.err) != ""


@pytest.mark.slow
def test_a_gpu_that_is_asked_for_and_missing_fails_before_the_first_file(tmp_path):
    """B04: with what to do, and without a dataset or a shard."""
    write_recordings(tmp_path / "source", 8)
    arguments = extract_arguments(tmp_path / "source", tmp_path / "out", "--device", "gpu")
    result = run_fresh(tmp_path, *arguments, **NO_GPU)
    assert result.code == 1
    assert "device=gpu, but TensorFlow sees no GPU here" in result.err
    assert "CUDA_VISIBLE_DEVICES" in result.err
    assert [line for line in result.err.splitlines() if "error" in line.lower()] == result.err.splitlines()
    assert result.tensorflow
    assert not [name for name in result.opened if ".raw'" in name]
    assert not (tmp_path / "out" / "spectrabeam.json").exists()
    assert not list((tmp_path / "out").glob("*.tfrecord"))


@pytest.mark.slow
def test_the_device_that_was_used_is_recorded(tmp_path):
    """B04: a run without a GPU says so, and opens its files."""
    write_recordings(tmp_path / "source", 4)
    arguments = extract_arguments(tmp_path / "source", tmp_path / "out", "--device", "auto")
    result = run_fresh(tmp_path, *arguments, **NO_GPU)
    assert result.code == 0, result.err
    assert [each["device"] for each in metadata(tmp_path / "out")["computed_by"]] == ["CPU"]
    assert len([name for name in result.opened if ".raw'" in name]) == 4


@pytest.mark.parametrize("verb", ["verify", "inspect"])
def test_verbs_that_only_read_need_no_gpu(tmp_path, verb):
    """B04: the kind of fault at the other verbs: a dataset made elsewhere can be looked at here."""
    write_recordings(tmp_path / "source", 4)
    assert run("extract", "--input", tmp_path / "source", "--output", tmp_path / "out", *RAW).code == 0
    assert run(verb, tmp_path / "out").code == 0


def test_checksums_are_computed_in_c():
    """B21: in Python they would take longer than everything else."""
    assert google_crc32c.implementation == "c"


def test_what_computes_checksums_is_a_declared_requirement():
    """B21: Beam does not ask for it."""
    required = importlib.metadata.requires("spectrabeam") or []
    assert [line for line in required if line.startswith("google-crc32c") and "extra" not in line]


def test_without_a_checksum_module_the_program_fails_before_a_file_is_opened(tmp_path):
    """B21: and names it."""
    write_recordings(tmp_path / "source", 4)
    result = run_fresh(
        tmp_path,
        *extract_arguments(tmp_path / "source", tmp_path / "out"),
        first="sys.modules['google_crc32c'] = None",
    )
    assert result.code != 0
    assert "google_crc32c" in result.err
    assert not (tmp_path / "out").exists()

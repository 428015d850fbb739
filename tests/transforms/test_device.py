"""TensorFlow set up: quiet, the right device, memory growth. What decides once per process runs in its own."""

import os
import subprocess
import sys

import pytest
import tensorflow as tf

from spectrabeam.transforms import device

COMPUTE = """
import numpy as np
from spectrabeam.transforms.compute import CompiledFrontend
from spectrabeam.transforms.frontend import FrontendSettings
frontend = CompiledFrontend(FrontendSettings(batch_size=2, jit={jit!r}, device={device!r}), 64, 1000.0)
assert np.isfinite(frontend(np.ones((2, 64), np.float32)).row_sums).all()
import tensorflow as tf
print(frontend.computed_by["device"], frontend.computed_by["xla"], tf.config.threading.get_intra_op_parallelism_threads())
"""


def python(code, **environment):
    """Runs code in a fresh interpreter without TensorFlow's own switches."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
    return subprocess.run(
        [sys.executable, "-c", code], env=inherited | environment, capture_output=True, text=True, check=False
    )


def test_importing_and_computing_says_nothing_on_stderr():
    done = python(COMPUTE.format(jit="on", device="cpu"))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "CPU True 1\n"  # one thread a graph: batches run side by side


def test_a_gpu_that_is_asked_for_but_not_there_is_an_error():
    done = python(COMPUTE.format(jit="off", device="gpu"), CUDA_VISIBLE_DEVICES="-1")
    assert done.returncode == 1
    message = (
        "RuntimeError: device=gpu, but TensorFlow sees no GPU here: check the driver and CUDA_VISIBLE_DEVICES"
    )
    assert done.stderr.splitlines()[-1].startswith(message)


@pytest.fixture
def machine(monkeypatch):
    """A machine with the GPUs that are put into the list; also the calls that were made."""
    gpus, calls = [], []
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: list(gpus))
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda *what: calls.append(("visible", *what)))
    monkeypatch.setattr(
        tf.config.experimental, "set_memory_growth", lambda gpu, on: calls.append(("growth", gpu, on))
    )
    monkeypatch.setattr(
        tf.config.threading,
        "set_intra_op_parallelism_threads",
        lambda number: calls.append(("threads", number)),
    )
    return gpus, calls


@pytest.mark.parametrize("choice", ["auto", "gpu"])
def test_memory_of_every_visible_gpu_grows_as_needed(machine, choice):
    gpus, calls = machine
    gpus += ["one", "two"]
    assert device.set_up.__wrapped__(choice) == "/GPU:0"
    assert calls == [("growth", "one", True), ("growth", "two", True)]


@pytest.mark.parametrize(("choice", "present"), [("auto", []), ("cpu", ["one"])])
def test_without_a_gpu_or_by_choice_the_cpu_computes_and_no_gpu_is_touched(machine, choice, present):
    gpus, calls = machine
    gpus += present
    assert device.set_up.__wrapped__(choice) == "/CPU:0"
    assert calls == [("visible", [], "GPU"), ("threads", 1)]


def test_settings_of_a_process_that_runs_tensorflow_already_stay(machine, monkeypatch, caplog):
    def running(*_):
        raise RuntimeError("devices cannot be modified after being initialized")

    monkeypatch.setattr(tf.config, "set_visible_devices", running)
    with caplog.at_level("INFO"):
        assert device.set_up.__wrapped__("cpu") == "/CPU:0"
    assert "TensorFlow is already initialised" in caplog.text


def test_stderr_is_dropped_meanwhile_and_is_back_afterwards(capfd):
    def chatter_and_fail():
        with device.quiet_stderr():
            os.write(2, b"chatter of native code\n")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        chatter_and_fail()
    os.write(2, b"heard again\n")
    assert capfd.readouterr().err == "heard again\n"

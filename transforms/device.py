"""TensorFlow, set up once per process: quiet, with the chosen device, memory growth and threads."""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any, Literal

from .imports import uncollected

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def quiet_stderr() -> Iterator[None]:
    """Drops what native code writes to stderr meanwhile, before it can be told to be quiet."""
    try:
        saved = os.dup(2)
    except OSError:  # no stderr at all
        yield
        return
    try:
        sys.stderr.flush()
        with open(os.devnull, "wb") as nothing:
            os.dup2(nothing.fileno(), 2)
        yield
    finally:
        sys.stderr.flush()
        os.dup2(saved, 2)
        os.close(saved)


@functools.cache
def load_tensorflow() -> Any:
    """Imports TensorFlow without its start-up chatter; errors stay visible."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    with quiet_stderr(), uncollected():
        import tensorflow as tf

        tf.get_logger().setLevel(logging.ERROR)
    return tf


@functools.cache
def set_up(device: Literal["auto", "cpu", "gpu"]) -> str:
    """Chooses this process's device; the first call decides.

    Every GPU that is visible grows its memory as needed, so that other processes get theirs. On a CPU each
    graph runs on the thread that calls it: the batches of a shard run side by side instead, which keeps
    all cores busy without the cost of splitting one batch.

    Returns:
      the TensorFlow device name, such as "/GPU:0".

    Raises:
      RuntimeError: device is gpu and TensorFlow sees none.
    """
    tf = load_tensorflow()
    with quiet_stderr():
        gpus = [] if device == "cpu" else tf.config.list_physical_devices("GPU")
        try:
            if gpus:
                for gpu in gpus:
                    tf.config.experimental.set_memory_growth(gpu, True)
            else:
                tf.config.set_visible_devices([], "GPU")
                tf.config.threading.set_intra_op_parallelism_threads(1)
        except RuntimeError:  # TensorFlow is running already in this process, with its owner's settings
            logger.info("TensorFlow is already initialised: its thread and memory settings stay as they are")
        tf.constant(0)  # the devices are made at the first operation, with more chatter
    if gpus:
        return "/GPU:0"
    if device == "gpu":
        raise RuntimeError(
            "device=gpu, but TensorFlow sees no GPU here: check the driver and CUDA_VISIBLE_DEVICES, or set device=auto"
        )
    if device == "auto":
        logger.info("no GPU found: computing on the CPU")
    return "/CPU:0"

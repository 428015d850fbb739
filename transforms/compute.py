"""The frontend of a worker process: loaded once, compiled once, called with fixed batches."""

from __future__ import annotations

import dataclasses
import logging
import os
import platform
from collections.abc import Mapping
from typing import Any

import numpy as np

from . import device, frontend
from .buffers import is_aligned
from .frontend import FrontendSettings
from .normalization import Normalization
from .statistics import Statistics, counted_rows

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Computed:
    """What the frontend makes of a batch.

    Attributes:
      features: key to float32 [batch_size, …], read-only.
      row_sums: float32 [batch_size], all samples and feature values of a row added up: not finite where any
        of them is not, or where the sum itself overflows.
    """

    features: dict[str, np.ndarray]
    row_sums: np.ndarray


class CompiledFrontend:
    """One concrete function for batches of exactly [batch_size, segment_length].

    Thread-safe: several threads may call it at once, and on a CPU that is how all cores are used.

    Attributes:
      computed_by: device, whether XLA ran, and the versions that decide the last bits.
      dtype: of the waveforms: float32, or complex64.
      threads: how many callers at once keep the device busy.
      silent_sum: the row sum of digital silence.
      traces: how often the graph was traced; 1 for the whole life of the process.
    """

    def __init__(
        self,
        settings: FrontendSettings,
        segment_length: int,
        sample_rate: float,
        *,
        is_complex: bool = False,
        normalization: Normalization | None = None,
    ):
        """Builds and compiles the graph.

        Args:
          settings: features, precision, batch size, XLA, device.
          segment_length: samples of a row.
          sample_rate: Hz.
          is_complex: whether samples are complex.
          normalization: key to the statistics by which a feature is normalised; nothing is by default.

        Raises:
          ValueError: features that do not go with length and rate.
        """
        tf = device.load_tensorflow()
        self._features = frontend.features_of(
            settings, segment_length, sample_rate, is_complex=is_complex, normalization=normalization
        )
        self.dtype: Any = np.complex64 if is_complex else np.float32
        self._precision = settings.precision
        self._shape = (settings.batch_size, segment_length)
        self._device = device.set_up(settings.device)
        self.threads = len(os.sched_getaffinity(0)) if self._device == "/CPU:0" else 2
        self.traces = 0
        jit = settings.jit != "off" and bool(self._features)
        with device.quiet_stderr():  # XLA announces itself
            self._run = self._compile(jit)
            against = self._against_xla() if settings.jit == "auto" and jit else None
            if against is not None:
                jit = False
                self._run = self._compile(jit)
        if against is not None:  # told outside, where it is heard
            logger.warning("%s: jit=auto goes on without it", against)
        self.silent_sum = self(np.zeros(self._shape, self.dtype)).row_sums[0]
        self.computed_by = {
            "device": self._device.strip("/").split(":")[0],
            "xla": jit,
            "tensorflow": tf.__version__,
            "machine": platform.machine(),
        }

    def __call__(self, waveform: np.ndarray, valid: np.ndarray | None = None) -> Computed:
        """Runs the graph.

        Args:
          waveform: float32, or complex64 of complex samples, [batch_size, segment_length], not needed afterwards.
          valid: int64 [batch_size], real samples of each row; all of them if not given.
        """
        assert waveform.shape == self._shape
        assert waveform.dtype == self.dtype
        tf = device.load_tensorflow()
        with tf.device(self._device):
            # Without a copy where the memory suits TensorFlow: it is read only during this call.
            aligned = is_aligned(waveform)
            tensor = (
                tf.experimental.dlpack.from_dlpack(waveform.__dlpack__())
                if aligned
                else tf.constant(waveform)
            )
            if valid is None:
                valid = np.full(self._shape[:1], self._shape[1], np.int64)
            features, row_sums = self._run(tensor, tf.constant(valid))
        if self._device != "/CPU:0":
            features = {key: value.cpu() for key, value in features.items()}
        arrays = {key: np.asarray(memoryview(value)) for key, value in features.items()}
        return Computed(arrays, row_sums.numpy())

    def statistics(
        self, features: Mapping[str, np.ndarray], mask: np.ndarray, valid: np.ndarray
    ) -> dict[str, Statistics]:
        """Those of the rows of a batch that count, by key.

        Args:
          features: key to float32 [rows, …].
          mask: bool [rows or fewer], which became examples; further rows are filling.
          valid: int64 [rows], real samples.
        """
        found = {}
        for key, values in features.items():
            step = self._features[key].frame_step
            found[key] = Statistics(values.shape[-1])
            found[key].update(counted_rows(values[: len(mask)], mask, valid[: len(mask)], step))
        return found

    def _compile(self, jit: bool) -> Any:
        tf = device.load_tensorflow()
        self.traces = 0

        def graph(waveform: Any, valid: Any) -> tuple[dict[str, Any], Any]:
            self.traces += 1  # runs while tracing only
            features = frontend.compute_features(self._features, waveform, valid, self._precision)
            features = {key: tf.cast(values, tf.float32) for key, values in features.items()}
            row_sums = tf.reduce_sum(waveform, axis=1)
            if waveform.dtype.is_complex:
                row_sums = tf.math.real(row_sums) + tf.math.imag(row_sums)
            for values in features.values():
                row_sums += tf.reduce_sum(values, axis=list(range(1, len(values.shape))))
            return features, row_sums

        signature = [
            tf.TensorSpec(self._shape, self.dtype, name="waveform"),
            tf.TensorSpec(self._shape[:1], tf.int64, name="valid"),
        ]
        with tf.device(self._device):
            return tf.function(
                graph, input_signature=signature, jit_compile=jit, autograph=False
            ).get_concrete_function()

    def _against_xla(self) -> str | None:
        """What speaks against XLA: that it cannot compile the graph here, or gives other values than plain TensorFlow.

        These are compared for noise, a sine in it, and silence.
        """
        tf = device.load_tensorflow()
        rows, length = self._shape
        noise = np.random.default_rng(0)
        probe = noise.standard_normal(self._shape, np.float32).astype(self.dtype)
        if self.dtype == np.complex64:
            probe += 1j * noise.standard_normal(self._shape, np.float32)
        probe[0] = 0
        probe[rows // 2] += 100 * np.sin(np.arange(length) * (0.1 * np.pi))
        try:
            compiled = self(probe).features
        except tf.errors.OpError as error:
            return f"XLA cannot compile the frontend here ({error.message.splitlines()[0]})"
        with tf.device(self._device):
            values = frontend.compute_features(self._features, tf.constant(probe), None, self._precision)
        for key, feature in self._features.items():
            plain = feature.linear(values[key].numpy().astype(np.float32)).reshape(rows, -1)
            differs = np.abs(feature.linear(compiled[key]).reshape(rows, -1) - plain)
            largest = np.maximum(
                np.abs(plain).max(axis=1, keepdims=True), np.abs(probe).max(axis=1, keepdims=True)
            )
            first = 0 if feature.compares_silence else 1  # row 0 is silent
            if not (differs <= feature.jit_tolerance * largest)[first:].all():
                return f"XLA's values differ from plain TensorFlow's on this machine ({key})"
        return None

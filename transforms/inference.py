"""The frontend for anyone's Beam pipeline: a model handler for RunInference, and a transform of waveforms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pydantic
from apache_beam.ml.inference.base import ModelHandler, PredictionResult, RunInference

from .compute import CompiledFrontend
from .declare import problems_of
from .frontend import FrontendSettings


class SpectralModelHandler(ModelHandler[np.ndarray, PredictionResult, CompiledFrontend]):
    """Runs the frontend of the pipeline on waveforms of one length in `RunInference`.

    Each batch is filled up to `batch_size` with rows of zeros that are taken off again, so the graph is traced once.

    Args:
      segment_length: samples of a waveform; shorter ones are padded with zeros at the end, longer ones refused.
      sample_rate: Hz.
      is_complex: whether samples are complex.
      **settings: those of `FrontendSettings`, such as features, batch_size, precision, jit, device.
    """

    def __init__(self, segment_length: int, sample_rate: float, *, is_complex: bool = False, **settings: Any):
        try:
            self._settings = FrontendSettings(**settings)
        except pydantic.ValidationError as error:
            raise ValueError(problems_of(error)) from None
        self._length, self._rate, self._is_complex = segment_length, sample_rate, is_complex

    def load_model(self) -> CompiledFrontend:
        """Compiles the frontend, once per worker process."""
        return CompiledFrontend(self._settings, self._length, self._rate, is_complex=self._is_complex)

    def run_inference(
        self,
        batch: Sequence[np.ndarray],
        model: CompiledFrontend,
        inference_args: Mapping[str, Any] | None = None,
    ) -> Iterator[PredictionResult]:
        """The waveforms, float or complex [samples] each, with {key: float32 […]}. NaN in one is NaN in its features.

        Raises:
          ValueError: a waveform is no vector, empty, longer than a segment, or complex where real ones are asked for.
        """
        del inference_args
        size = self._settings.batch_size
        for first in range(0, len(batch), size):
            some = batch[first : first + size]
            rows, valid = np.zeros((size, self._length), model.dtype), np.zeros(size, np.int64)
            for row, waveform in enumerate(some):
                samples = np.asarray(waveform)
                if samples.ndim != 1 or not 0 < len(samples) <= self._length:
                    raise ValueError(
                        f"a waveform of shape {samples.shape} must be a vector of at least one and at most "
                        f"segment_length={self._length} samples: cut it into segments"
                    )
                if samples.dtype.kind not in "biufc":
                    raise ValueError(f"a waveform is {samples.dtype}, and must be of numbers")
                if samples.dtype.kind == "c" and rows.dtype.kind != "c":
                    raise ValueError(f"a waveform is {samples.dtype}: set is_complex, or give real ones")
                rows[row, : len(samples)], valid[row] = samples, len(samples)
            features = model(rows, valid).features
            for row, waveform in enumerate(some):
                yield PredictionResult(waveform, {key: values[row] for key, values in features.items()})

    def batch_elements_kwargs(self) -> dict[str, Any]:
        """Batches of `batch_size`, where there are that many."""
        return {"min_batch_size": 1, "max_batch_size": self._settings.batch_size}

    def get_metrics_namespace(self) -> str:
        """Of Beam's metrics."""
        return "spectrabeam"

    def validate_inference_args(self, inference_args: Mapping[str, Any] | None) -> None:
        """There are none."""
        if inference_args:
            raise ValueError(f"there are no inference arguments, and {sorted(inference_args)} were given")


class ComputeFeatures(beam.PTransform):
    """Waveforms, float [samples] each, to {key: float32 […]}, in no order; see `SpectralModelHandler`."""

    def __init__(self, segment_length: int, sample_rate: float, *, is_complex: bool = False, **settings: Any):
        super().__init__()
        self._handler = SpectralModelHandler(segment_length, sample_rate, is_complex=is_complex, **settings)

    def expand(self, input_or_inputs: Any) -> Any:
        """Batches, computes, and takes the features out."""
        return (
            input_or_inputs
            | "Compute" >> RunInference(self._handler)
            | "Features" >> beam.Map(lambda result: result.inference)
        )

"""Real or complex samples: a dataset has one of both."""

from __future__ import annotations

from ..transforms.rejects import Reason, RejectError
from .recording import Recording


def with_real_samples(recording: Recording) -> Recording:
    """The step that leaves out recordings of complex samples, where others have real ones."""
    if recording.description.is_complex:
        raise RejectError(
            Reason.COMPLEX_SAMPLES,
            f"samples are complex ({recording.description.dtype}), and other recordings have real ones: make a "
            "dataset of their own of the complex ones, or store the magnitude, or both parts as channels",
        )
    return recording

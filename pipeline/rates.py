"""The dataset's one sample rate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from ..transforms.rejects import Reason, RejectError
from ..transforms.resample import LARGEST_RATIO
from .recording import Recording, Step
from .settings import Settings, SettingsError


def choose_rate(recordings: Sequence[Recording], settings: Settings) -> float:
    """The rate in Hz: the one that is asked for, else the only one that there is; 0 without recordings.

    Raises:
      SettingsError: there are several, or none, and none was asked for.
    """
    if settings.sample_rate is not None:
        return settings.sample_rate
    rates = Counter(recording.sample_rate for recording in recordings)
    if rates[None]:
        first = next(recording for recording in recordings if recording.sample_rate is None)
        raise SettingsError(
            f"sample_rate is not set, and {first.found.show} does not say it: give it in Hz, such as "
            "--sample-rate 25600, by rate_key where the file has it under some name, in a manifest, or in a sidecar"
        )
    if len(rates := {rate: count for rate, count in rates.items() if count}) > 1:
        table = ", ".join(
            f"{rate:.12g} Hz: {count}" for rate, count in sorted((r or 0.0, c) for r, c in rates.items())
        )
        raise SettingsError(
            f"the recordings have several sample rates ({table}), and a dataset has one: "
            "set sample_rate to the one to use, and resample to bring the others to it"
        )
    return next(iter(rates), None) or 0.0


def with_rate(rate: float, settings: Settings) -> Step:
    """The step that keeps the recordings that have the rate or are resampled to it."""

    def step(recording: Recording) -> Recording:
        own = recording.sample_rate or rate
        if own == rate or (settings.resample and 1 / LARGEST_RATIO <= own / rate <= LARGEST_RATIO):
            return recording
        cure = "set resample, or sample_rate"
        if settings.resample:
            cure = f"rates may differ by a factor of {LARGEST_RATIO}; state the right one in a manifest"
        raise RejectError(
            Reason.RATE_MISMATCH,
            f"sample_rate={own:.12g} Hz, and {rate:.12g} Hz is expected: {cure}",
        )

    return step

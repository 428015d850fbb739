"""Which channels of each recording its examples are made of."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from statistics import multimode

from ..transforms.channels import channel_lists, parse_channels
from ..transforms.rejects import Reason, RejectError
from .recording import Recording, Step
from .settings import Settings, SettingsError


def with_channels(settings: Settings) -> Step:
    """The step that finds the channel lists of a recording; one that lacks a channel is rejected."""
    choice = parse_channels(settings.channels)

    def step(recording: Recording) -> Recording:
        own, said = choice, recording.said
        if said.channel is not None:
            own = dataclasses.replace(choice, picked=(said.channel,))
        lists = tuple(channel_lists(recording.description, own))
        count, channels = len(said.factors), recording.description.channels
        if count > 1 and count != channels:
            raise RejectError(
                Reason.CHANNEL_MISMATCH,
                f"{count} sensitivities are given for its {channels} channels: give one each",
            )
        return dataclasses.replace(recording, channels=lists)

    return step


def stacked_channels(recordings: Iterable[Recording], settings: Settings) -> int | None:
    """Channels of one example where they are stacked: those of most recordings; None where they are not."""
    if parse_channels(settings.channels).mode != "stack":
        return None
    return min(multimode(len(recording.channels[0]) for recording in recordings), default=1)


def with_as_many_channels(stacked: int | None, settings: Settings) -> Step:
    """The step that rejects a recording that would make an example of another number of stacked channels.

    Raises:
      SettingsError: a batch cannot hold them.
    """
    if stacked is not None and stacked > settings.batch_size:
        raise SettingsError(
            f"batch_size={settings.batch_size} must hold the {stacked} channels that are stacked: raise it"
        )

    def step(recording: Recording) -> Recording:
        count = len(recording.channels[0])
        if stacked is None or count == stacked:
            return recording
        raise RejectError(
            Reason.CHANNEL_MISMATCH,
            f"{count} channels, and {stacked} are stacked as in most recordings: pick them, such as channels=stack:0,1",
        )

    return step

"""Which channels of a recording become examples, and how."""

from __future__ import annotations

import dataclasses
from typing import Literal, cast

import pydantic

from .declare import setting, settings_group
from .elements import Description
from .rejects import Reason, RejectError

Mode = Literal["each", "mix", "stack"]
_MODES = ("each", "mix", "stack")


@settings_group
class ChannelSettings:
    """Which channels are used, and how."""

    channels: str = setting(
        "each",
        "each: an example a channel; mix: their average; stack: all in one example; and which, by number from 0 or "
        "by name: 0,2 or mix:left,right",
        metavar="each|mix|stack[:CHANNEL,…]",
    )

    @pydantic.field_validator("channels", mode="before")
    @classmethod
    def _as_text(cls, value: object) -> object:
        if isinstance(value, (list, tuple)):
            return ",".join(str(each) for each in value)
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @pydantic.field_validator("channels")
    @classmethod
    def _check(cls, value: str) -> str:
        choice = parse_channels(value)
        if len(set(choice.picked)) < len(choice.picked):
            raise ValueError(f"{value!r} names a channel twice")
        return value


@dataclasses.dataclass(frozen=True)
class ChannelChoice:
    """What `--channels` asks for.

    Attributes:
      mode: each, mix or stack.
      picked: numbers or names of channels; all where empty.
    """

    mode: Mode
    picked: tuple[str, ...]


def parse_channels(value: str) -> ChannelChoice:
    """The choice that a setting stands for.

    >>> parse_channels("mix:left,right").picked
    ('left', 'right')
    """
    head, colon, rest = value.partition(":")
    if head in _MODES:
        names, mode = rest if colon else "", cast(Mode, head)
    else:
        names, mode = value, cast(Mode, "each")
    picked = tuple(name.strip() for name in names.split(",") if name.strip())
    if not picked and (colon or head not in _MODES):
        raise ValueError(f"{value!r} picks no channel: write each, mix or stack, or channels such as 0,2")
    return ChannelChoice(mode, picked)


def channel_lists(description: Description, choice: ChannelChoice) -> list[tuple[int, ...]]:
    """The channels that are read for each series of examples of a recording.

    Args:
      description: of the recording.
      choice: what is asked for.

    Raises:
      RejectError: a channel that is asked for is not there.
    """
    picked = [_find(name, description) for name in choice.picked] or list(range(description.channels))
    if len(set(picked)) < len(picked):
        raise RejectError(
            Reason.CHANNEL_MISMATCH,
            f"channels={','.join(choice.picked)} name one of its channels twice: leave one out",
        )
    return [(channel,) for channel in picked] if choice.mode == "each" else [tuple(picked)]


def _find(name: str, description: Description) -> int:
    count = description.channels
    if name in description.channel_names:
        return description.channel_names.index(name)
    if name.isdecimal() and int(name) < count:
        return int(name)
    names = f", named {', '.join(description.channel_names)}" if description.channel_names else ""
    raise RejectError(
        Reason.CHANNEL_MISMATCH, f"there is no channel {name}: pick among its {count}, from 0{names}"
    )

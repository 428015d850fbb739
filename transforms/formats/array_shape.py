"""Arrays as recordings: which axis is time, and what becomes of a 2-D array."""

from __future__ import annotations

import dataclasses

from ..rejects import Reason, RejectError
from .settings import ARRAY_AXES


@dataclasses.dataclass(frozen=True)
class ArrayShape:
    """How a stored array is read.

    Attributes:
      recordings: how many recordings it holds.
      channels: of each recording.
      frames: samples per channel.
      time_axis: index of the time axis in the stored array, or None where it has one sample.
      other_axis: index of the axis of channels or recordings, or None where there is none.
    """

    recordings: int
    channels: int
    frames: int
    time_axis: int | None
    other_axis: int | None


def read_shape(shape: tuple[int, ...], array_axes: str | None) -> ArrayShape:
    """What an array of `shape` holds; axes of size 1 count for nothing.

    >>> read_shape((4, 1, 1000), "channel,time").channels
    4
    >>> read_shape((1000, 1), None).frames
    1000

    Raises:
      RejectError: `ambiguous_axes` where two axes are left and array_axes is not set, or more than two are.
    """
    long = [axis for axis, count in enumerate(shape) if count != 1]
    if not long:
        return ArrayShape(1, 1, 1, None, None)
    if len(long) == 1:
        return ArrayShape(1, 1, shape[long[0]], long[0], None)
    if len(long) > 2:
        raise RejectError(
            Reason.AMBIGUOUS_AXES,
            f"an array of shape {shape} has more than two axes: reshape it to two, such as time and channel",
        )
    first, second = (shape[axis] for axis in long)
    if array_axes is None:
        raise RejectError(
            Reason.AMBIGUOUS_AXES,
            f"an array of shape {shape} may be {first} samples of {second} channels ({ARRAY_AXES[0]}), {first} channels "
            f"of {second} samples ({ARRAY_AXES[1]}), or {first} recordings of {second} samples ({ARRAY_AXES[2]}): "
            "set array_axes to the right one",
        )
    if array_axes == "time,channel":
        return ArrayShape(1, second, first, long[0], long[1])
    if array_axes == "channel,time":
        return ArrayShape(1, first, second, long[1], long[0])
    return ArrayShape(first, 1, second, long[1], long[0])

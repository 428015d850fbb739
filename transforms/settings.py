"""The settings of a worker: the groups that stand beside the code, joined."""

from __future__ import annotations

import os

from .batch import SampleSettings
from .channels import ChannelSettings
from .declare import setting, settings_group
from .formats.base import ReadSettings
from .frontend import FrontendSettings
from .segment import SegmentSettings
from .write import WriteSettings

_BYTES_IN_FLIGHT = 256 << 20  # of samples, read ahead or being computed


@settings_group
class ShardSettings(
    WriteSettings, FrontendSettings, SampleSettings, SegmentSettings, ChannelSettings, ReadSettings
):
    """All that a worker needs to know."""

    read_threads: int | None = setting(
        None,
        "threads that read ahead in each worker process; half the cores if not given, more for far storage",
        ge=1,
        le=256,
        content=False,
    )

    @property
    def readers_at_once(self) -> int:
        """Threads that read."""
        return self.read_threads or max(1, len(os.sched_getaffinity(0)) // 2)

    def batches_ahead(self, threads: int) -> int:
        """Batches that `threads` may have in the making or waiting: enough to stay busy, within a fixed memory."""
        batch_bytes = 4 * self.batch_size * self.segment_length
        return max(1, min(threads + 2, _BYTES_IN_FLIGHT // (2 * batch_bytes)))

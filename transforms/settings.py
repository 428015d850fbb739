"""The settings of a worker: the groups that stand beside the code, joined."""

from __future__ import annotations

from .batch import SampleSettings
from .formats.base import ReadSettings
from .frontend import FrontendSettings
from .segment import SegmentSettings
from .setting import setting, settings_group
from .write import WriteSettings


@settings_group
class ShardSettings(WriteSettings, FrontendSettings, SampleSettings, SegmentSettings, ReadSettings):
    """All that a worker needs to know."""

    read_threads: int = setting(
        2, "threads that read ahead in each worker process", ge=1, le=256, content=False
    )

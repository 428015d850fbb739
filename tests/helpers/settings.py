"""Settings from flags and a file, as the command line loads them."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from spectrabeam.pipeline.config import add_flags, load_settings
from spectrabeam.pipeline.settings import Settings, SettingsError


def load(*flags: str, config: Path | None = None) -> Settings:
    """Settings from flags, above those of a file."""
    parser = argparse.ArgumentParser()
    add_flags(parser)
    return load_settings(parser.parse_args([*flags, *(("--config", str(config)) if config else ())]))


def refused(*flags: str, config: Path | None = None) -> str:
    """Why the settings are refused."""
    with pytest.raises(SettingsError) as caught:
        load(*flags, config=config)
    return str(caught.value)

"""Fixtures that several test files share."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """Real recordings, where this checkout has them beside it."""
    if not (SHARED / "data" / "cwru").is_dir():
        pytest.skip("needs the real recordings in ../shared/data, which are not part of the repository")
    return SHARED

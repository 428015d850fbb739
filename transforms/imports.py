"""Large libraries, imported without collecting garbage meanwhile."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Holds the garbage collector while modules are imported, and keeps what they made out of later rounds.

    An import makes a million objects and no garbage; looking through them again and again costs a quarter of
    the time that Beam and TensorFlow take.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if enabled:
            gc.enable()

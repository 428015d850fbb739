"""Recordings of the same samples in different splits: one more pass over the input finds them."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ..transforms.formats.choose import Readers, open_recording
from ..transforms.rejects import Reason, Reject, RejectError, text
from .recording import Recording, Sifted
from .settings import Settings
from .splits import Assignment

_CHUNK = 1 << 18


@dataclasses.dataclass(frozen=True)
class Duplicates:
    """What was found.

    Attributes:
      sifted: the recordings.
      warnings: for the user.
    """

    sifted: Sifted
    warnings: list[str]


def find_duplicates(recordings: Sequence[Recording], splits: Assignment, settings: Settings) -> Duplicates:
    """Compares the samples of all recordings of one length.

    Of those with the same samples the one with the first id stays; others that lie in another split than it are
    rejected where the settings say so.
    """
    candidates: dict[tuple[int, int], list[int]] = defaultdict(list)
    for index, recording in enumerate(recordings):
        begin, end = recording.region
        candidates[end - begin, recording.description.channels].append(index)
    chosen = [index for same in candidates.values() if len(same) > 1 for index in same]
    readers = Readers(settings)
    with ThreadPoolExecutor() as pool:
        digests = list(pool.map(lambda index: _digest(recordings[index], readers), chosen))
    num_bytes = sum(count for _, count in digests)
    groups: dict[bytes, list[int]] = defaultdict(list)
    for index, (digest, _) in zip(chosen, digests, strict=True):
        if digest is not None:
            groups[digest].append(index)
    leaking: dict[int, int] = {}  # recording to the first of the same samples
    for same in groups.values():
        first, *others = sorted(same, key=lambda index: recordings[index].id)
        leaking |= {other: first for other in others if splits.split_of[other] != splits.split_of[first]}
    warnings = [
        f"looked for duplicates in {len(chosen):,} recordings, {num_bytes / 1e6:,.1f} MB of samples read"
    ]
    if leaking:
        other = min(leaking)
        warnings.append(
            f"{len(leaking)} recordings have the samples of one in another split, such as {text(recordings[other].id)} "
            f"those of {text(recordings[leaking[other]].id)}: put them into one group, or set duplicates=reject"
        )
    kept, rejects, dropped = [], [], []
    for index, recording in enumerate(recordings):
        if index not in leaking or settings.duplicates == "warn":
            kept.append(recording)
            continue
        twin = text(recordings[leaking[index]].id)
        message = f"its samples are those of {twin}, which is in another split: leave one out, or give both one group"
        rejects.append(Reject(recording.id, "plan", Reason.DUPLICATE, message))
        dropped.append(recording)
    return Duplicates(Sifted(kept, rejects, dropped), warnings)


def _digest(recording: Recording, readers: Readers) -> tuple[bytes | None, int]:
    """Of all samples, and their bytes; None where they cannot be read, which extraction will tell."""
    source = recording.source()
    total, num_bytes = hashlib.blake2b(digest_size=16), 0
    begin, end = recording.region
    try:
        with open_recording(source) as file:
            reader = readers.get(source.format, source.overrides)
            for channel in range(recording.description.channels):
                for first in range(begin, end, _CHUNK):
                    samples = np.empty(min(_CHUNK, end - first), np.float32)
                    reader.read(file, source.locator, channel, first, samples)
                    total.update(samples.tobytes())
                    num_bytes += samples.nbytes
    except (RejectError, OSError):
        return None, num_bytes
    return total.digest(), num_bytes

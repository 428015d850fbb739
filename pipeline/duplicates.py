"""Recordings of the same samples in different splits: one more pass over the input finds them."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ..transforms.ahead import map_ahead
from ..transforms.formats.choose import Readers, open_recording
from ..transforms.rejects import Reason, RejectError, text
from .recording import Recording, Sifted, sift
from .settings import Settings
from .splits import Assignment
from .words import counted

_CHUNK = 1 << 18
_AHEAD = 64


def find_duplicates(
    recordings: Sequence[Recording],
    splits: Assignment,
    settings: Settings,
) -> tuple[Sifted, list[str]]:
    """Compares the samples of all recordings of one length, in the channels that are used of each.

    Of those with the same samples the one with the first id stays; others that lie in another split than it are
    rejected where the settings say so.

    Returns:
      the recordings, and warnings for the user.
    """
    sizes = [_size(recording) for recording in recordings]
    usual = Counter(sizes)
    chosen = [
        index for index, size in enumerate(sizes) if usual[size] > 1
    ]  # in order, since packed ones are read so
    readers = Readers(settings)
    with ThreadPoolExecutor() as pool:
        several = (recordings[index] for index in chosen)
        digests = list(map_ahead(lambda recording: _digest(recording, readers), several, pool, _AHEAD))
    num_bytes, unread = sum(count for _, count in digests), sum(digest is None for digest, _ in digests)
    copies: dict[tuple, list[int]] = defaultdict(list)
    for index, (digest, _) in zip(chosen, digests, strict=True):
        if digest is not None:
            copies[(*sizes[index], digest)].append(index)
    leaking: dict[bytes, Recording] = {}  # id to the first recording of the same samples
    for same in copies.values():
        first, *others = sorted(same, key=lambda index: recordings[index].id)
        for other in others:
            # cut by time, copies lie elsewhere on their groups' axes
            if other in splits.ranges or splits.split_of[other] != splits.split_of[first]:
                leaking[recordings[other].id] = recordings[first]
    warnings = [
        f"looked for duplicates in {counted(len(chosen), 'recording')}, {num_bytes / 1e6:,.1f} MB of samples read"
    ]
    if unread:
        warnings.append(
            f"{counted(unread, 'recording')} could not be read whole when duplicates were looked for"
        )
    if leaking:
        other = min(leaking)
        warnings.append(
            f"{counted(len(leaking), 'recording')} with the samples of one in another split, such as {text(other)} with "
            f"those of {text(leaking[other].id)}: put them into one group, or set duplicates=reject"
        )

    def step(recording: Recording) -> Recording:
        if recording.id not in leaking or settings.duplicates == "warn":
            return recording
        raise RejectError(
            Reason.DUPLICATE,
            f"its samples are those of {text(leaking[recording.id].id)}, which is in another split: leave one out, or give "
            "both one group",
        )

    return sift(recordings, step), warnings


def _size(recording: Recording) -> tuple[int, int]:
    begin, end = recording.region
    return end - begin, recording.description.channels


def _digest(recording: Recording, readers: Readers) -> tuple[bytes | None, int]:
    """Of all samples, and their bytes; None where they cannot be read."""
    source = recording.source()
    total, num_bytes = hashlib.blake2b(digest_size=16), 0
    begin, end = recording.region
    dtype = np.complex64 if recording.description.is_complex else np.float32
    try:
        with open_recording(source) as file:
            reader = readers.get(source.format, source.overrides)
            for channel in sorted({channel for each in recording.channels for channel in each}):
                for first in range(begin, end, _CHUNK):
                    samples = np.empty(min(_CHUNK, end - first), dtype)
                    reader.read(file, source.locator, channel, first, samples)
                    total.update(samples.tobytes())
                    num_bytes += samples.nbytes
    except (RejectError, OSError):
        return None, num_bytes
    return total.digest(), num_bytes

"""Batch arrays that TensorFlow can read in place, used again."""

from __future__ import annotations

import threading

import numpy as np

ALIGNMENT = 64  # what TensorFlow asks of memory that it takes without a copy


def aligned_empty(shape: tuple[int, ...], dtype: type = np.float32) -> np.ndarray:
    """An uninitialised array that TensorFlow can read in place."""
    itemsize = np.dtype(dtype).itemsize
    count = int(np.prod(shape))
    buffer = np.empty(count * itemsize + ALIGNMENT, np.uint8)
    first = -buffer.ctypes.data % ALIGNMENT
    return buffer[first : first + count * itemsize].view(dtype).reshape(shape)


def is_aligned(array: np.ndarray) -> bool:
    """Whether TensorFlow can read the array in place."""
    return array.flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0


class Buffers:
    """Batch arrays for reuse: fresh ones of several MiB would be mapped and cleared by the kernel each time."""

    def __init__(self, shape: tuple[int, int], dtype: type = np.float32):
        self._shape, self._dtype = shape, dtype
        self._free: list[np.ndarray] = []
        self._lock = threading.Lock()

    def take(self) -> np.ndarray:
        """An array whose content is undefined."""
        with self._lock:
            if self._free:
                return self._free.pop()
        return aligned_empty(self._shape, self._dtype)

    def give_back(self, array: np.ndarray) -> None:
        """Nobody looks at the array any more."""
        with self._lock:
            self._free.append(array)

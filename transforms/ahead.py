"""Ordered work ahead of its use, on a pool of threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from typing import TypeVar

In = TypeVar("In")
Out = TypeVar("Out")


def map_ahead(
    function: Callable[[In], Out], items: Iterable[In], pool: Executor, depth: int
) -> Iterator[Out]:
    """`map(function, items)`, with up to `depth` results in the making or waiting.

    Results come in the order of the items. `items` is iterated by the caller's thread, so calls can be
    chained. An exception of `function` is raised at its item's turn; what has not started is dropped then.
    """
    pending: deque[Future[Out]] = deque()
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) >= depth:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()

"""Work ahead: order, how far ahead, and what an error leaves."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from spectrabeam.transforms.ahead import map_ahead

PATIENCE_S = 20  # only ever waited for where a test fails


@pytest.fixture
def pool():
    with ThreadPoolExecutor(4) as executor:
        yield executor


def test_results_come_in_the_order_of_the_items_though_later_ones_are_ready_first(pool):
    last_is_done = threading.Event()

    def work(item):
        if item == 0:
            assert last_is_done.wait(PATIENCE_S)
        if item == 3:
            last_is_done.set()
        return item * 10

    assert list(map_ahead(work, range(4), pool, depth=4)) == [0, 10, 20, 30]


@pytest.mark.parametrize("depth", [1, 2, 5, 100])
def test_every_item_comes_once_whatever_the_depth(pool, depth):
    assert list(map_ahead(str, range(23), pool, depth)) == [str(item) for item in range(23)]


def test_no_items_give_no_results(pool):
    assert list(map_ahead(str, [], pool, depth=3)) == []


def test_no_more_items_are_taken_than_the_depth_allows(pool):
    taken = []

    def items():
        for item in range(10):
            taken.append(item)
            yield item

    results = map_ahead(str, items(), pool, depth=3)
    for expected in range(10):
        next(results)
        assert len(taken) <= expected + 3
    assert len(taken) == 10


def test_items_are_iterated_by_the_caller_so_that_calls_can_be_chained():
    threads = set()

    def items():
        for item in range(5):
            threads.add(threading.get_ident())
            yield item

    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(1) as two:
        chained = map_ahead(lambda x: -x, map_ahead(lambda x: x + 1, items(), one, depth=2), two, depth=2)
        assert list(chained) == [-1, -2, -3, -4, -5]
    assert threads == {threading.get_ident()}


def test_an_error_is_raised_at_its_turn_after_the_results_before_it(pool):
    def work(item):
        if item == 2:
            raise KeyError("third")
        return item

    results = map_ahead(work, range(6), pool, depth=4)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(KeyError, match="third"):
        next(results)


def test_what_has_not_started_is_dropped_after_an_error():
    started, release = [], threading.Event()

    def work(item):
        started.append(item)
        if item == 0:
            raise KeyError("first")
        assert release.wait(PATIENCE_S)

    with ThreadPoolExecutor(1) as one:
        with pytest.raises(KeyError, match="first"):
            next(map_ahead(work, range(9), one, depth=9))
        release.set()
    assert len(started) <= 2  # the second may have been under way

"""Progress by a fake clock and counter, and the count of examples from what lies on disk."""

import io
import sys
import threading
from types import SimpleNamespace

import pytest

from spectrabeam.pipeline import progress
from spectrabeam.pipeline.progress import ShardsOnDisk, shown
from spectrabeam.transforms.dataset import Layout, ShardName, write_json

PATIENCE_S = 20  # only ever waited for where a test fails


@pytest.fixture
def layout(tmp_path):
    layout = Layout(str(tmp_path))
    for folder in ("shards", "tmp"):
        (tmp_path / ".spectrabeam" / folder).mkdir(parents=True)
    return layout


def on_disk(layout):
    return ShardsOnDisk(layout, example_bytes=100)


def temporary(layout, shard, num_bytes):
    with open(f"{layout.temporary}/{shard}.1234.tfrecord", "wb") as file:
        file.write(bytes(num_bytes))


def test_nothing_on_disk_counts_nothing(layout):
    assert on_disk(layout).examples() == 0


def test_finished_shards_count_by_their_sidecar_and_others_by_their_length(layout):
    counter = on_disk(layout)
    temporary(layout, "train-00001", 450)
    assert counter.examples() == 4
    temporary(layout, "train-00001", 850)
    temporary(layout, "train-00002", 99)
    assert counter.examples() == 8
    write_json(layout.sidecar(ShardName("train", 0)), {"examples": 9})
    assert counter.examples() == 17


def test_what_is_half_written_or_none_of_ours_counts_nothing(layout):
    counter = on_disk(layout)
    sidecar = layout.sidecar(ShardName("train", 0))
    for content in ("", "{", "{}"):
        with open(sidecar, "w") as file:
            file.write(content)
        assert counter.examples() == 0
    with open(f"{layout.temporary}/frontend.99", "wb") as file:
        file.write(bytes(5000))
    assert counter.examples() == 0
    write_json(sidecar, {"examples": 10})
    assert counter.examples() == 10


class Counter:
    """Gives one value after the other, and tells when the last was asked for."""

    def __init__(self, *values):
        self._values = list(values)
        self.reached = threading.Event()

    def __call__(self):
        if len(self._values) > 1:
            return self._values.pop(0)
        self.reached.set()
        return self._values[0]


@pytest.fixture
def clock(monkeypatch):
    """Seconds of a clock that goes on by ten at every look, with lines as often as possible."""
    looks = iter(range(0, 10**9, 10))
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: float(next(looks))))
    monkeypatch.setattr(progress, "_LINE_INTERVAL_S", 0.001)


def test_without_a_terminal_there_are_plain_lines(clock, capsys):
    counter = Counter(200, 200, 700, 1200)
    with shown(counter, 2200, "Extracting"):
        assert counter.reached.wait(PATIENCE_S)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "Extracting: 200 of 2,200 examples, 0 examples/s"
    assert lines[1] == "Extracting: 700 of 2,200 examples, 25 examples/s, 60 s left"


def test_what_an_earlier_attempt_left_does_not_raise_the_rate(clock, capsys):
    counter = Counter(1000, 1100)
    with shown(counter, 2000):
        assert counter.reached.wait(PATIENCE_S)
    assert ": 1,100 of 2,000 examples, 10 examples/s, 90 s left" in capsys.readouterr().err.splitlines()[0]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_at_a_terminal_a_bar_ends_at_the_total(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    for name, value in {"TERM": "xterm", "COLUMNS": "120"}.items():
        monkeypatch.setenv(name, value)
    with shown(Counter(0, 10, 25), 20, "Extracting"):
        pass
    shown_last = terminal.getvalue()
    assert "Extracting" in shown_last
    assert "20/20" in shown_last  # an estimate beyond the total is not shown
    assert "examples/s" in shown_last


def test_display_ends_also_where_the_run_fails():
    before = set(threading.enumerate())
    with pytest.raises(KeyError, match="failed"), shown(lambda: 0, 10):
        raise KeyError("failed")
    assert set(threading.enumerate()) <= before


def test_nothing_is_printed_of_a_run_shorter_than_the_interval(capsys):
    with shown(lambda: 5, 10):
        pass
    assert capsys.readouterr() == ("", "")

"""Packed lists: they hold what was added, as lists do."""

import dataclasses
import os
import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectrabeam.pipeline.packed import Packed, by_chunks, chunks
from spectrabeam.pipeline.recording import Said
from tests.helpers.recordings import recording


@dataclasses.dataclass(frozen=True, slots=True)
class One:
    """A record of a single field."""

    value: int


@given(st.integers(0, 2000), st.integers(-2100, 2100), st.integers(-2100, 2100))
def test_items_come_as_from_a_list(count, place, end):
    items = [One(7 * number % 512) for number in range(count)]
    packed = Packed(items)
    assert len(packed) == count
    assert list(packed) == items
    assert packed[place:end] == items[place:end]
    if -count <= place < count:
        assert packed[place] == items[place]
    else:
        with pytest.raises(IndexError):
            packed[place]


def test_a_recording_comes_back_with_everything_that_is_known_of_it():
    said = Said(fields={"load": 3}, overrides={"raw_dtype": "<i2"}, factors=(2.0,))
    partner = recording("b", frames=5)
    one = dataclasses.replace(recording("a", attributes={"rpm": 1.5}), said=said, paired=partner)
    packed = Packed([one] * 600)
    assert packed[0] == one
    assert packed[599] == one
    assert packed[0].description.attributes == {"rpm": 1.5}  # which do not count towards equality


@pytest.mark.parametrize("count", [0, 1, 511, 512, 513, 40_000])
def test_sorting_keeps_equal_ones_in_their_order(count):
    items = [(7919 * number % 1000, number) for number in range(count)]
    assert list(Packed(items).sorted(lambda item: item[0])) == sorted(items, key=lambda item: item[0])


def test_a_table_is_made_by_chunks_and_may_be_empty():
    def rows(some, first):
        return pa.table(
            {
                "item": pa.array(some, pa.int64()),
                "place": pa.array(range(first, first + len(some)), pa.int64()),
            }
        )

    assert by_chunks(rows, range(1300)).column("place").to_pylist() == list(range(1300))
    assert by_chunks(rows, []).num_rows == 0
    assert [len(some) for some in chunks(range(1300))] == [512, 512, 276]


_IN_LITTLE_ROOM = """
import resource, signal
from spectrabeam.pipeline.packed import Packed, SpillError, by_chunks
import pyarrow as pa
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))  # a file may have a mebibyte
for make in (
    lambda: Packed(number**9 for number in range(1_000_000)),
    lambda: by_chunks(lambda some, _: pa.table({"a": pa.array(some, pa.int64())}), range(1_000_000)),
):
    try:
        make()
    except SpillError as error:
        print(error)
"""


def test_a_full_temporary_folder_is_named(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", _IN_LITTLE_ROOM],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 2
    assert all(f"temporary folder {tmp_path}: " in line and "File too large" in line for line in lines)
    assert done.stderr == ""
    assert not list(tmp_path.iterdir())

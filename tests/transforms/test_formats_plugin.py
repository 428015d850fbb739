"""The examples of docs/readers.md are run: a format of one's own, and a reader alone."""

import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from spectrabeam.transforms.formats import choose
from spectrabeam.transforms.formats.settings import ReadSettings
from spectrabeam.transforms.rejects import Reason, RejectError

PAGE = Path(__file__).resolve().parents[2] / "docs" / "readers.md"
SAMPLES = np.array([1, -2, 300, -32768, 32767], "<i2")


@pytest.fixture
def blocks():
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def plugin(blocks, tmp_path, monkeypatch):
    """The page's module where Python finds it, and none of its traces afterwards."""
    (tmp_path / "my_formats.py").write_text(blocks[0], encoding="utf-8")
    (tmp_path / "recording.my").write_bytes(b"MYFORMAT" + np.uint32(8000).tobytes() + SAMPLES.tobytes())
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    choose.READERS.pop("my", None)
    sys.modules.pop("my_formats", None)


def test_module_of_the_page_adds_a_format_that_is_found_and_read(plugin):
    content = (plugin / "recording.my").read_bytes()
    assert choose.format_by_content(content[:4096]) is None
    readers = choose.Readers(ReadSettings(plugins=("my_formats",)))
    assert choose.format_by_content(content[:4096]) == "my"
    assert choose.format_by_name(b"a/b.MY", ReadSettings()) == "my"
    reader = readers.get("my")
    assert (reader.needs_header, reader.takes_folder) == (True, False)
    (described,) = reader.describe(io.BytesIO(content), len(content))
    assert (described.sample_rate, described.frames, described.dtype) == (8000.0, 5, "<i2")
    for start in range(5):
        for count in range(1, 6 - start):
            out = np.empty(count, np.float32)
            reader.read(io.BytesIO(content), described.locator, 0, start, out)
            np.testing.assert_array_equal(out, SAMPLES[start : start + count])
    kept = np.empty(5, np.int16)
    reader.read(io.BytesIO(content), described.locator, 0, 0, kept)
    np.testing.assert_array_equal(kept, SAMPLES)


@pytest.mark.parametrize("size", [0, 5, 12, 13])
def test_reader_of_the_page_rejects_files_without_a_sample(plugin, size):
    content = (plugin / "recording.my").read_bytes()[:size]
    reader = choose.Readers(ReadSettings(plugins=("my_formats",))).get("my")
    with pytest.raises(RejectError, match=f"{size} bytes hold no sample") as caught:
        reader.describe(io.BytesIO(content), size)
    assert caught.value.reason == Reason.EMPTY


def test_reader_of_the_page_rejects_a_range_beyond_the_end(plugin):
    content = (plugin / "recording.my").read_bytes()
    reader = choose.Readers(ReadSettings(plugins=("my_formats",))).get("my")
    with pytest.raises(RejectError, match="only 2 of 3 samples") as caught:
        reader.read(io.BytesIO(content), "", 0, 3, np.empty(3, np.float32))
    assert caught.value.reason == Reason.TRUNCATED


def test_reader_alone_as_on_the_page(plugin, blocks, monkeypatch):
    choose.load_plugins(["my_formats"])
    monkeypatch.chdir(plugin)
    names: dict = {}
    exec(blocks[1], names)
    np.testing.assert_array_equal(names["samples"], SAMPLES)
    assert names["samples"].dtype == np.float32


def test_module_that_is_not_there_is_named():
    with pytest.raises(ValueError, match="plugins: no_such_module cannot be imported"):
        choose.Readers(ReadSettings(plugins=("no_such_module",)))

"""What is told of a dataset; and what cannot be looked at."""

import pytest

from tests.helpers.pipelines import metadata, read_examples, run
from tests.helpers.signals import noise, write_raw


def inspect(*arguments, code=0):
    result = run("inspect", *arguments)
    assert result.code == code, (result.err, result.out)
    return result.out if code == 0 else result.err


def line(text, name):
    """What stands behind a name in the first column."""
    (found,) = [row for row in text.splitlines() if row.startswith(name)]
    return found.removeprefix(name).strip()


def test_dataset_is_told_with_its_first_examples(small_dataset):
    text = inspect(small_dataset)
    assert line(text, "Dataset") == str(small_dataset)
    assert line(text, "Recordings") == "30 matched = 30 used + 0 rejected"
    assert line(text, "Labels") == "0 a, 1 b"
    assert "spectrum float32[129]" in line(text, "Example     ")
    first = next(name for name, split in metadata(small_dataset)["splits"].items() if split["shards"])
    for number, example in enumerate(read_examples(small_dataset, first)[:3]):
        told = line(text, f"Example {number}")
        assert f"recording {example['recording'].decode()}" in told
        assert f"label {example['label']}" in told
        values = example["spectrum"]
        assert f"spectrum [129] from {values.min():.4g} to {values.max():.4g}" in told
    assert "Example 3" not in text


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.raw", "none.raw does not exist"),
        (
            "a.raw",
            "raw_dtype is not set, and headerless files do not say it: give it with the sample rate, for exam",
        ),
        ("folder", "folder is not a dataset: it has no spectrabeam.json"),
    ],
)
def test_what_cannot_be_inspected_is_an_error(tmp_path, name, message):
    write_raw(tmp_path / "a.raw", noise(9))
    (tmp_path / "folder").mkdir()
    assert message in inspect(tmp_path / name, code=2)

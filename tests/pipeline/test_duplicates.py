"""The same samples twice: found whatever the file's name or type, told or rejected where they lie in two splits."""

import numpy as np
import pytest

from spectrabeam.pipeline.match import match
from spectrabeam.pipeline.plan import make_plan
from spectrabeam.transforms.rejects import Reason
from tests.helpers.plans import SEGMENT_LENGTH as L
from tests.helpers.plans import rejected, settings, split_of
from tests.helpers.signals import noise, write_raw


@pytest.fixture
def planned(tmp_path):
    """Plans files of the given samples; those in `test/` are the test split."""

    def plan(files, duplicates="reject", **values):
        for name, samples in files.items():
            write_raw(tmp_path / f"{name}.raw", samples)
        known = {
            "fields_from": r"path:^(?P<folder>\w+)/",
            "splits": {"test": {"folder": "test"}, "train": 1.0},
            "duplicates": duplicates,
        }
        chosen = settings(**known | values)
        return make_plan(match((str(tmp_path),), chosen), chosen)

    return plan


def test_a_recording_with_the_samples_of_one_in_another_split_is_rejected(planned):
    one, other = noise(3 * L, 1), noise(3 * L, 2)
    result = planned({"test/b": one, "train/a": one, "train/c": other})
    message = "its samples are those of test/b.raw, which is in another split: leave one out, or give both one group"
    assert rejected(result) == [(b"train/a.raw", Reason.DUPLICATE, message)]
    assert {name for name, split in split_of(result).items() if split} == {"test/b.raw", "train/c.raw"}
    assert (
        f"looked for duplicates in 3 recordings, {9 * L * 4 / 1e6:,.1f} MB of samples read" in result.warnings
    )


def test_where_only_a_warning_is_asked_for_all_are_kept(planned):
    one = noise(3 * L, 1)
    result = planned({"test/b": one, "train/a": one, "train/c": one}, duplicates="warn")
    assert result.rejects == []
    assert result.segments == 9
    (warning,) = (each for each in result.warnings if "samples of one in another split" in each)
    assert warning == (
        "2 recordings with the samples of one in another split, such as train/a.raw with those of test/b.raw: put them "
        "into one group, or set duplicates=reject"
    )


def test_duplicates_in_one_split_are_no_matter(planned):
    one = noise(3 * L, 1)
    result = planned({"train/a": one, "train/b": one})
    assert result.rejects == []
    assert not any("another split" in warning for warning in result.warnings)


def test_every_twin_that_lies_elsewhere_than_the_first_is_rejected(planned):
    one = noise(L, 1)
    result = planned({"test/a": one, "test/b": one, "train/c": one, "train/d": one})
    assert [recording for recording, _, _ in rejected(result)] == [b"train/c.raw", b"train/d.raw"]


@pytest.mark.parametrize("place", [0, 1, -1])
def test_a_single_other_sample_makes_another_recording(planned, place):
    one = noise(3 * L, 1)
    other = one.copy()
    other[place] += 1
    assert planned({"test/b": one, "train/a": other}).rejects == []


def test_nothing_is_looked_for_unless_asked(planned):
    one = noise(3 * L, 1)
    result = planned({"test/b": one, "train/a": one}, duplicates="off")
    assert result.rejects == []
    assert not any("looked for" in warning for warning in result.warnings)


def test_only_recordings_of_one_length_and_channel_count_are_read(planned):
    result = planned({"test/b": noise(3 * L), "train/a": noise(4 * L)})
    assert "looked for duplicates in 0 recordings, 0.0 MB of samples read" in result.warnings


def test_a_long_recording_is_compared_to_its_end(planned):
    one = noise((1 << 18) + 10, 1)
    other = one.copy()
    other[-1] = 7
    assert planned({"test/b": one, "train/a": other}).rejects == []
    assert len(planned({"test/b": one, "train/a": one}).rejects) == 1


def test_the_same_samples_in_another_file_are_the_same(tmp_path, planned):
    samples = (np.arange(3 * L) % 100).astype(np.float32)
    write_raw(tmp_path / "train" / "a.raw", samples, ">i2")
    (tmp_path / "train" / "a.json").write_text('{"raw_dtype": ">i2"}')
    assert [recording for recording, _, _ in rejected(planned({"test/b": samples}))] == [b"train/a.raw"]


def test_silent_channels_swapped_are_another_recording(planned):
    one = np.stack([noise(L, 1), np.zeros(L)], axis=1)
    assert planned({"test/b": one, "train/a": one[:, ::-1]}, raw_channels=2).rejects == []
    assert len(planned({"test/b": one, "train/a": one}, raw_channels=2).rejects) == 1

"""Sidecars: which files stand beside which recordings, which of them wins, and what cannot be understood."""

import json

import pytest
import yaml

from spectrabeam.pipeline.match import match
from spectrabeam.pipeline.plan import make_plan
from spectrabeam.pipeline.settings import SettingsError
from spectrabeam.pipeline.sidecars import Sidecars, factors_of
from spectrabeam.transforms.formats.settings import ReadSettings
from spectrabeam.transforms.rejects import Reason, RejectError
from tests.helpers.plans import SEGMENT_LENGTH as L
from tests.helpers.plans import settings
from tests.helpers.signals import noise, write_raw, write_wav


@pytest.fixture
def said(tmp_path):
    """What is said of `in/a/b/NAME` where some files are there: path below `in` to values, or text."""
    folder = tmp_path / "in"

    def write(files, name="x.raw", *, headerless=True, of_all=False, **values):
        write_raw(folder / "a" / "b" / name, noise(L))
        for path, content in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, bytes):
                target.write_bytes(content)
            elif isinstance(content, str):
                target.write_text(content, encoding="utf-8")
            else:
                dump = json.dumps if target.suffix == ".json" else yaml.safe_dump
                target.write_text(dump(content), encoding="utf-8")
        matches = match((str(folder),), ReadSettings(input_format="raw" if name.endswith(".raw") else "wav"))
        (item,) = (each for each in matches.found if each.uri.endswith(b"/" + name.encode()))
        return Sidecars(ReadSettings(**values), of_all=of_all).said(item, headerless=headerless)

    return write


@pytest.mark.parametrize("name", ["x.json", "x.yaml", "x.yml", "x.raw.json", "x.raw.yaml", "x.raw.yml"])
def test_a_file_of_the_recordings_name_is_its_sidecar(said, name):
    assert said({f"a/b/{name}": {"sample_rate": 25600}}).sample_rate == 25600.0


@pytest.mark.parametrize("name", ["recordings.yaml", "recordings.yml", "recordings.json"])
@pytest.mark.parametrize("folder", ["", "a/", "a/b/"])
def test_a_file_of_the_folder_or_one_above_it_holds_for_all(said, name, folder):
    assert said({f"{folder}{name}": {"sample_rate": 100}}).sample_rate == 100.0


def test_the_nearer_file_wins_key_by_key(said):
    files = {
        "recordings.yaml": {"sample_rate": 1, "unit": "top", "label": "top", "group": "top"},
        "a/recordings.yaml": {"unit": "a", "label": "a", "group": "a"},
        "a/b/recordings.json": {"label": "b", "group": "b"},
        "a/b/x.json": {"group": "x"},
    }
    known = said(files)
    assert (known.sample_rate, known.unit, known.fields["label"], known.group) == (1.0, "a", "b", "x")


def test_what_lies_above_the_input_says_nothing(said, tmp_path):
    (tmp_path / "recordings.yaml").write_text("sample_rate: 7\n")
    assert said({}).sample_rate is None
    (tmp_path / "in" / "recordings.yaml").write_text("sample_rate: 8\n")
    assert said({}).sample_rate == 8.0


def test_files_of_others_and_of_folders_below_say_nothing(said):
    files = {"a/b/y.json": {"unit": "y"}, "a/b/c/recordings.yaml": {"unit": "c"}, "a/x.json": {"unit": "a"}}
    assert said(files).unit is None


def test_recordings_with_a_header_have_their_folders_file_and_their_own_where_that_is_asked_for(said):
    files = {"a/recordings.yaml": {"unit": "g"}, "a/b/x.json": {"label": "own"}}
    known = said(files, "x.wav", headerless=False)
    assert (known.unit, known.fields) == ("g", {"unit": "g"})
    assert said(files, "x.wav", headerless=False, of_all=True).fields["label"] == "own"


def test_everything_that_a_sidecar_can_say(said):
    known = said(
        {
            "a/b/x.yaml": """
sample_rate: 25600
unit: m/s²
sensitivity: [100, 50]
channel_names: [x, y]
start_time: 2024-05-01T12:00:00Z
label: 7
group: bearing 3
raw_dtype: ">i2"
raw_channels: 2
scale: 0.5
rpm: 1797
site: north
list: [1, 2]
"""
        }
    )
    assert (known.sample_rate, known.unit, known.factors) == (25600.0, "m/s²", (0.01, 0.02))
    assert (known.channel_names, known.group) == (("x", "y"), "bearing 3")
    assert known.start_time_ns == 1_714_564_800 * 10**9
    assert known.overrides == {"raw_channels": 2, "raw_dtype": ">i2", "scale": 0.5}
    assert (known.fields["label"], known.label) == (7, None)  # a label by label_from=sidecar:label alone
    assert known.fields["rpm"] == 1797
    assert known.fields["site"] == "north"
    assert "list" not in known.fields


def test_without_a_sidecar_or_with_an_empty_one_nothing_is_said(said):
    for files in ({}, {"a/b/x.yaml": ""}, {"a/b/x.json": "{}"}):
        known = said(files)
        assert (known.sample_rate, known.overrides, dict(known.fields)) == (None, {}, {})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.json", "{", "x.json beside it cannot be read: "),
        ("x.yaml", "a: [", "x.yaml beside it cannot be read: "),
        ("x.json", b"\xff", "x.json beside it cannot be read: "),
        ("x.json", "[" * 100_000, "x.json beside it cannot be read: "),
        (
            "x.yaml",
            "!!python/object/apply:os.getpid []",
            "x.yaml beside it cannot be read: could not determine",
        ),
        ("x.json", "[1]", "x.json beside it holds no settings: write NAME: VALUE"),
        ("x.yaml", "text", "x.yaml beside it holds no settings: write NAME: VALUE"),
        ("x.yaml", "1: 2", "x.yaml beside it holds no settings: write NAME: VALUE"),
        ("recordings.yaml", "text", "recordings.yaml beside it holds no settings: write NAME: VALUE"),
        ("x.json", " " * (1 << 20) + "{}", "x.json beside it has more than 1048576 bytes"),
        (
            "x.json",
            {"sample_rate": "fast"},
            "the sidecar says what cannot be: sample_rate='fast' is no number",
        ),
        ("x.json", {"sample_rate": True}, "the sidecar says what cannot be: sample_rate=True is no number"),
        ("x.json", {"sensitivity": 0}, "the sidecar says what cannot be: sensitivity=0 cannot be divided by"),
        (
            "x.json",
            {"sensitivity": []},
            "the sidecar says what cannot be: sensitivity=[] cannot be divided by",
        ),
        (
            "x.json",
            {"start_time": "noon"},
            "the sidecar says what cannot be: 'noon' is no time: write ISO 8601",
        ),
        ("x.json", {"channel_names": 5}, "the sidecar says what cannot be: "),
        ("x.json", {"raw_dtype": "f4"}, "the sidecar's raw_dtype='f4': 'f4' says no byte order: write <f4"),
        (
            "x.json",
            {"raw_channels": 0},
            "the sidecar's raw_channels=0: Input should be greater than or equal to 1",
        ),
        (
            "x.json",
            {"scale": "half"},
            "the sidecar's scale='half': 'half' is neither auto, pcm, none nor a factor",
        ),
    ],
)
def test_a_sidecar_that_cannot_be_understood_is_a_reject(said, name, content, message):
    with pytest.raises(RejectError) as caught:
        said({f"a/b/{name}": content})
    assert caught.value.reason is Reason.BAD_SIDECAR
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("given", "factors"),
    [(None, ()), (100, (0.01,)), ("4", (0.25,)), ([2, "-5"], (0.5, -0.2)), ((8.0,), (0.125,))],
)
def test_factors_are_one_divided_by_the_sensitivity(given, factors):
    assert factors_of(given) == factors


@pytest.mark.parametrize("value", [0, "0", [1, 0], [], "x", True, [None], float("nan"), "inf"])
def test_what_cannot_be_divided_by_is_refused(value):
    with pytest.raises(ValueError, match=r"cannot be divided by|is no number"):
        factors_of(value)


def test_recordings_are_planned_as_their_sidecars_say(tmp_path):
    write_raw(tmp_path / "a.raw", noise(2 * L).reshape(-1, 2), ">f4")
    write_raw(tmp_path / "b.raw", noise(L))
    write_raw(tmp_path / "c.raw", noise(L))
    write_wav(tmp_path / "d.wav", noise(L) / 4, 500)
    (tmp_path / "a.json").write_text(json.dumps({"raw_dtype": ">f4", "raw_channels": 2, "unit": "Pa"}))
    (tmp_path / "recordings.yaml").write_text("sample_rate: 500\nunit: Pa\n")
    (tmp_path / "c.json").write_text("{")
    chosen = settings(sample_rate=None, splits={"all": 1.0})
    result = make_plan(match((str(tmp_path),), chosen), chosen)
    assert (result.sample_rate, result.unit) == (500.0, "Pa")
    (reject,) = result.rejects
    assert (reject.recording, reject.stage, reject.reason) == (b"c.raw", "plan", Reason.BAD_SIDECAR)
    rows = {row["id"]: row for row in result.recordings.to_pylist()}
    assert (rows["a.raw"]["channels"], rows["a.raw"]["dtype"], rows["a.raw"]["frames"]) == (2, ">f4", L)
    assert rows["c.raw"]["segments_planned"] == 0
    assert result.segments == 2 + 1 + 1
    blocks = [row for shard in result.shards for row in result.part(shard).to_pylist()]
    assert {json.loads(row["source"]["overrides"] or "{}").get("raw_dtype") for row in blocks} == {
        ">f4",
        None,
    }


def test_two_recordings_with_other_dtypes_may_each_say_it_and_need_no_setting(tmp_path):
    write_raw(tmp_path / "a.raw", noise(L), "<f4")
    write_raw(tmp_path / "b.raw", noise(L), "<f8")
    (tmp_path / "a.json").write_text(json.dumps({"raw_dtype": "<f4", "sample_rate": 9}))
    chosen = settings(raw_dtype=None, sample_rate=None, splits={"all": 1.0})
    with pytest.raises(SettingsError, match=r"raw_dtype is not set, .* \(for b\.raw\)"):
        make_plan(match((str(tmp_path),), chosen), chosen)
    (tmp_path / "b.yaml").write_text('raw_dtype: "<f8"\nsample_rate: 9\n')
    result = make_plan(match((str(tmp_path),), chosen), chosen)
    assert (result.segments, result.sample_rate, result.rejects) == (2, 9.0, [])

"""Inputs to recordings: ids, what is left out and counted, what is rejected, what is refused."""

import os
import re

import pytest

from spectrabeam.pipeline.listed import match_listed
from spectrabeam.pipeline.manifest import ManifestError
from spectrabeam.pipeline.match import NoMatchError, match
from spectrabeam.pipeline.plan import plan_inputs
from spectrabeam.transforms.formats.choose import READERS
from spectrabeam.transforms.formats.settings import ReadSettings
from spectrabeam.transforms.rejects import Reason
from tests.helpers.plans import settings

AUTO = ReadSettings()


@pytest.fixture
def tree(tmp_path):
    """Makes files of three bytes below a folder, which is returned."""

    def make(*names):
        for name in names:
            path = os.path.join(os.fsencode(tmp_path / "in"), os.fsencode(name))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(b"abc")
        return tmp_path / "in"

    return make


def ids(*inputs, settings=AUTO, output=None):
    return [item.recording for item in match(tuple(map(str, inputs)), settings, output).found]


def refused(*inputs, settings=AUTO):
    with pytest.raises(NoMatchError) as caught:
        match(tuple(map(str, inputs)), settings)
    return str(caught.value)


def test_ids_are_paths_below_the_folder_sorted_by_their_bytes(tree):
    folder = tree("b/2.raw", "b.raw", "a/x/1.wav", "Z.raw", "ä.raw", b"\xff.raw")
    assert ids(folder) == [b"Z.raw", b"a/x/1.wav", b"b.raw", b"b/2.raw", "ä.raw".encode(), b"\xff.raw"]


def test_id_of_a_file_is_its_name_and_of_a_glob_what_follows_its_fixed_part(tree):
    folder = tree("day1/a/1.raw", "day1/b/1.raw", "day2/a/1.raw")
    assert ids(folder / "day1/a/1.raw") == [b"1.raw"]
    assert ids(folder / "day1/*/1.raw") == [b"a/1.raw", b"b/1.raw"]
    assert ids(folder / "day*") == [b"day1/a/1.raw", b"day1/b/1.raw", b"day2/a/1.raw"]
    assert ids(folder / "**/a/*.raw") == [b"day1/a/1.raw", b"day2/a/1.raw"]


def test_a_named_input_gets_its_name_as_prefix(tree):
    folder = tree("day1/1.raw", "day2/1.raw")
    assert ids(f"one={folder}/day1", f"two={folder}/day2/*.raw") == [b"one/1.raw", b"two/1.raw"]


def test_what_is_found_is_told_with_place_size_time_and_format(tree):
    folder = tree("a.WAV")
    (item,) = match((str(folder),), AUTO).found
    status = os.stat(folder / "a.WAV")
    assert (item.uri, item.size) == (os.fsencode(folder / "a.WAV"), 3)
    assert (item.modified_ns, item.format) == (status.st_mtime_ns, "wav")
    assert item.root == os.fsencode(folder)


def test_a_relative_input_gives_the_same_ids_and_absolute_places(tree, monkeypatch):
    folder = tree("a/1.raw")
    monkeypatch.chdir(folder.parent)
    assert match(("in",), AUTO) == match((str(folder),), AUTO)
    assert match(("./in/../in/",), AUTO) == match((str(folder),), AUTO)


def test_a_file_that_is_matched_twice_counts_once(tree):
    folder = tree("a/1.raw")
    assert ids(folder, folder, folder / "a/../a/1.raw", f"{folder}/*/*.raw") == [b"a/1.raw"]


def test_what_is_left_out_is_counted_by_cause(tree):
    folder = tree(
        "a.raw",
        ".hidden.raw",
        ".git/b.raw",
        ".ipynb_checkpoints/c.raw",
        "notes.txt",
        "noending",
        "old/spectrabeam.json",
        "old/d.raw",
        "out/e.raw",
    )
    os.symlink(folder, folder / "loop")
    matches = match((str(folder),), AUTO, str(folder / "out"))
    assert [item.recording for item in matches.found] == [b"a.raw"]
    assert matches.left_out == {
        "datasets of spectrabeam": 1,
        "files of other kinds": 2,
        "hidden files and folders": 3,
        "links that lead back to their own folder": 1,
    }
    assert matches.rejects == []


def test_the_output_and_other_datasets_are_left_out_of_globs_too_and_the_output_is_not_counted(tree):
    folder = tree("a/1.raw", "out/2.raw", "old/spectrabeam.json", "old/more/3.raw")
    for pattern in ("*/*.raw", "**/*.raw"):
        matches = match((f"{folder}/{pattern}",), AUTO, str(folder / "out"))
        assert [item.recording for item in matches.found] == [b"a/1.raw"]
        assert matches.left_out == {}


def test_links_to_files_and_folders_elsewhere_are_followed(tree):
    folder = tree("a/1.raw", "b/x.raw")
    os.symlink(folder / "b", folder / "a/folder")
    os.symlink(folder / "b/x.raw", folder / "a/file.raw")
    assert ids(folder / "a") == [b"1.raw", b"file.raw"]  # folder/x.raw is the same file once more
    assert match((str(folder / "a"),), AUTO).left_out == {"files reached a second time through a link": 1}


def test_the_format_that_is_asked_for_chooses_the_files(tree):
    folder = tree("a.raw", "b.wav")
    assert ids(folder, settings=ReadSettings(input_format="wav")) == [b"b.wav"]


def test_a_file_that_is_named_may_have_any_name(tree):
    folder = tree("capture.bin", "odd.dat")
    (item,) = match((str(folder / "capture.bin"),), AUTO).found
    assert item.format is None
    raw = ReadSettings(input_format="raw")
    assert {item.format for item in match((str(folder / "*.*"),), raw).found} == {"raw"}


@pytest.mark.parametrize("name", ["a*.raw", "[1].raw", "what?.raw", "x=y.raw"])
def test_a_name_is_taken_literally_first(tree, name):
    folder = tree(name, "abc.raw", "1.raw")
    assert ids(folder / name) == [os.fsencode(name)]


def rejected(folder):
    (reject,) = match((str(folder),), AUTO).rejects
    assert (reject.stage, reject.segments) == ("match", 0)
    return reject.recording, reject.reason, reject.message


def test_a_folder_that_bears_the_name_of_a_recording_is_a_reject(tree):
    folder = tree("good.raw", "x.raw/readme.txt")
    assert rejected(folder) == (
        b"x.raw",
        Reason.NOT_A_FILE,
        "a folder bears the name of a recording and holds none",
    )


def test_a_pipe_is_a_reject(tree):
    folder = tree("good.raw")
    os.mkfifo(folder / "pipe.raw")
    assert rejected(folder) == (
        b"pipe.raw",
        Reason.NOT_A_FILE,
        "it is no regular file but a pipe, socket or device",
    )


def test_a_link_to_nothing_is_a_reject(tree):
    folder = tree("good.raw")
    os.symlink("gone", folder / "link.raw")
    recording, reason, message = rejected(folder)
    assert (recording, reason) == (b"link.raw", Reason.UNREADABLE)
    assert message == "the file cannot be read: No such file or directory"


def test_a_folder_that_cannot_be_listed_is_a_reject(tree, monkeypatch):
    folder = tree("good.raw", "locked/1.raw")
    scandir = os.scandir

    def refuse(path):
        if os.path.basename(path) == b"locked":
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuse)
    recording, reason, message = rejected(folder)
    assert (recording, reason) == (b"locked", Reason.UNREADABLE)
    assert message == "the folder cannot be listed: Permission denied"


def kinds(*formats):
    return ", ".join(f"*{suffix}" for name in formats for suffix in READERS[name].suffixes)


OTHERS = " (files of other names: give a glob, such as 'folder/**/*.bin', and --input-format)"


def test_inputs_that_cannot_be_matched_are_refused_each_with_its_cause(tree):
    folder = tree("a.raw", "empty/readme.txt")
    assert refused() == "input is not set: name folders, files or globs, such as --input recordings/"
    assert refused(folder, folder / "none") == f"input={folder}/none does not exist"
    assert (
        refused("gs://bucket/x") == "input=gs://bucket/x is no local path: object stores cannot be read yet"
    )
    assert (
        refused(folder / "*.flac")
        == f"input={folder}/*.flac matches no recording: looked for {kinds(*READERS)}{OTHERS}"
    )
    assert refused(folder / "empty", settings=ReadSettings(input_format="wav")) == (
        f"input={folder}/empty matches no recording: looked for {kinds('wav')}{OTHERS}, left out 1 files of other kinds"
    )


def test_an_input_whose_files_were_all_matched_before_is_no_error(tree):
    folder = tree("a/1.raw")
    assert ids(folder, folder / "a") == [b"a/1.raw"]


def test_two_files_of_one_id_are_refused_with_the_cure(tree):
    folder = tree("day1/1.raw", "day2/1.raw")
    message = refused(folder / "day1", folder / "day2")
    assert re.fullmatch(
        r"\S+/day1/1.raw and \S+/day2/1.raw would both be recording 1.raw: give their common parent as input, "
        r"or a name to each input, such as --input a=PATH b=PATH",
        message,
    )
    assert ids(folder) == [b"day1/1.raw", b"day2/1.raw"]


def listed(names, *inputs, beside="/not/there"):
    return match_listed(names, tuple(map(str, inputs)), str(beside), AUTO)


def test_what_a_manifest_lists_is_found_below_the_inputs_or_beside_it(tree):
    folder = tree("a/1.raw", "b.raw", "c.raw")
    for inputs, beside in (((folder,), "/not/there"), ((), folder)):
        matches = listed(["b.raw", "a/1.raw"], *inputs, beside=beside)
        assert [(item.recording, item.listed_as) for item in matches.found] == [
            (b"a/1.raw", "a/1.raw"),
            (b"b.raw", "b.raw"),
        ]
        assert [item.uri for item in matches.found] == [
            os.fsencode(folder / "a/1.raw"),
            os.fsencode(folder / "b.raw"),
        ]
        assert matches.left_out == ({"files not in the manifest": 1} if inputs else {})


def test_absolute_paths_hidden_files_and_any_name_can_be_listed(tree):
    folder = tree("a.raw", ".hidden.raw", "noending")
    matches = listed([str(folder / "a.raw"), ".hidden.raw", "noending"], folder)
    assert [item.listed_as for item in matches.found] == [".hidden.raw", str(folder / "a.raw"), "noending"]
    assert [item.format for item in matches.found] == ["raw", "raw", None]
    assert matches.found[1].recording == b"a.raw"  # as without a manifest


def test_an_absolute_path_outside_the_inputs_is_its_own_id(tree):
    folder = tree("in/a.raw", "out/b.raw")
    (item,) = listed([str(folder / "out/b.raw")], folder / "in").found
    assert item.recording == os.fsencode(folder / "out/b.raw").lstrip(b"/")


def test_what_is_listed_and_no_file_is_a_reject(tree):
    folder = tree("a.raw", "sub.raw/x.raw")
    os.mkfifo(folder / "pipe.raw")
    matches = listed(["a.raw", "gone.raw", "pipe.raw", "sub.raw"], beside=folder)
    assert [(each.recording, each.reason) for each in matches.rejects] == [
        (b"gone.raw", Reason.NOT_FOUND),
        (b"pipe.raw", Reason.NOT_A_FILE),
        (b"sub.raw", Reason.NOT_A_FILE),
    ]
    assert matches.rejects[0].message == (
        f"the manifest names it, and there is no {folder}/gone.raw: correct its uri"
    )
    both = listed(["gone.raw"], folder, folder / "sub.raw").rejects[0].message
    assert both == (
        f"the manifest names it, and there is no {folder}/gone.raw or {folder}/sub.raw/gone.raw: correct its uri"
    )


def test_a_listed_name_that_no_file_can_have_is_a_reject():
    (reject,) = listed(["a\0b.raw"]).rejects
    assert reject.recording == b"a\0b.raw"


def test_a_listed_object_of_a_store_is_told_as_such(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("uri\ngs://bucket/a.raw\n")
    with pytest.raises(ManifestError, match="object stores cannot be read yet"):
        plan_inputs(settings(manifest=str(path)), None)


def test_tables_are_recordings_only_where_they_are_alone_or_named(tree):
    folder = tree("a.raw", "labels.csv", "only/b.csv")
    matches = match((str(folder),), AUTO)
    assert [item.recording for item in matches.found] == [b"a.raw"]
    assert matches.left_out == {"tables beside recordings of other formats": 2}
    assert ids(folder / "only") == [b"b.csv"]
    assert ids(folder, folder / "labels.csv") == [b"a.raw", b"labels.csv"]
    assert ids(folder / "*.*") == [b"a.raw", b"labels.csv"]
    elsewhere = folder.parent / "tables"
    elsewhere.mkdir()
    (elsewhere / "c.csv").write_bytes(b"abc")
    matches = match((str(folder), str(elsewhere)), AUTO)  # alone in an input of its own
    assert [item.recording for item in matches.found] == [b"a.raw", b"c.csv"]
    assert matches.left_out == {"tables beside recordings of other formats": 2}


def test_inputs_may_be_empty_where_that_is_allowed(tree):
    folder = tree("empty/readme.txt")
    assert match((str(folder),), AUTO, may_be_empty=True).found == []
    with pytest.raises(NoMatchError, match="does not exist"):
        match((str(folder / "none"),), AUTO, may_be_empty=True)

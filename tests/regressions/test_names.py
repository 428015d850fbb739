"""Names of files and folders: every byte that a file system allows, and the characters that globs give a meaning."""

from __future__ import annotations

import os
import unicodedata
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.helpers.containers import encode, hdf5, mat73, npy, write
from tests.helpers.pipelines import extract, metadata, read_examples, rejects, run
from tests.helpers.references import assert_spectrum
from tests.helpers.signals import noise, write_raw, write_recordings, write_wav

NFC = unicodedata.normalize("NFC", "é.raw")
NFD = unicodedata.normalize("NFD", "é.raw")
NAMES = [
    "a b.raw",
    " leading and trailing .raw",
    "ü.raw",
    NFC,
    NFD,
    "日本語.raw",
    "🎵.raw",
    "h#1.raw",
    "pct%20.raw",
    "100%.raw",
    "%s{0}$HOME~.raw",
    "a'b\"c`.raw",
    "-x.raw",
    "--input.raw",
    "k=v.raw",
    "s3:x.raw",
    "back\\slash.raw",
    "new\nline.raw",
    "tab\t.raw",
    "star*.raw",
    "question?.raw",
    "[x]1.raw",
    "x1.raw",
    "UPPER.RAW",
    "two.dots.raw",
    "x" * 251 + ".raw",
    os.fsdecode(b"latin-\xe9.raw"),
    os.fsdecode(b"\xff\xfe.raw"),
]


def spectra(dataset: Path) -> dict[bytes, object]:
    """Recording to its one spectrum."""
    examples = read_examples(dataset)
    found = {example["recording"]: example["spectrum"] for example in examples}
    assert len(found) == len(examples)
    return found


def write_all(source: Path) -> dict[bytes, object]:
    """A file of each name, in the folder and below one that is named so; id to samples."""
    samples = {}
    for seed, name in enumerate([*NAMES, *(f"{name}/inside.raw" for name in NAMES[:-2:3])]):
        if (source / name.partition("/")[0]).is_file():
            name = "in " + name.replace(".raw/", "/")
        samples[os.fsencode(name)] = noise(256, seed)
        write_raw(source / name, samples[os.fsencode(name)])
    return samples


def test_every_name_comes_back_as_it_is_on_disk_and_opens_again(tmp_path):
    """A29."""
    source = tmp_path / "source"
    samples = write_all(source)
    extract(source, tmp_path / "out")
    found = spectra(tmp_path / "out")
    assert found.keys() == samples.keys()
    for recording, spectrum in found.items():
        assert os.path.getsize(os.path.join(os.fsencode(source), recording)) == 1024
        assert_spectrum(spectrum, samples[recording])
    assert run("verify", tmp_path / "out").code == 0


def test_every_name_can_be_given_itself_and_is_taken_literally(tmp_path):
    """A29, A30: a list of files opens those files, whatever their names hold."""
    source = tmp_path / "source"
    for seed, name in enumerate(NAMES):
        write_raw(source / name, noise(256, seed))
    every = [argument for name in NAMES for argument in ("--input", source / name)]
    extract(source / NAMES[0], tmp_path / "out", *every)
    found = spectra(tmp_path / "out")
    assert found.keys() == {os.fsencode(name) for name in NAMES}
    for seed, name in enumerate(NAMES):
        assert_spectrum(found[os.fsencode(name)], noise(256, seed))


def test_wav_files_open_under_any_name(tmp_path):
    """A29: libsndfile gets an open file, never a name to decode."""
    names = ["a b.wav", "ü.wav", unicodedata.normalize("NFD", "é.wav"), "h#1.wav", "pct%20.wav", "[x].wav"]
    names.append(os.fsdecode(b"\xff.wav"))
    for seed, name in enumerate(names):
        path = write_wav(tmp_path / "source" / "new.wav", noise(256, seed) / 4, rate=1000, subtype="FLOAT")
        path.rename(path.with_name(name))
    extract(tmp_path / "source", tmp_path / "out")
    found = spectra(tmp_path / "out")
    assert found.keys() == {os.fsencode(name) for name in names}
    for seed, name in enumerate(names):
        assert_spectrum(found[os.fsencode(name)], noise(256, seed) / 4)


FORMATS = {
    "flac": (lambda x: encode("FLAC", "PCM_16", x, 1000), ""),
    "aiff": (lambda x: encode("AIFF", "PCM_16", x, 1000), ""),
    "npy": (npy, ""),
    "h5": (lambda x: hdf5(x=x), "//x"),
    "mat": (lambda x: mat73(x=x[:, None]), "//x"),
    "csv": (lambda x: ("x\n" + "".join(f"{v!r}\n" for v in x.tolist())).encode(), ""),
    "npz": (None, "//x"),
}


@pytest.mark.parametrize("suffix", FORMATS)
def test_files_of_every_format_open_under_any_name(tmp_path, suffix):
    """A29: also where a library would rather have a path; each comes back with its own samples."""
    made, member = FORMATS[suffix]
    samples = {}
    for seed, name in enumerate(NAMES):
        name = name.removesuffix(".raw").removesuffix(".RAW")[:240] + f".{suffix}"
        path = tmp_path / "source" / name
        samples[os.fsencode(name + member)] = np.round(noise(256, seed) * 2**13) / 2**15
        if made is None:
            path.parent.mkdir(exist_ok=True)
            with path.open("wb") as file:
                np.savez(file, x=samples[os.fsencode(name + member)])
        else:
            write(path, made(samples[os.fsencode(name + member)]))
    extract(tmp_path / "source", tmp_path / "out")
    found = spectra(tmp_path / "out")
    assert found.keys() == samples.keys()
    for name, spectrum in found.items():
        assert_spectrum(spectrum, samples[name])
    assert rejects(tmp_path / "out") == []
    assert run("verify", tmp_path / "out").code == 0


MEMBER_NAMES = [
    "a b", "ü", unicodedata.normalize("NFD", "é"), unicodedata.normalize("NFC", "é"), "日本語", "h#1", "pct%20",
    "[x]", "x", "star*", "question?", "a'b\"c", "-x", "k=v", "back\\slash", "new\nline", "re:x", "a,b", "deep/er/x",
]  # fmt: skip


@pytest.mark.parametrize("suffix", ["h5", "npz"])
def test_members_of_every_name_come_back_as_they_are(tmp_path, suffix):
    """A29: the id is path//member, and each has its own samples; composed and decomposed names are two members."""
    samples = {name: noise(256, seed) for seed, name in enumerate(MEMBER_NAMES)}
    path = tmp_path / "source" / f"a b#.{suffix}"
    if suffix == "h5":
        write(path, hdf5(**samples))
    else:
        path.parent.mkdir()
        np.savez(path, **samples)
    extract(tmp_path / "source", tmp_path / "out")
    found = spectra(tmp_path / "out")
    assert found.keys() == {f"{path.name}//{name}".encode() for name in MEMBER_NAMES}
    for name in MEMBER_NAMES:
        assert_spectrum(found[f"{path.name}//{name}".encode()], samples[name])
    ledger = pq.read_table(tmp_path / "out" / "recordings.parquet").to_pylist()
    assert {row["member"] for row in ledger} == set(MEMBER_NAMES)
    assert run("verify", tmp_path / "out").code == 0


def test_a_member_is_chosen_by_a_glob_and_literally_by_a_regular_expression(tmp_path):
    """A30: brackets in a member's name are a glob in `members`; what they match is told by the ids."""
    write(tmp_path / "source" / "a.h5", hdf5(**{"[x]1": noise(256, 1), "x1": noise(256, 2)}))
    extract(tmp_path / "source", tmp_path / "glob", "--members", "[x]1")
    assert spectra(tmp_path / "glob").keys() == {b"a.h5//x1"}
    extract(tmp_path / "source", tmp_path / "exact", "--members", r"re:^\[x\]1$")
    ((name, spectrum),) = spectra(tmp_path / "exact").items()
    assert name == b"a.h5//[x]1"
    assert_spectrum(spectrum, noise(256, 1))


@pytest.mark.parametrize(
    "name", ["[x]*?", "a b#%20", NFD.removesuffix(".raw"), os.fsdecode(b"latin-\xe9")], ids=ascii
)
def test_folders_of_any_name_can_be_input(tmp_path, name):
    """A29, A30."""
    write_recordings(tmp_path / name, 4)
    extract(tmp_path / name, tmp_path / "out")
    assert metadata(tmp_path / "out")["counts"]["recordings"]["used"] == 4
    again = extract(tmp_path / name, tmp_path / "out")
    assert "nothing to do" in again.out


@pytest.mark.parametrize("name", ["[x]*?", "a b#%20", NFD], ids=ascii)
def test_folders_of_any_name_can_be_output(tmp_path, name):
    """A29, A30."""
    write_recordings(tmp_path / "source", 4)
    extract(tmp_path / "source", tmp_path / name)
    assert len(read_examples(tmp_path / name)) == 4
    assert run("verify", tmp_path / name).code == 0
    assert "nothing to do" in extract(tmp_path / "source", tmp_path / name).out


def test_output_that_is_not_utf8_is_refused_before_anything_is_done(tmp_path):
    """A29: Arrow opens only paths in UTF-8."""
    write_recordings(tmp_path / "source", 4)
    output = tmp_path / os.fsdecode(b"latin-\xe9")
    result = extract(tmp_path / "source", output, code=2)
    assert "is not UTF-8" in result.err
    assert not output.exists()


def test_names_that_look_alike_as_text_are_accounted_apart(tmp_path):
    """A29: a byte that is no UTF-8, and a file whose name is the escape that such a byte is shown as."""
    write_recordings(tmp_path / "source", 40)
    bad = noise(256)
    bad[3] = float("nan")
    write_raw(tmp_path / "source" / os.fsdecode(b"n\xff.raw"), bad)
    write_raw(tmp_path / "source" / "n\\xff.raw", noise(256))
    extract(tmp_path / "source", tmp_path / "out")
    assert len(read_examples(tmp_path / "out")) == 41
    assert metadata(tmp_path / "out")["counts"]["recordings"] == {"matched": 42, "used": 41, "rejected": 1}
    ledger = pq.read_table(tmp_path / "out" / "recordings.parquet")
    assert sorted(ledger.column("segments_written").to_pylist()) == [0] + [1] * 41
    assert len(set(ledger.column("id").to_pylist())) == 42
    assert run("verify", tmp_path / "out").code == 0


def test_a_reject_line_names_the_file_whatever_its_name_is(tmp_path):
    """A29: also the lines about files stay one line each, and valid UTF-8."""
    for name in NAMES:
        write_raw(tmp_path / "source" / name, noise(256)).write_bytes(b"123")
    write_recordings(tmp_path / "source", 4)
    extract(tmp_path / "source", tmp_path / "out", "--max-reject-fraction", "0.99")
    lines = rejects(tmp_path / "out")
    assert len(lines) == len(NAMES)
    shown = {os.fsencode(name).decode("utf-8", "backslashreplace") for name in NAMES}
    assert {line["recording"] for line in lines} == shown


def test_composed_and_decomposed_names_fall_into_the_same_split(tmp_path):
    """A29: a copy by way of a file system that decomposes names keeps its splits."""
    splits = {}
    for form in ("NFC", "NFD"):
        source, output = tmp_path / form, tmp_path / f"out-{form}"
        for number in range(40):
            write_raw(source / unicodedata.normalize(form, f"é{number}.raw"), noise(256, number))
        extract(source, output, "--splits", "a=0.5,b=0.5")
        splits[form] = {
            unicodedata.normalize("NFC", example["recording"].decode()): split
            for split in "ab"
            for example in read_examples(output, split)
        }
    assert splits["NFC"] == splits["NFD"]
    assert set(splits["NFC"].values()) == {"a", "b"}


def test_a_name_with_glob_characters_wins_over_the_glob(tmp_path):
    """A30: `[x]1.raw` reads that file; where there is none, it is a glob and reads x1.raw."""
    write_raw(tmp_path / "x1.raw", noise(256, 1))
    pattern = tmp_path / "[x]1.raw"
    extract(pattern, tmp_path / "as-glob")
    assert spectra(tmp_path / "as-glob").keys() == {b"x1.raw"}
    write_raw(pattern, noise(256, 2))
    extract(pattern, tmp_path / "as-name")
    ((recording, spectrum),) = spectra(tmp_path / "as-name").items()
    assert recording == b"[x]1.raw"
    assert_spectrum(spectrum, noise(256, 2))


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("*.raw", {b"top.raw"}),
        ("**/*.raw", {b"top.raw", b"a/one.raw", b"a/b/two.raw"}),
        ("a/*", {b"one.raw", b"b/two.raw"}),
        ("a/o??.raw", {b"one.raw"}),
        ("[!t]*/*.raw", {b"a/one.raw"}),
        ("*/b", {b"a/b/two.raw"}),
    ],
)
def test_globs_match_what_a_shell_matches(tmp_path, monkeypatch, pattern, expected):
    """A30: relative ones too; ids are relative to the folder before the first wildcard."""
    for name in ("top.raw", "a/one.raw", "a/b/two.raw", ".hidden/three.raw", "a/.hidden.raw"):
        write_raw(tmp_path / "source" / name, noise(256))
    extract(tmp_path / "source" / pattern, tmp_path / "out")
    assert spectra(tmp_path / "out").keys() == expected
    monkeypatch.chdir(tmp_path / "source")
    assert "nothing to do" in extract(Path(pattern), tmp_path / "out").out


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("missing.raw", "does not exist"),
        ("missing/", "does not exist"),
        ("*.flac", "matches no recording"),
        ("empty", "matches no recording"),
        ("only-text", "left out 1 files of other kinds"),
        ("only-hidden", "left out 2 hidden files and folders"),
    ],
)
@pytest.mark.parametrize("verb", ["extract", "plan"])
def test_an_input_that_matches_nothing_is_an_error(tmp_path, given, message, verb):
    """A30: also beside an input that does match, since the list was meant as a whole."""
    write_recordings(tmp_path / "good", 4)
    (tmp_path / "empty").mkdir()
    (tmp_path / "only-text").mkdir()
    (tmp_path / "only-text" / "notes.txt").write_text("no samples")
    write_raw(tmp_path / "only-hidden" / ".a.raw", noise(256))
    write_raw(tmp_path / "only-hidden" / ".b" / "c.raw", noise(256))
    result = run(
        verb, "--input", tmp_path / "good", tmp_path / given, "--output", tmp_path / "out",
        "--raw-dtype", "<f4", "--sample-rate", "1000",
    )  # fmt: skip
    assert result.code == 2
    assert message in result.err
    assert given.rstrip("/") in result.err
    assert result.err.count("\n") == 1
    assert not (tmp_path / "out" / "spectrabeam.json").exists()

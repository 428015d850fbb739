"""MAT, NPY and text tables: one result for one content, whatever it was saved as; nothing unpickled, nothing guessed."""

from __future__ import annotations

import hashlib
import io
import os

import numpy as np
import pytest
import scipy.io

from tests.helpers.containers import hdf5, mat73, npy, write
from tests.helpers.datasets import (
    assert_balanced,
    assert_signals,
    ledger,
    messages,
    reasons,
    signals,
    spectra,
)
from tests.helpers.pipelines import extract, metadata, rejects, run
from tests.helpers.references import assert_spectrum
from tests.helpers.signals import noise

ARGUMENTS = ("--splits", "all=1", "--keep-waveform")
MANY = ("--max-reject-fraction", "0.99")


def saved_mat(*, version: str = "5", compress: bool = False, **variables: np.ndarray) -> bytes:
    file = io.BytesIO()
    scipy.io.savemat(file, variables, format=version, do_compression=compress)
    return file.getvalue()


VERSIONS = {
    "v4": lambda **variables: saved_mat(version="4", **variables),
    "v5": saved_mat,
    "v7": lambda **variables: saved_mat(compress=True, **variables),
    "v7.3": mat73,
}


def shards(dataset) -> list[str]:
    return [
        hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(dataset.glob("spectrabeam-*.tfrecord"))
    ]


@pytest.mark.parametrize("shape", ["row", "column"])
@pytest.mark.parametrize("dtype", ["f8", "f4", "i2"])
def test_a_vector_gives_the_same_records_from_every_version_of_mat(tmp_path, shape, dtype):
    """A32: byte by byte; v7.3 is told by its content, and its turned axes are turned back."""
    vector = (1000 * noise(1000)).astype(dtype)
    stored = vector[None] if shape == "row" else vector[:, None]
    found = {}
    for name, save in VERSIONS.items():
        if (name, dtype) == ("v4", "f4"):
            continue  # v4 has no single precision
        write(tmp_path / name / "a.mat", save(x=stored))
        extract(tmp_path / name, tmp_path / f"out-{name}", *ARGUMENTS)
        assert_signals(tmp_path / f"out-{name}", {("a.mat//x", 0): vector})
        assert ledger(tmp_path / f"out-{name}")["a.mat//x"]["format"] == "mat"
        found[name] = shards(tmp_path / f"out-{name}")
    assert set(map(tuple, found.values())) == {tuple(found["v5"])}


@pytest.mark.parametrize("axes", ["time,channel", "channel,time", "recording,time"])
def test_a_matrix_has_matlabs_orientation_in_every_version(tmp_path, axes):
    """A32: beyond vectors; size(x) in MATLAB is what array_axes speaks of, also where HDF5 has it turned round."""
    matrix = np.stack([noise(300, seed) for seed in range(3)], axis=1).astype(np.float64)
    stored = matrix if axes == "time,channel" else matrix.T
    found = {}
    for name, save in VERSIONS.items():
        write(tmp_path / name / "a.mat", save(x=stored))
        extract(tmp_path / name, tmp_path / f"out-{name}", *ARGUMENTS, "--array-axes", axes)
        found[name] = shards(tmp_path / f"out-{name}")
    assert set(map(tuple, found.values())) == {tuple(found["v5"])}
    samples = list(signals(tmp_path / "out-v7.3").values())
    assert sorted(part[0] for part in samples) == sorted(matrix[0].astype(np.float32))
    assert {len(part) for part in samples} == {300}


def test_a_mat_file_is_told_by_content_under_any_name(tmp_path):
    """A32: v7.3 as .h5 and v5 as .bin, given by a glob."""
    vector = noise(500).astype(np.float64)
    write(tmp_path / "in" / "a.h5", mat73(x=vector[:, None]))
    write(tmp_path / "in" / "b.bin", saved_mat(x=vector))
    extract(tmp_path / "in" / "*", tmp_path / "out", *ARGUMENTS)
    assert_signals(tmp_path / "out", {("a.h5//x", 0): vector, ("b.bin//x", 0): vector})


class Trap:
    """Makes a folder where it is unpickled."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


def test_arrays_of_every_order_and_type_are_right_and_objects_are_rejects(tmp_path):
    """A33: F order, big-endian floats and doubles; a pickle is never opened."""
    both = np.stack([noise(16384, 1), noise(16384, 2)], axis=1).astype(np.float64)
    write(tmp_path / "in" / "fortran.npy", npy(np.asfortranarray(both)))
    write(tmp_path / "in" / "big4.npy", npy(both.astype(">f4")))
    write(tmp_path / "in" / "double.npy", npy(both))
    write(tmp_path / "in" / "i2.npy", npy(np.round(both * 1000).astype(">i2")))
    trap = np.array([Trap(tmp_path / "sprung")], object)
    write(tmp_path / "in" / "object.npy", npy(trap, allow_pickle=True))
    write(tmp_path / "in" / "records.npy", npy(np.zeros(100, [("t", "f8"), ("x", "f4")])))
    write(tmp_path / "in" / "text.npy", npy(np.array(["a", "b"])))
    extract(
        tmp_path / "in", tmp_path / "out", "--segment-length", "4096", *ARGUMENTS, *MANY,
        "--array-axes", "time,channel",
    )  # fmt: skip
    stored = {
        "fortran.npy": both,
        "big4.npy": both.astype("f4"),
        "double.npy": both,
        "i2.npy": np.round(both * 1000),
    }
    assert_signals(
        tmp_path / "out", {(name, c): values[:, c] for name, values in stored.items() for c in (0, 1)}
    )
    assert reasons(tmp_path / "out") == dict.fromkeys(
        ("object.npy", "records.npy", "text.npy"), ("plan", "bad_format", 0)
    )
    assert "object" in messages(tmp_path / "out")["object.npy"]
    assert not (tmp_path / "sprung").exists()
    run("inspect", tmp_path / "in" / "object.npy", "--sample-rate", "1000")
    assert not (tmp_path / "sprung").exists()
    assert_balanced(tmp_path / "out")


def test_an_object_among_the_members_of_an_archive_is_never_opened(tmp_path):
    """A33: beyond NPY; it is no recording, the arrays beside it are used, and asked for it is a reject."""
    file = io.BytesIO()
    good = noise(500)
    np.savez(file, x=good, trap=np.array([Trap(tmp_path / "sprung")], object))
    write(tmp_path / "in" / "a.npz", file.getvalue())
    extract(tmp_path / "in", tmp_path / "out", *ARGUMENTS)
    assert_signals(tmp_path / "out", {("a.npz//x", 0): good})
    assert reasons(tmp_path / "out") == {}
    extract(tmp_path / "in", tmp_path / "asked", *ARGUMENTS, *MANY, "--members", "x,trap")
    assert_signals(tmp_path / "asked", {("a.npz//x", 0): good})
    assert reasons(tmp_path / "asked") == {"a.npz//trap": ("plan", "bad_format", 0)}
    assert "object" in messages(tmp_path / "asked")["a.npz//trap"]
    assert not (tmp_path / "sprung").exists()


def test_the_scale_that_is_declared_applies_to_arrays(tmp_path):
    """A33: integers are counts unless something is declared."""
    values = np.array([-32768, 0, 16384, 32767] * 100, np.int16)
    write(tmp_path / "in" / "a.npy", npy(values))
    for scale, factor in (("auto", 1.0), ("none", 1.0), ("pcm", 2.0**-15), ("0.5", 0.5)):
        out = tmp_path / f"out-{scale}"
        extract(tmp_path / "in", out, *ARGUMENTS, "--scale", scale)
        np.testing.assert_array_equal(signals(out)["a.npy", 0], values * np.float32(factor))


ROWS = [(number / 1000, 1.5 * number - 40) for number in range(1, 301)]
GERMAN = "t;x\n" + "".join(f"{t:.3f};{x:.1f}\n" for t, x in ROWS).replace(".", ",")
FOOTER = "Rate 935, overflows 4\n"
VALUES = np.array([x for _, x in ROWS])


def test_a_table_with_decimal_commas_and_a_last_line_of_text_is_read_with_its_options(tmp_path):
    """A34: as many rows as there are; without the option a reject that says which line, and what to set."""
    write(tmp_path / "in" / "a.csv", (GERMAN + FOOTER).encode())
    extract(
        tmp_path / "in", tmp_path / "out", *ARGUMENTS, "--csv-skip-footer", "1", "--csv-decimal", ",",
        "--csv-delimiter", ";", "--csv-columns", "x",
    )  # fmt: skip
    assert_signals(tmp_path / "out", {("a.csv", 0): VALUES})
    row = ledger(tmp_path / "out")["a.csv"]
    assert (row["sample_rate"], row["frames"], row["channel_names"]) == (1000, 300, ["x"])
    write(tmp_path / "in" / "good.csv", GERMAN.encode())
    extract(tmp_path / "in", tmp_path / "without", *ARGUMENTS, *MANY)
    assert_signals(tmp_path / "without", {("good.csv", 0): VALUES})
    assert reasons(tmp_path / "without") == {"a.csv": ("plan", "bad_format", 0)}
    message = messages(tmp_path / "without")["a.csv"]
    assert message.startswith("line 302: ")
    assert "Rate 935" in message
    assert "csv_skip_footer" in message


TABLES = {  # name: (text, arguments)
    "header": ("t,x,y\n" + "".join(f"{t},{x},{-x}\n" for t, x in ROWS), ("--csv-columns", "x")),
    "number": ("t,x,y\n" + "".join(f"{t},{x},{-x}\n" for t, x in ROWS), ("--csv-columns", "1")),
    "no header": ("".join(f"{t},{x}\n" for t, x in ROWS), ("--csv-time", "0", "--csv-columns", "1")),
    "preamble": (
        "Logger 7\nserial;12\n\nt,x\n" + "".join(f"{t},{x}\n" for t, x in ROWS),
        ("--csv-skip-rows", "3"),
    ),
    "tabs": ("t\tx\n" + "".join(f"{t}\t{x}\n" for t, x in ROWS), ("--csv-delimiter", "tab")),
    "moved": ("note,x,t\n" + "".join(f"a,{x},{t}\n" for t, x in ROWS), ("--csv-columns", "x", "--csv-time", "t")),
    "windows": ("\ufefft;x\r\n" + "".join(f"{t};{x}\r\n" for t, x in ROWS), ()),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_columns_go_by_name_or_number_whatever_stands_around_them(tmp_path, name):
    """A34: never by a fixed index."""
    text, arguments = TABLES[name]
    write(tmp_path / "in" / "a.csv", text.encode())
    extract(tmp_path / "in", tmp_path / "out", *ARGUMENTS, *arguments)
    assert_signals(tmp_path / "out", {("a.csv", 0): VALUES})
    assert metadata(tmp_path / "out")["sample_rate"] == 1000


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("0.150,oops", "oops"),
        ("0.150", "1 field"),
        ("0.150,1,2", "3 fields"),
        ("# restarted", "restarted"),
        ("0.150,0x1F", "0x1F"),
        ("0.150,1_000", "1_000"),
    ],
)
def test_a_bad_line_is_a_reject_with_its_number(tmp_path, line, what):
    """A34: in the middle of the table, which must not be used up to there, nor without it."""
    lines = ["t,x", *(f"{t:.3f},{x}" for t, x in ROWS)]
    write(tmp_path / "in" / "good.csv", "\n".join(lines).encode())
    lines[150] = line
    write(tmp_path / "in" / "bad.csv", "\n".join(lines).encode())
    extract(tmp_path / "in", tmp_path / "out", *ARGUMENTS, *MANY)
    assert_signals(tmp_path / "out", {("good.csv", 0): VALUES})
    assert reasons(tmp_path / "out") == {"bad.csv": ("plan", "bad_format", 0)}
    message = messages(tmp_path / "out")["bad.csv"]
    assert message.startswith("line 151: ")
    assert what in message


@pytest.fixture
def bearing(tmp_path):
    """174.mat whose variables bear another number, and a file of the right one."""
    signals = {"X173_DE_time": noise(600, 1), "X174_FE_time": noise(600, 2)}
    rpm = np.array([[1797]], np.uint16)
    arrays = {name: values[:, None].astype(np.float64) for name, values in signals.items()}
    write(tmp_path / "in" / "174.mat", saved_mat(**arrays, X173RPM=rpm))
    write(tmp_path / "in" / "175.mat", saved_mat(X175_DE_time=noise(600, 3)[:, None], X175RPM=rpm))
    return tmp_path


@pytest.mark.parametrize("pattern", ["*_DE_time", "re:_DE_time$", "X*_DE_time", r"re:^X\d{3}_DE"])
def test_variables_go_by_pattern_and_not_by_place(bearing, pattern):
    """A35: the number in the name need not be the file's."""
    extract(bearing / "in", bearing / "out", *ARGUMENTS, "--members", pattern)
    assert_signals(
        bearing / "out",
        {("174.mat//X173_DE_time", 0): noise(600, 1), ("175.mat//X175_DE_time", 0): noise(600, 3)},
    )
    assert reasons(bearing / "out") == {}


def test_a_pattern_that_fits_nothing_is_a_reject_that_lists_the_candidates(bearing):
    """A35: X174_DE_time is not in 174.mat; and no other variable is taken in its place."""
    extract(bearing / "in", bearing / "out", *ARGUMENTS, *MANY, "--members", "X174_DE_time,X175_DE_time")
    assert_signals(bearing / "out", {("175.mat//X175_DE_time", 0): noise(600, 3)})
    assert reasons(bearing / "out") == {"174.mat": ("plan", "no_member", 0)}
    message = messages(bearing / "out")["174.mat"]
    for name in ("X174_DE_time", "X173_DE_time", "X174_FE_time"):
        assert name in message


def test_a_pattern_that_fits_several_gives_each_its_own_recording(bearing):
    """A35: with its name in the id; the two sensors of a file are in one split."""
    extract(bearing / "in", bearing / "out", *ARGUMENTS, "--members", "*_time", "--splits", "a=0.5,b=0.5")
    rows = ledger(bearing / "out")
    assert set(rows) == {"174.mat//X173_DE_time", "174.mat//X174_FE_time", "175.mat//X175_DE_time"}
    assert rows["174.mat//X173_DE_time"]["split"] == rows["174.mat//X174_FE_time"]["split"]
    assert_signals(
        bearing / "out",
        {
            ("174.mat//X173_DE_time", 0): noise(600, 1),
            ("174.mat//X174_FE_time", 0): noise(600, 2),
            ("175.mat//X175_DE_time", 0): noise(600, 3),
        },
    )


@pytest.mark.parametrize("kind", ["h5", "npz", "mat"])
def test_members_are_chosen_alike_in_every_container(tmp_path, kind):
    """A35: beyond MAT; also a member deep in groups goes by its last name."""
    one, two = noise(600, 1), noise(600, 2)
    if kind == "h5":
        content, names = hdf5(**{"run1/X9_DE_time": one, "run1/X9_FE_time": two}), "run1/"
    else:
        file = io.BytesIO()
        if kind == "npz":
            np.savez(file, X9_DE_time=one, X9_FE_time=two)
        else:
            scipy.io.savemat(file, {"X9_DE_time": one, "X9_FE_time": two})
        content, names = file.getvalue(), ""
    write(tmp_path / "in" / f"a.{kind}", content)
    extract(tmp_path / "in", tmp_path / "out", *ARGUMENTS, "--members", "*_DE_time")
    assert_signals(tmp_path / "out", {(f"a.{kind}//{names}X9_DE_time", 0): one})
    extract(tmp_path / "in", tmp_path / "none", *ARGUMENTS, "--members", "*_BA_time", code=3)
    (line,) = rejects(tmp_path / "none")
    assert (line["recording"], line["reason"]) == (f"a.{kind}", "no_member")
    assert "X9_DE_time" in line["message"]
    assert "X9_FE_time" in line["message"]


def test_spectra_of_doubles_are_those_of_float64(tmp_path):
    """A32, A33: what float32 cannot hold is rounded once, and nothing more."""
    samples = 1e-3 * noise(256).astype(np.float64) + 1e-9
    write(tmp_path / "in" / "a.mat", saved_mat(x=samples))
    write(tmp_path / "in" / "b.npy", npy(samples))
    extract(tmp_path / "in", tmp_path / "out", "--splits", "all=1")
    for spectrum in spectra(tmp_path / "out").values():
        assert_spectrum(spectrum, samples)

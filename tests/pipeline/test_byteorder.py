"""Bytes the other way round: a warning for what would be far smoother swapped, and none for anything else."""

import numpy as np
import pytest

from spectrabeam.pipeline.byteorder import maybe_byteswapped
from spectrabeam.transforms.elements import Source
from spectrabeam.transforms.formats.settings import ReadSettings
from tests.helpers.pipelines import run
from tests.helpers.recordings import tone
from tests.helpers.signals import write_raw


@pytest.fixture
def warning(tmp_path):
    """What is told of samples stored as one type and declared as another."""

    def write(samples, stored, declared, overrides="", channels=1, format="raw"):
        path = write_raw(tmp_path / "a.raw", samples, stored)
        frames = len(samples)
        source = Source(
            str(path).encode(), b"a.raw", format, path.stat().st_size, "", overrides, frames, 16_000.0
        )
        return maybe_byteswapped(source, "a.raw", ReadSettings(raw_dtype=declared, raw_channels=channels))

    return write


SINE = tone(16_000, 1000 / 16_000, 10_000)


def test_a_tone_of_the_other_byte_order_is_a_warning(warning):
    text = warning(SINE, ">i2", "<i2")
    assert text.startswith("maybe_byteswapped: the samples of a.raw are ")
    assert text.endswith(" times smoother as >i2 than as raw_dtype=<i2: check the byte order")
    # of white noise the steps have twice the variance, of a sine 2 − 2 cos ω: 1 over 1 − cos(2π/16) = 13
    assert 6 < int(text.split(" are ")[1].split()[0]) < 20


@pytest.mark.parametrize("dtype", ["<i2", ">i2", "<i4", ">f4", "<f8"])
def test_a_tone_of_the_declared_byte_order_is_none(warning, dtype):
    assert warning(SINE, dtype, dtype) is None


@pytest.mark.parametrize(
    ("stored", "declared"), [(">i4", "<i4"), (">f4", "<f4"), ("<f8", ">f8"), (">u2", "<u2")]
)
def test_every_type_of_several_bytes_is_looked_at(warning, stored, declared):
    samples = SINE + 20_000 if "u" in stored else SINE
    assert f"as {stored} than as raw_dtype={declared}: check the byte order" in warning(
        samples, stored, declared
    )


@pytest.mark.parametrize("dtype", ["<i2", ">i2", "<f4", ">f4"])
@pytest.mark.parametrize("seed", range(3))
def test_noise_is_none(warning, dtype, seed):
    samples = 3000 * np.random.default_rng(seed).standard_normal(16_000)
    assert warning(samples, dtype, dtype) is None


@pytest.mark.parametrize("samples", [np.zeros(1000), np.full(1000, 256), SINE[:63], SINE[:0]])
def test_silence_and_very_few_samples_are_none(warning, samples):
    if len(samples):
        assert warning(samples, ">i2", "<i2") is None


def test_quiet_integers_of_the_declared_byte_order_are_none(warning):
    assert warning(np.random.default_rng(0).integers(-3, 4, 16_000), "<i2", "<i2") is None
    assert warning(np.round(tone(16_000, 0.01, 3)), "<i2", "<i2") is None


def test_types_of_one_byte_and_other_formats_are_none(warning):
    assert warning(SINE / 100, "i1", "i1") is None
    assert warning(SINE, ">i2", "<i2", format="wav") is None


def test_the_type_that_a_sidecar_states_is_looked_at(warning):
    assert warning(SINE, ">i2", "<f4", overrides='{"raw_dtype": "<i2"}') is not None
    assert warning(SINE, ">i2", "<i2", overrides='{"raw_dtype": ">i2"}') is None


def test_a_file_that_is_gone_is_none():
    source = Source(b"/not/there.raw", b"there.raw", "raw", 2000, "", "", 1000, 1.0)
    assert maybe_byteswapped(source, "a", ReadSettings(raw_dtype="<i2")) is None


@pytest.mark.parametrize("verb", ["plan", "inspect"])
def test_plan_and_inspect_tell_it(tmp_path, verb):
    path = write_raw(tmp_path / "in" / "a.raw", SINE, ">i2")
    given = (path,) if verb == "inspect" else ("--input", path.parent, "--splits", "all=1")
    common = ("--sample-rate", 16_000, "--segment-length", 4000, "--jit", "off")
    for dtype, told in (("<i2", True), (">i2", False)):
        result = run(verb, *given, "--raw-dtype", dtype, *common)
        assert result.code == 0, result.err
        assert ("maybe_byteswapped: the samples of a.raw" in result.out) is told

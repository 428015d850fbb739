"""inspect --example and --plot."""

import numpy as np
import pytest

from tests.helpers.pipelines import extract, read_examples, run
from tests.helpers.signals import noise, write_raw

pytest.importorskip("matplotlib")
from matplotlib import image

CONFIG = """
features:
  spectrum:
  complex:
  stft: {frame_length: 64, frame_step: 32}
  parts: {kind: stft, frame_length: 64, frame_step: 32, values: complex}
  octaves: {kind: octave_bands, fraction: 1}
  indicators:
"""


@pytest.fixture(scope="module", params=["plain", "stacked"])
def dataset(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("plot")
    for number in range(8):
        samples = noise(4 * 256, number)
        both = np.stack([samples, samples[::-1]], axis=1)
        write_raw(folder / "in" / f"{number}.raw", samples if request.param == "plain" else both)
    (folder / "run.yaml").write_text(CONFIG)
    more = () if request.param == "plain" else ("--raw-channels", 2, "--channels", "stack")
    keep = "--keep-waveform=int16" if request.param == "plain" else "--keep-waveform"
    if request.param == "plain":
        for path in (folder / "in").iterdir():
            write_raw(path, (1000 * noise(4 * 256, int(path.stem))).astype("<i2"), "<i2")
        more = ("--raw-dtype", "<i2")
    extract(folder / "in", folder / "out", "--config", folder / "run.yaml", keep, *more)
    return folder / "out"


def test_a_picture_is_drawn(dataset, tmp_path):
    shown = run("inspect", dataset, "--example", 9, "--plot", tmp_path / "nine.png")
    assert shown.code == 0, shown.err
    pixels = image.imread(tmp_path / "nine.png")
    assert pixels.shape[0] > 1500  # a panel for the waveform and each feature
    assert len(np.unique(pixels.reshape(-1, 4), axis=0)) > 100
    expected = read_examples(dataset)[9]
    assert f"recording {expected['recording'].decode()}" in shown.out
    assert f"start {expected['start']}" in shown.out


def test_what_cannot_be_shown_is_said(dataset, tmp_path):
    assert "example=999 must be from 0 to 31" in run("inspect", dataset, "--example", 999).err
    assert "example=-1 must be from 0 to 31" in run("inspect", dataset, "--example", -1).err
    refused = run("inspect", dataset, "--plot", tmp_path / "x.docx")
    assert refused.code == 2
    assert "x.docx cannot be written" in refused.err
    refused = run("inspect", dataset, "--plot", tmp_path / "no" / "x.png")
    assert "x.png cannot be written" in refused.err
    write_raw(tmp_path / "a.raw", noise(10))
    assert "example and plot are for datasets" in run("inspect", tmp_path / "a.raw", "--plot", "x.png").err

"""Kinds that keep everything lead back to the samples."""

import re

import numpy as np
import pytest
import scipy.signal
import tensorflow as tf
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from spectrabeam.transforms import frontend
from spectrabeam.transforms.features.frames import Stft
from spectrabeam.transforms.features.invert import from_complex, from_stft
from spectrabeam.transforms.features.spectrum import Complex

ROWS = np.random.default_rng(4).standard_normal((3, 1000)).astype(np.float32)


def compute(kind, rows, precision="float32"):
    features = frontend.build_features({"key": kind}, rows.shape[1], 1000.0)
    return frontend.compute_features(features, tf.constant(rows), None, precision)["key"]


@pytest.mark.parametrize("settings", [{}, {"fft_length": 1024}, {"fft_length": 2001}, {"window": "hamming"}])
def test_complex_spectra_lead_back(settings):
    kind = Complex(**settings)
    back = from_complex(compute(kind, ROWS), kind, 1000)
    assert np.abs(back - ROWS).max() <= 5e-6 * np.abs(ROWS).max()
    exact = from_complex(compute(kind, ROWS, "float64"), kind, 1000)
    assert np.abs(exact - ROWS).max() <= 1e-13 * np.abs(ROWS).max()


@given(
    length=st.integers(2, 64),
    overlap=st.floats(0.5, 0.95),
    window=st.sampled_from(["hann", "hamming", "blackman", "boxcar"]),
    zeros=st.integers(0, 40),
)
@hypothesis_settings(deadline=None, max_examples=40)
def test_frames_lead_back_wherever_windows_reach(length, overlap, window, zeros):
    step = max(1, int(length * (1 - overlap)))
    kind = Stft(
        values="complex", frame_length=length, frame_step=step, fft_length=length + zeros, window=window
    )
    if not scipy.signal.check_NOLA(scipy.signal.get_window(window, length), length, length - step):
        with pytest.raises(ValueError, match="NOLA"):
            from_stft(compute(kind, ROWS, "float64"), kind, 1000)
        return
    samples, known = from_stft(compute(kind, ROWS, "float64"), kind, 1000)
    assert samples.shape == ROWS.shape
    frames = 1 + (1000 - length) // step
    assert known[length : (frames - 1) * step].all()  # all but the edges
    assert np.abs((samples - ROWS).numpy()[:, known]).max() <= 1e-9
    assert not samples.numpy()[:, ~known].any()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"band": (0, 100)}, "band=(0.0, 100.0) is not undone"),
        ({"integrate": 1}, "integrate=1 is not undone"),
        ({"fft_length": 500}, "fft_length=500 is not undone"),
        ({"window": "hann"}, "window=hann is not undone"),
    ],
)
def test_what_settings_have_left_out_is_named(settings, message):
    kind = Complex(**settings)
    with pytest.raises(ValueError, match=re.escape(message)):
        from_complex(compute(kind, ROWS), kind, 1000)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"values": "log"}, "values=log, band=None"),
        ({"values": "complex", "frame_step": 512}, "window=hann leaves samples out at frame_step=512 (NOLA)"),
        ({"values": "complex", "frame_step": 600}, "frame_step=600 (NOLA)"),
    ],
)
def test_frames_that_do_not_lead_back_are_refused(settings, message):
    kind = Stft(**settings)
    with pytest.raises(ValueError, match=re.escape(message)):
        from_stft(compute(kind, ROWS), kind, 1000)


def test_values_that_do_not_fit_are_refused():
    kind = frontend.KINDS["complex"]()
    values = tf.zeros((2, 33, 2))
    assert from_complex(values, kind, 64).shape == (2, 64)
    for bins, length, is_complex in ((33, 60, False), (64, 64, False), (33, 64, True)):
        with pytest.raises(ValueError, match=f"values have {bins} bins, and {length} points of"):
            from_complex(tf.zeros((2, bins, 2)), kind, length, is_complex=is_complex)
    framed = frontend.KINDS["stft"](values="complex", frame_length=16, frame_step=8)
    with pytest.raises(ValueError, match="values have 8 bins, and 16 points of real samples give 9"):
        from_stft(tf.zeros((2, 7, 8, 2)), framed, 64)
    with pytest.raises(ValueError, match="values have 5 frames, which segment_length=64 does not give"):
        from_stft(tf.zeros((2, 5, 9, 2)), framed, 64)

"""The simulated bearing vibration: its peaks are where the module says, and nowhere where they should not be."""

import json

import numpy as np
import pytest
import scipy.signal

from spectrabeam.pipeline.sample import (
    BALL_TO_PITCH,
    BALLS,
    BIN_HZ,
    CLASSES,
    FAULTS,
    SAMPLE_RATE,
    SAMPLES,
    SHAFT_AMPLITUDES,
    SHAFT_BINS,
    simulate,
    write_sample,
)
from spectrabeam.pipeline.settings import SettingsError
from tests.helpers.references import magnitude


def capture(condition, shaft_bin=20, seed=0):
    return simulate(condition, shaft_bin, np.random.default_rng(seed))


def envelope(samples, resonance_hz):
    """Magnitudes of the squared envelope around a resonance, by bin (Randall & Antoni 2011, section 5)."""
    band = [resonance_hz - 700, resonance_hz + 700]
    filter_ = scipy.signal.butter(4, band, "bandpass", fs=SAMPLE_RATE, output="sos")
    squared = np.abs(scipy.signal.hilbert(scipy.signal.sosfiltfilt(filter_, samples.astype(np.float64)))) ** 2
    return np.abs(np.fft.rfft(squared - squared.mean()))


def prominence(spectrum, bin_):
    """How far the largest of three bins around `bin_` stands above the median of its neighbourhood."""
    near = round(bin_)
    return spectrum[near - 1 : near + 2].max() / np.median(spectrum[near - 12 : near + 13])


def test_captures_are_as_long_as_one_segment_and_differ_by_seed_alone():
    assert CLASSES == ("ball", "inner_race", "outer_race", "normal")
    for condition in CLASSES:
        samples = capture(condition)
        assert (samples.shape, samples.dtype) == ((SAMPLES,), np.float32)
        np.testing.assert_array_equal(samples, capture(condition))
        assert not np.array_equal(samples, capture(condition, seed=1))
    assert (SAMPLES, BIN_HZ) == (16384, SAMPLE_RATE / 16384)


@pytest.mark.parametrize("shaft_bin", SHAFT_BINS)
@pytest.mark.parametrize("condition", CLASSES)
def test_shaft_harmonics_lie_on_their_bins_with_half_a_n(condition, shaft_bin):
    spectrum = magnitude(capture(condition, shaft_bin))
    for order, amplitude in enumerate(SHAFT_AMPLITUDES, 1):
        found = spectrum[order * shaft_bin]
        around = np.median(spectrum[order * shaft_bin - 6 : order * shaft_bin + 7])
        # 205 to 820 are expected. Noise of σ = 0.05 adds 0.05·√N = 6.4 rms to a bin; an inner race's impulses
        # swell once a turn, which leaves up to 25 at the shaft's rate itself.
        assert found == pytest.approx(amplitude * SAMPLES / 2, abs=50 if condition == "inner_race" else 25)
        assert found > 8 * around


def test_characteristic_frequencies_follow_from_the_geometry():
    outer, inner = FAULTS["outer_race"][0], FAULTS["inner_race"][0]
    assert outer + inner == pytest.approx(BALLS)  # each ball passes both races
    assert outer / inner == pytest.approx((1 - BALL_TO_PITCH) / (1 + BALL_TO_PITCH))
    assert FAULTS["ball"][0] == pytest.approx(1 / BALL_TO_PITCH - BALL_TO_PITCH)


@pytest.mark.parametrize("shaft_bin", SHAFT_BINS)
@pytest.mark.parametrize("condition", FAULTS)
def test_impulse_frequency_is_in_the_envelope_of_its_fault_and_not_of_a_sound_bearing(condition, shaft_bin):
    per_turn, resonance_hz = FAULTS[condition]
    expected = per_turn * shaft_bin
    damaged = envelope(capture(condition, shaft_bin), resonance_hz)
    search = slice(round(0.8 * expected), round(1.25 * expected))
    assert abs(damaged[search].argmax() + search.start - expected) <= 1
    assert prominence(damaged, expected) > 6
    sound = envelope(capture("normal", shaft_bin), resonance_hz)
    assert prominence(sound, expected) < 5
    assert damaged[round(expected) - 1 : round(expected) + 2].max() > 100 * sound.max()


@pytest.mark.parametrize(("condition", "turns"), [("inner_race", 1.0), ("ball", 0.5 * (1 - BALL_TO_PITCH))])
def test_impulses_that_pass_the_load_zone_swell_with_it(condition, turns):
    per_turn, resonance_hz = FAULTS[condition]
    spectrum = envelope(capture(condition), resonance_hz)
    for side in (-1, 1):
        assert prominence(spectrum, 20 * (per_turn + side * turns)) > 4
    steady = envelope(capture("outer_race"), FAULTS["outer_race"][1])
    assert prominence(steady, 20 * (FAULTS["outer_race"][0] + turns)) < 3


@pytest.mark.parametrize("condition", FAULTS)
def test_a_fault_rings_its_resonance(condition):
    resonance = round(FAULTS[condition][1] / BIN_HZ)
    band = slice(resonance - 200, resonance + 200)
    damaged, sound = magnitude(capture(condition))[band], magnitude(capture("normal"))[band]
    assert np.sum(damaged**2) > 20 * np.sum(sound**2)
    power, edges = damaged**2, np.arange(400) - 200
    assert abs(np.average(edges, weights=power)) < 40  # the band's power is centred on it


def test_files_are_headerless_float32_one_folder_a_class(tmp_path):
    told = write_sample(str(tmp_path / "out"), 18, seed=3)
    files = sorted((tmp_path / "out").glob("*/*.raw"))
    assert len(files) == 18
    assert {path.parent.name for path in files} == set(CLASSES)
    for number, (condition, shaft_bin) in {
        0: ("ball", 18),
        7: ("normal", 19),
        17: ("inner_race", 18),
    }.items():
        path = tmp_path / "out" / condition / f"shaft{shaft_bin}_{number:05d}.raw"
        expected = simulate(condition, shaft_bin, np.random.default_rng([3, number]))
        np.testing.assert_array_equal(np.fromfile(path, "<f4"), expected)
    assert "18 simulated captures of 16384 samples in 4 classes" in told
    assert "--raw-dtype '<f4' --sample-rate 25600" in told


def test_the_peaks_are_written_down_beside_the_files(tmp_path):
    write_sample(str(tmp_path), 1, seed=0)
    about = json.loads((tmp_path / "about.json").read_text())
    assert about["shaft_hz"] == [shaft_bin * 1.5625 for shaft_bin in SHAFT_BINS]
    assert about["shaft_amplitudes"] == list(SHAFT_AMPLITUDES)
    assert about["impulses_per_turn"] == {name: fault[0] for name, fault in FAULTS.items()}
    assert about["resonance_hz"] == {name: fault[1] for name, fault in FAULTS.items()}
    assert (about["raw_dtype"], about["sample_rate"]) == ("<f4", 25600)


def test_the_first_files_do_not_depend_on_how_many_follow(tmp_path):
    for name, count in (("few", 5), ("many", 9)):
        write_sample(str(tmp_path / name), count, seed=0)
    for path in (tmp_path / "few").glob("*/*.raw"):
        other = tmp_path / "many" / path.relative_to(tmp_path / "few")
        assert other.read_bytes() == path.read_bytes()


def test_wrong_counts_and_used_folders_are_refused(tmp_path):
    with pytest.raises(SettingsError, match=r"^count=0 must be 1 or more, and seed=0 0 or more$"):
        write_sample(str(tmp_path / "new"), 0, seed=0)
    assert not (tmp_path / "new").exists()
    (tmp_path / "mine.txt").write_text("kept")
    with pytest.raises(SettingsError, match=r"is not empty: name a new folder$"):
        write_sample(str(tmp_path), 1, seed=0)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]

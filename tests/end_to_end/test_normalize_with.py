"""Features that are normalised by the statistics of another dataset."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

from spectrabeam.transforms.statistics import from_file
from tests.helpers.pipelines import extract, hashes, metadata, read_examples, run
from tests.helpers.signals import noise, write_raw

L = 256
FEATURES = ("--features", "log_spectrum,indicators,stft", "--splits", "train=0.7,test=0.3")
STFT = ("--segment-length", 1024)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("normalize")
    for number in range(8):
        write_raw(folder / "old" / f"{number}.raw", noise(8 * 1024 + 100, number))
        write_raw(folder / "new" / f"{number}.raw", 2 * noise(4 * 1024 + 100, 50 + number))
    extract(folder / "old", folder / "base", *FEATURES, *STFT)
    extract(folder / "new", folder / "plain", *FEATURES, *STFT)
    extract(folder / "new", folder / "out", *FEATURES, *STFT, "--normalize-with", folder / "base")
    return folder


def by_place(dataset):
    return {(example["recording"], example["start"]): example for example in read_examples(dataset)}


def test_values_are_those_without_it_less_the_mean_over_the_deviation(made):
    statistics = from_file(str(made / "base" / "statistics.npz"))
    plain, found = by_place(made / "plain"), by_place(made / "out")
    assert plain.keys() == found.keys()
    for place, example in found.items():
        for key, each in statistics.items():
            assert (each.std > 0).all()
            expected = (plain[place][key].astype(np.float64) - each.mean) / each.std
            limit = 1e-5 * np.maximum(1, np.abs(each.mean) / each.std)
            assert (np.abs(example[key] - expected) <= limit).all()


def test_normalising_a_dataset_by_itself_gives_mean_0_and_deviation_1(made, tmp_path):
    extract(made / "old", tmp_path / "again", *FEATURES, *STFT, "--normalize-with", made / "base")
    for each in from_file(str(tmp_path / "again" / "statistics.npz")).values():
        assert np.abs(each.mean).max() < 1e-4
        assert each.std == pytest.approx(1, abs=1e-4)


def test_the_saved_model_gives_what_is_stored(made, tmp_path):
    extract(
        made / "new",
        tmp_path / "kept",
        *FEATURES,
        *STFT,
        "--keep-waveform",
        "--normalize-with",
        made / "base",
    )
    examples = [example for example in read_examples(tmp_path / "kept") if example["valid"] == 1024]
    saved = tf.saved_model.load(str(tmp_path / "kept" / "frontend")).signatures["serving_default"]
    found = saved(waveform=np.stack([example["waveform"] for example in examples]))
    for key in ("spectrum", "stft", "indicators"):
        stored = np.stack([example[key] for example in examples])
        assert np.abs(found[key].numpy() - stored).max() <= 1e-5 * np.abs(stored).max()


def test_it_is_told_in_metadata_and_inspect(made):
    about = metadata(made / "out")
    assert about["settings"]["normalize_with"] == str(made / "base")
    assert about["normalized_by"]
    assert about["frontend"] != metadata(made / "plain")["frontend"]
    assert metadata(made / "plain")["normalized_by"] is None
    assert f"Normalised  by the statistics of {made / 'base'}" in run("inspect", made / "out").out
    assert run("verify", made / "out").code == 0


def test_plan_tries_it(made):
    result = run(
        "plan", "--input", made / "new", "--raw-dtype", "<f4", "--sample-rate", 1000, *FEATURES, *STFT,
        "--normalize-with", made / "base",
    )  # fmt: skip
    assert result.code == 0, result.err
    assert "Nothing was written" in result.out


def test_a_run_is_repeated_from_its_metadata(made, tmp_path):
    extract(made / "new", tmp_path / "again", *STFT, "--config", made / "out" / "spectrabeam.json")
    assert hashes(tmp_path / "again") == hashes(made / "out")


def test_the_same_statistics_elsewhere_are_the_same(made, tmp_path):
    shutil.copytree(made / "base", tmp_path / "base")
    result = extract(made / "new", made / "out", *FEATURES, *STFT, "--normalize-with", tmp_path / "base")
    assert "nothing to do" in result.out


@pytest.mark.parametrize("more", [(), ("--normalize-with", "other")])
def test_other_statistics_are_another_dataset(made, tmp_path, more):
    if more:
        extract(made / "new", tmp_path / "other", *FEATURES, *STFT)
        more = ("--normalize-with", tmp_path / "other")
    err = extract(made / "new", made / "out", *FEATURES, *STFT, *more, code=2).err
    assert (
        f"was normalised by the statistics of {made / 'base'}: set normalize_with={made / 'base'}, or" in err
    )


def test_an_unfinished_run_with_other_statistics_is_not_finished_with_these(made, tmp_path):
    extract(made / "old", tmp_path / "base", *FEATURES, *STFT)
    arguments = (*FEATURES, *STFT, "--num-shards", 4, "--normalize-with", tmp_path / "base")
    extract(made / "new", tmp_path / "out", *arguments)
    (tmp_path / "out" / "spectrabeam.json").unlink()
    shutil.rmtree(tmp_path / "base")
    extract(made / "new", tmp_path / "base", *FEATURES, *STFT)
    said = f"was normalised by the statistics of {tmp_path / 'base'}, which have changed since: restore them"
    assert said in extract(made / "new", tmp_path / "out", *arguments, code=2).err
    extract(made / "new", tmp_path / "once", *arguments)
    extract(made / "new", tmp_path / "out", *arguments, "--overwrite")
    assert hashes(tmp_path / "out") == hashes(tmp_path / "once")


def refused(made, *arguments):
    """The message of a run that reads the other dataset's statistics in vain."""
    return extract(made / "new", made / "refused", *arguments, code=2).err


def test_a_bin_without_deviation_is_centred(tmp_path):
    for number in range(4):
        write_raw(tmp_path / "in" / f"{number}.raw", np.zeros(4 * L, np.float32))
        write_raw(tmp_path / "new" / f"{number}.raw", noise(4 * L, number))
    extract(tmp_path / "in", tmp_path / "base")
    extract(tmp_path / "new", tmp_path / "plain")
    extract(tmp_path / "new", tmp_path / "out", "--normalize-with", tmp_path / "base")
    plain = by_place(tmp_path / "plain")
    for place, example in by_place(tmp_path / "out").items():
        expected = plain[place]["spectrum"] - np.log(1e-6)
        assert example["spectrum"] == pytest.approx(expected, abs=1e-5)


def test_what_does_not_fit_is_refused(made, tmp_path):
    with_base = ("--normalize-with", made / "base")
    said = f"normalize_with={made / 'base'}"
    err = refused(made, "--normalize-with", tmp_path / "none", *FEATURES, *STFT)
    assert f"normalize_with={tmp_path / 'none'}: " in err
    assert "name a dataset of spectrabeam" in err
    err = refused(made, "--features", "psd", *STFT, *with_base)
    assert f"{said} has no feature psd, only indicators, spectrum, stft: name" in err
    err = refused(made, "--features", "log_spectrum", "--window", "hann", *STFT, *with_base)
    assert f"{said}: spectrum has other settings, " in err
    err = refused(made, "--features", "log_spectrum", "--segment-length", 512, *with_base)
    assert f"{said}: spectrum has other axes, " in err
    err = refused(made, "--features", "log_spectrum", *STFT, "--scale", "0.5", *with_base)
    assert f"{said}: spectrum has other scale of samples, auto there and 0.5 here: use the same" in err
    err = refused(made, "--features", "log_spectrum", *STFT, "--sensitivity", 100, *with_base)
    assert f"{said}: spectrum has other sensitivity, None there and 100.0 here: use the same" in err
    err = refused(made, *FEATURES, *STFT, "--normalize-with", made / "out")
    assert f"was itself normalised: name {made / 'base'}, with which it was" in err
    assert not (made / "refused").exists()


def test_a_dataset_that_was_not_normalised_is_not_taken_for_one_that_is(made):
    arguments = (made / "new", made / "plain", *FEATURES, *STFT, "--normalize-with", made / "base")
    assert "was not normalised: leave normalize_with out, or use another" in extract(*arguments, code=2).err


def test_a_dataset_is_not_normalised_by_what_it_replaces(made, tmp_path):
    shutil.copytree(made / "base", tmp_path / "base")
    (tmp_path / "link").symlink_to(tmp_path / "base")
    for name in ("base", "link"):
        more = ("--normalize-with", tmp_path / name, "--overwrite")
        err = extract(made / "old", tmp_path / "base", *FEATURES, *STFT, *more, code=2).err
        assert f"normalize_with={tmp_path / name} is the output itself: name another dataset" in err
    assert hashes(tmp_path / "base") == hashes(made / "base")


def test_another_unit_is_told(made, tmp_path):
    result = extract(
        made / "new", tmp_path / "out", *FEATURES, *STFT, "--normalize-with", made / "base", "--unit", "g"
    )
    assert f"samples are in g, and those of normalize_with={made / 'base'} in no stated unit" in result.out


def test_a_file_s_dataset_is_looked_for_beside_it(made, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (made / "run.yaml").write_text("normalize_with: base\nfeatures: log_spectrum,indicators,stft\n")
    more = ("--splits", "train=0.7,test=0.3", *STFT, "--config", made / "run.yaml")
    extract(made / "new", tmp_path / "out", *more)
    assert hashes(tmp_path / "out") == hashes(made / "out")


def test_statistics_of_another_version_are_refused(made, tmp_path):
    shutil.copytree(made / "base", tmp_path / "base")
    path = tmp_path / "base" / "spectrabeam.json"
    path.write_text(path.read_text().replace(metadata(made / "base")["frontend"], "0" * 32))
    err = refused(made, *FEATURES, *STFT, "--normalize-with", tmp_path / "base")
    assert "was made by a version that computes otherwise: make it again, or name another" in err


def test_xla_is_used_as_without_it(made, tmp_path):
    for kind in ("log_spectrum", "power", "db"):
        more = ("--features", kind, "--jit", "auto", *STFT)
        extract(made / "old", tmp_path / kind / "base", *more)
        extract(made / "new", tmp_path / kind / "out", *more, "--normalize-with", tmp_path / kind / "base")
        computed = [metadata(tmp_path / kind / name)["computed_by"][0]["xla"] for name in ("base", "out")]
        assert computed == [True, True]


def test_damaged_statistics_are_refused(made, tmp_path):
    shutil.copytree(made / "base", tmp_path / "base")
    (tmp_path / "base" / "statistics.npz").write_bytes(b"no zip")
    err = refused(made, *FEATURES, *STFT, "--normalize-with", tmp_path / "base")
    assert f"normalize_with={tmp_path / 'base'}: no statistics of features" in err
    (tmp_path / "base" / "statistics.npz").unlink()
    assert "statistics.npz" in refused(made, *FEATURES, *STFT, "--normalize-with", tmp_path / "base")

"""What several test files of this folder need."""

import shutil

import pytest
import yaml

from tests.helpers.pipelines import extract
from tests.helpers.signals import write_recordings


@pytest.fixture(scope="session")
def small_dataset(tmp_path_factory):
    """30 examples of two classes in four shards; to be read only."""
    folder = tmp_path_factory.mktemp("small")
    write_recordings(folder / "in", 30)
    extract(folder / "in", folder / "out", "--num-shards", "4", "--label-from", "path:^(?P<label>[ab])/")
    return folder / "out"


@pytest.fixture
def dataset(small_dataset, tmp_path):
    """A copy, to be damaged."""
    return shutil.copytree(small_dataset, tmp_path / "copy")


@pytest.fixture
def config(tmp_path):
    """Writes a settings file: text, or values as YAML."""

    def write(content, name="run.yaml"):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return path

    return write

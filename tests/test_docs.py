"""What README and docs say is so."""

import re
from pathlib import Path

from spectrabeam.pipeline.config import table
from tests.helpers.pipelines import extract
from tests.helpers.signals import write_recordings

ROOT = Path(__file__).resolve().parents[1]


def test_settings_page_lists_every_setting_as_it_is():
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert page.endswith("\n\n" + table()), (
        "run: python -c 'from spectrabeam.pipeline.config import table; print(table())'"
    )


def test_python_of_the_readme_runs(tmp_path, monkeypatch):
    write_recordings(tmp_path / "in", 30)
    extract(tmp_path / "in", tmp_path / "features", "--compression", "gzip")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    names: dict = {}
    exec("\n".join(blocks), names)
    first = next(iter(names["data"]))
    assert first["spectrum"].shape[1] == names["spectrum"].shape[1] == 129


def test_python_of_the_features_page_runs(capsys):
    page = (ROOT / "docs" / "features.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(block, {})
    assert "(2, 4)" in capsys.readouterr().out


def test_files_that_readme_and_docs_link_are_there():
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks").glob("*.md")):
        prose = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for target in re.findall(r"\]\(([^)#:]+)\)", prose):
            assert (page.parent / target).exists(), f"{page.name} links {target}"

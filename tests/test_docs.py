"""What README and docs say is so."""

from pathlib import Path

from spectrabeam.pipeline.settings import table

ROOT = Path(__file__).resolve().parents[1]


def test_settings_page_lists_every_setting_as_it_is():
    page = (ROOT / "docs" / "settings.md").read_text(encoding="utf-8")
    assert page.endswith("\n\n" + table()), (
        "run: python -c 'from spectrabeam.pipeline.settings import table; print(table())'"
    )

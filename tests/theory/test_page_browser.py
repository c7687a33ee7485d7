from pathlib import Path
from typing import Any

import numpy as np
import pytest

from momentalign.theory import TransferReport, transfer_report
from tests.browser import Browser

pytestmark = pytest.mark.slow

HOSTILE = ["<script>alert(1)</script>", "<img src=x onerror=alert(2)>", "../x' onclick='alert(3)"]
MAPS = "() => [...document.querySelectorAll('.maps table')].map(table => ({"
MAPS += "title: table.caption.firstChild.textContent,"
MAPS += "rows: [...table.tBodies[0].rows].map(row => [...row.cells].map(cell => cell.firstChild?.textContent ?? ''))}))"


def make(names: list[str]) -> TransferReport:
    rng = np.random.default_rng(0)
    index = np.repeat(np.arange(3), 30)
    X = rng.normal(size=(90, 2)) + 0.7 * index[:, None]
    y = (X[:, 0] + rng.normal(size=90) > 0.7).astype(int)
    return transfer_report(X, y, np.array(names, dtype=object)[index], resamples=20, restarts=2)


@pytest.fixture(scope="module")
def report() -> TransferReport:
    return make(["north", "south", "west"])


@pytest.fixture(scope="module")
def path(report: TransferReport, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("transfer") / "transfer.html"
    report.to_html(target)
    return target


def test_heat_maps_show_the_numbers_of_the_frame(report: TransferReport, path: Path, browser: Browser) -> None:
    page = browser.open(path)
    frame = report.to_frame().set_index(["source", "target"])
    shown = {found["title"]: found["rows"] for found in page.evaluate(MAPS)}
    titles = {
        "one_sided": "one-sided",
        "symmetric": "symmetric",
        "realizable": "realizable",
        "mean_gap": "mean",
        "covariance_gap": "covariance",
    }
    for column, word in titles.items():
        (rows,) = [rows for title, rows in shown.items() if word in title.lower()]
        for source, *cells in rows:
            for target, cell in zip(report.names, cells, strict=True):
                assert cell == ("" if source == target else f"{frame.loc[(source, target), column]:.4g}")


def test_light_dark_and_narrow(path: Path, browser: Browser) -> None:
    colours = {}
    for name, options in {"light": {}, "dark": {"dark": True}, "phone": {"width": 400, "height": 800}}.items():
        page = browser.open(path, **options)
        assert not browser.scrolls_sideways(page)
        colours[name] = page.evaluate("getComputedStyle(document.body).backgroundColor")
        browser.shoot(page, f"transfer-{name}")
    assert colours["light"] == colours["phone"] == "rgb(255, 255, 255)"
    assert colours["dark"] != colours["light"]


def test_hostile_names_are_letters(tmp_path: Path, browser: Browser) -> None:
    target = tmp_path / "transfer.html"
    make(HOSTILE).to_html(target)
    page: Any = browser.open(target, width=400)
    assert page.locator("script, img, [onclick], [onerror]").count() == 0
    for name in HOSTILE:
        assert page.get_by_text(name, exact=True).count() > 0
    assert not browser.scrolls_sideways(page)

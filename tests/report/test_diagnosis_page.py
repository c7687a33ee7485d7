"""The page of a diagnosis, in Chromium; pictures of it are kept in build/screenshots."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from momentalign.report import write_diagnosis
from momentalign.tables import DomainDiagnosis, plan_diagnosis
from tests.browser import Browser

pytestmark = pytest.mark.slow

HOSTILE = "</script><script>alert(1)</script>"


def make_diagnosis(folder: Path, *, numbers: bool = False, domains: int = 4, target: str | None = None) -> Any:
    """A table in which one domain with a hostile name differs, one column has that name, and one is categorical."""
    rng = np.random.default_rng(0)
    index = np.repeat(np.arange(domains), 40)
    X = rng.normal(size=(len(index), 3)) + (index == 1)[:, None]
    names = [HOSTILE if number == 1 else f"site {number}" for number in range(domains)]
    frame = pd.DataFrame(X, columns=["a", "b", HOSTILE]).assign(kind=np.where(index == 2, "x", "y"))
    value = X[:, 0] + rng.normal(size=len(X))
    frame["y"] = value if numbers else np.where(value > 0, "ill", "healthy")
    frame["domain"] = np.array(names)[index]
    frame.loc[index == 0, "b"] = np.nan
    frame.to_csv(folder / "table.csv", index=False)
    plan = plan_diagnosis(folder / "table.csv", test_domain=target)
    return plan.run(l2=0.1, radius=1.0, order=1, seed=0), plan.lines


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[DomainDiagnosis, Path]:
    folder = tmp_path_factory.mktemp("diagnosis")
    diagnosis, lines = make_diagnosis(folder, target="site 3")
    path = folder / "page.html"
    write_diagnosis(diagnosis, path, title=HOSTILE, lines=lines)
    return diagnosis, path


def drawn(page: Any, charts: int) -> Any:
    page.wait_for_selector("html[data-charts=drawn]")
    assert page.locator(".chart svg").count() == page.locator(".chart").count() == charts
    return page


@pytest.mark.parametrize(
    ("name", "options"),
    [("light", {}), ("dark", {"dark": True}), ("phone", {"width": 390, "height": 800})],
)
def test_it_opens_with_the_findings_and_draws_everything(
    name: str, options: dict[str, Any], made: tuple[DomainDiagnosis, Path], browser: Browser
) -> None:
    diagnosis, path = made
    page = drawn(browser.open(path, **options), 4)
    assert not browser.scrolls_sideways(page)
    browser.shoot(page, f"diagnosis-{name}")
    assert page.title() == HOSTILE
    assert page.locator(".headline p").first.text_content() == diagnosis.findings()[0]
    assert page.locator("#try + ul li").all_text_contents() == diagnosis.advice()
    assert page.locator("#measures table").first.is_hidden()
    page.locator("#measures summary").click()
    page.locator("#numbers summary").click()
    assert page.locator("#measures table").count() == len(diagnosis.transfer.tables())
    assert page.locator("#measures table").first.is_visible()
    assert not browser.scrolls_sideways(page)


def test_charts_show_the_numbers(made: tuple[DomainDiagnosis, Path], browser: Browser) -> None:
    diagnosis, path = made
    page = drawn(browser.open(path), 4)
    page.locator("#left-out .mark-symbol path").first.hover()
    told = page.wait_for_selector("#vg-tooltip-element.visible").inner_text()
    assert any(f"{100 * score.left_out.value:.1f} (" in told for score in diagnosis.fits.scores)
    page.locator("#labels .mark-rect path").first.hover()
    assert "%" in page.wait_for_selector("#vg-tooltip-element.visible").inner_text()


def test_many_domains_with_numbers_for_labels(tmp_path: Path, browser: Browser) -> None:
    diagnosis, lines = make_diagnosis(tmp_path, numbers=True, domains=14)
    assert len(diagnosis.transfer.names) == 12
    write_diagnosis(diagnosis, tmp_path / "page.html", lines=lines)
    page = drawn(browser.open(tmp_path / "page.html", width=390), 4)
    assert not browser.scrolls_sideways(page)

"""The page in a real browser. Pictures of it are kept in build/screenshots."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import ImageColor

from momentalign.report import accuracy_table, write_report
from momentalign.report._style import DARK, LIGHT
from momentalign.selection import Sweep
from tests.browser import Browser
from tests.report.sweeps import HOSTILE, hostile, mixed

pytestmark = pytest.mark.slow

TABS = {
    "Oracle (test labels)": "oracle",
    "Training domains": "training-domain",
    "Extrapolated": "extrapolated",
    "Leave one domain out": "leave-one-domain-out",
}
TABLES = """panel => [...panel.querySelectorAll('table.results')].map(table =>
  [...table.tBodies[0].rows].map(row => [...row.cells].slice(1).map(cell => cell.textContent)))"""


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    return mixed(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def path(sweep: Sweep, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("page") / "report.html"
    write_report(sweep, target)
    return target


def drawn(page: Any) -> Any:
    page.wait_for_selector("html[data-charts=drawn]")
    assert page.locator(".chart svg").count() == page.locator(".chart").count() > 10
    return page


def shown_panels(page: Any) -> Iterator[Any]:
    for panel in page.locator("#accuracy [role=tabpanel]").all():
        if panel.is_visible():
            yield panel


@pytest.mark.parametrize(
    ("name", "options"),
    [("light", {}), ("dark", {"dark": True}), ("phone", {"width": 390, "height": 800})],
)
def test_it_opens_and_draws_everything(name: str, options: dict[str, Any], path: Path, browser: Browser) -> None:
    page = drawn(browser.open(path, **options))
    assert not browser.scrolls_sideways(page)
    browser.shoot(page, f"report-{name}")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    line = page.evaluate("getComputedStyle(document.querySelector('#curves .mark-line path')).stroke")
    assert background == ("rgb(22, 24, 28)" if name == "dark" else "rgb(255, 255, 255)")
    assert line in {f"rgb{ImageColor.getrgb(colour)}" for colour in (DARK if name == "dark" else LIGHT)}


def test_tabs_switch_and_show_the_numbers_of_their_rule(path: Path, sweep: Sweep, browser: Browser) -> None:
    page = drawn(browser.open(path))
    for name, rule in TABS.items():
        page.get_by_role("tab", name=name, exact=True).click()
        (panel,) = shown_panels(page)
        sections = accuracy_table(sweep, rule).sections
        expected = [[[cell.text for cell in row.cells] for row in section.rows] for section in sections]
        assert panel.evaluate(TABLES) == expected
    page.keyboard.press("ArrowRight")
    for name in ("Worst group", "Worst class", "Training groups"):
        assert page.get_by_role("tab", name=name).get_attribute("aria-selected") == "true"
        page.keyboard.press("ArrowRight")
    assert page.get_by_role("tab", name="Oracle").get_attribute("aria-selected") == "true"
    assert len(list(shown_panels(page))) == 1


@pytest.mark.parametrize("width", [400, 1280])
def test_measures_over_groups_are_columns(width: int, path: Path, sweep: Sweep, browser: Browser) -> None:
    page = drawn(browser.open(path, width=width, height=900))
    page.get_by_role("tab", name="Worst group", exact=True).click()
    (panel,) = shown_panels(page)
    (section,) = accuracy_table(sweep, "worst-group").sections
    assert panel.evaluate(TABLES) == [[[cell.text for cell in row.cells] for row in section.rows]]
    assert panel.locator("table.results thead th").all_text_contents() == list(section.heads)
    assert "95% interval" in section.heads
    drawn_columns = panel.locator(".chart svg .role-axis-label").first.text_content()
    assert "AUROC" not in drawn_columns
    assert not browser.scrolls_sideways(page)
    browser.keep(f"report-groups-{width}.png", panel.screenshot())


HIDDEN = (
    """() => [...document.querySelectorAll('.scroll')].filter(part => part.scrollWidth > part.clientWidth).length"""
)


@pytest.mark.parametrize("dark", [False, True])
def test_nothing_has_to_be_scrolled_to_on_a_phone(dark: bool, path: Path, sweep: Sweep, browser: Browser) -> None:
    page = drawn(browser.open(path, width=390, height=800, dark=dark))
    page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
    page.wait_for_function(f"({HIDDEN})() === 0")
    assert not browser.scrolls_sideways(page)
    browser.shoot(page, f"report-phone-{'dark' if dark else 'light'}")
    page.get_by_role("tab", name="Worst group", exact=True).click()
    (panel,) = shown_panels(page)
    (section,) = accuracy_table(sweep, "worst-group").sections
    row = panel.locator("table.results.stacked tbody tr").first
    shown = row.evaluate("row => [...row.cells].slice(1).map(cell => [cell.dataset.head, cell.textContent])")
    assert shown == [[head, cell.text] for head, cell in zip(section.heads, section.rows[0].cells, strict=True)]
    page.set_viewport_size({"width": 1280, "height": 900})
    page.wait_for_function("document.querySelectorAll('.stacked').length === 0")
    assert page.evaluate(HIDDEN) == 0


def test_tooltips_answer_with_the_numbers_of_the_table(path: Path, sweep: Sweep, browser: Browser) -> None:
    page = drawn(browser.open(path))
    section = accuracy_table(sweep, "training-domain").sections[0]
    marks = page.locator("#panel-accuracy-0 .chart").first.locator(".mark-symbol path")
    assert marks.count() == len(section.rows) * len(section.columns)
    told = set()
    for number in range(0, marks.count(), 3):
        marks.nth(number).hover()
        tooltip = page.wait_for_selector("#vg-tooltip-element.visible")
        told.add(
            tuple(tooltip.evaluate("told => [...told.querySelectorAll('.value')].map(cell => cell.textContent)")[:3])
        )
    numbers = {
        (row.label, column, cell.text)
        for row in section.rows
        for column, cell in zip(section.columns, row.cells, strict=True)
    }
    assert len(told) == len(range(0, marks.count(), 3))
    assert told <= numbers
    page.locator("#curves .chart").first.scroll_into_view_if_needed()
    page.locator("#curves .chart").first.locator(".mark-symbol path").last.hover()
    assert "step" in page.wait_for_selector("#vg-tooltip-element.visible").inner_text()
    browser.shoot(page, "report-tooltip", full=False)


def test_a_name_in_the_legend_is_shown_alone(path: Path, browser: Browser) -> None:
    page = drawn(browser.open(path))
    group = page.locator("#curves .group").first
    strengths = "chart => [...chart.querySelectorAll('.mark-line path')].map(line => +line.getAttribute('opacity'))"
    chart = group.locator(".chart").first
    assert set(chart.evaluate(strengths)) == {1}
    button = group.get_by_role("button", name="CMA")
    button.click()
    chart.locator(".mark-line path[opacity='0.12']").first.wait_for(state="attached")
    assert sorted(chart.evaluate(strengths)) == [0.12, 0.12, 1]
    assert button.get_attribute("aria-pressed") == "true"
    button.click()
    chart.locator(".mark-line path[opacity='0.12']").first.wait_for(state="detached")


def test_paper_shows_all_tabs_in_dark_letters(path: Path, browser: Browser) -> None:
    page = drawn(browser.open(path, dark=True))
    pdf = page.pdf(format="A4", print_background=True)
    assert pdf.startswith(b"%PDF")
    browser.keep("report-print.pdf", pdf)
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(28, 30, 33)"
    assert len(list(shown_panels(page))) == 7
    assert not page.locator("nav").is_visible()
    page.set_viewport_size({"width": 720, "height": 1000})
    assert not browser.scrolls_sideways(page)
    browser.shoot(page, "report-print")


def test_tables_need_no_script(path: Path, browser: Browser) -> None:
    page = browser.open(path, java_script_enabled=False)
    assert page.locator("#accuracy table").count() == page.locator("#accuracy table:visible").count() == 7
    assert page.get_by_text("Charts need JavaScript; tables do not.").is_visible()
    # Chromium says that it kept scripts from running; that is what was asked for.
    browser.complaints.clear()


@pytest.mark.parametrize("width", [1280, 400])
def test_hostile_names_are_letters(width: int, tmp_path: Path, browser: Browser) -> None:
    target = tmp_path / "report.html"
    write_report(hostile(tmp_path / "runs"), target, title="</title><script>alert(5)</script>")
    page = drawn(browser.open(target, width=width))
    assert page.locator("img, iframe, svg[onload]").count() == 0
    assert page.title() == "</title><script>alert(5)</script>"
    assert page.get_by_text(HOSTILE[0]).count() > 0
    page.locator("#panel-accuracy-0 .mark-symbol path").first.hover()
    assert HOSTILE[0] in page.wait_for_selector("#vg-tooltip-element.visible").inner_text()
    for tab in page.get_by_role("tab").all():
        tab.click()
    assert not browser.scrolls_sideways(page)

"""The fixture itself: a page that complains, or asks for something, must not pass."""

from pathlib import Path

import pytest

from tests.browser import Browser

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("<script>console.error('torn')</script>", "error: torn"),
        ("<script>nothing.here()</script>", "error: nothing is not defined"),
        ("<script>alert('hostile')</script>", "dialog: hostile"),
        ("<img src='elsewhere.png'>", "elsewhere.png"),
    ],
)
def test_complaints_are_taken_down(body: str, complaint: str, tmp_path: Path, browser: Browser) -> None:
    path = tmp_path / "page.html"
    path.write_text(f"<!DOCTYPE html><title>x</title>{body}")
    browser.open(path).wait_for_timeout(100)
    assert any(complaint in line for line in browser.complaints)
    browser.complaints.clear()

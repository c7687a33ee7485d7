"""A real, headless Chromium for tests of pages: the fixture `browser`, which every test can ask for."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
SCREENSHOTS = Path(__file__).resolve().parents[1] / "build" / "screenshots"
"""Artefacts to look at; the folder is ignored by git."""


class Browser:
    """Opens files as pages and takes down whatever they complain about or ask for."""

    def __init__(self, program: Any) -> None:
        self.program = program
        self.contexts: list[Any] = []
        self.complaints: list[str] = []

    def open(self, path: Path, *, dark: bool = False, width: int = 1280, height: int = 900, **options: Any) -> Any:
        scheme = "dark" if dark else "light"
        viewport = {"width": width, "height": height}
        context = self.program.new_context(viewport=viewport, color_scheme=scheme, **options)
        self.contexts.append(context)
        page = context.new_page()
        address = path.resolve().as_uri()

        def asked(request: Any) -> None:
            if request.url.split("#")[0] != address:
                self.complaints.append(f"request: {request.url}")

        def talked(dialog: Any) -> None:
            self.complaints.append(f"dialog: {dialog.message}")
            dialog.dismiss()

        page.set_default_timeout(200_000)  # other tests may leave it little of the machine
        page.on("console", lambda message: self.complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("dialog", talked)
        page.on("request", asked)
        page.goto(address)
        return page

    def shoot(self, page: Any, name: str, *, full: bool = True) -> Path:
        """Keep a picture of the page as it is now."""
        return self.keep(f"{name}.png", page.screenshot(full_page=full))

    def keep(self, name: str, content: bytes) -> Path:
        """Keep something to look at."""
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        path = SCREENSHOTS / name
        path.write_bytes(content)
        return path

    def scrolls_sideways(self, page: Any) -> bool:
        """Whether the page itself (not a table inside it) is wider than the window."""
        wide: bool = page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth")
        return wide


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The program, with a user-data folder of its own; one for all tests of a worker."""
    programs = [path for name in NAMES if (path := shutil.which(name))]
    if not programs:
        pytest.skip(f"no Chromium on this machine: none of {', '.join(NAMES)} is on the PATH")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        # Playwright adds --headless and a fresh --user-data-dir itself.
        program = playwright.chromium.launch(executable_path=programs[0], headless=True, args=list(FLAGS))
        yield program
        program.close()


@pytest.fixture
def browser(chromium: Any) -> Iterator[Browser]:
    """At the end no page may have complained, or have asked for anything but its own file."""
    found = Browser(chromium)
    yield found
    for context in found.contexts:
        context.close()
    assert found.complaints == []

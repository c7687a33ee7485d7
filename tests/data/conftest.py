"""A server on this machine in the place of the mirrors."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from momentalign.data import _fetch
from momentalign.data._sources import SOURCES, SourceFile
from tests.data.server import Answers, serve


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Answers]:
    """A web server on this machine, reached without a proxy; nothing waits before it asks again."""
    monkeypatch.setattr(_fetch, "RETRY_SECONDS", 0)
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with serve() as answers:
        yield answers


@pytest.fixture
def mirrors(server: Answers, monkeypatch: pytest.MonkeyPatch) -> Answers:
    """All sources with their files on that server, twice, without their checksums and published numbers of rows."""
    for name, source in SOURCES.items():
        files = tuple(
            SourceFile(file.name, tuple(f"{server.url}/{k}/{Path(file.name).name}" for k in range(2)))
            for file in source.files
        )
        monkeypatch.setitem(SOURCES, name, dataclasses.replace(source, files=files, rows={}))
    return server

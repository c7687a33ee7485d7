import hashlib
import json
import shutil
import socket
from collections import namedtuple
from pathlib import Path

import pytest

from momentalign.data import _download
from momentalign.data._checksums import BLOCK_BYTES
from momentalign.data._download import DownloadError, download
from tests.data.server import Answers

CONTENT = bytes(range(256)) * 20_000  # five megabytes: several blocks
SHA256 = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


@pytest.fixture(autouse=True)
def _content(server: Answers) -> None:
    server.files["/x.bin"] = CONTENT


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_download(server: Answers, tmp_path: Path) -> None:
    seen: list[tuple[str, int, int | None]] = []
    url = download(
        [f"{server.url}/x.bin"],
        tmp_path / "deep" / "x.bin",
        checksum=SHA256,
        progress=lambda what, done, total: seen.append((what, done, total)),
    )
    assert url == f"{server.url}/x.bin"
    assert (tmp_path / "deep" / "x.bin").read_bytes() == CONTENT
    assert names(tmp_path / "deep") == ["x.bin"]
    arriving = [(done, total) for what, done, total in seen if what == "x.bin"]
    assert arriving[0] == (BLOCK_BYTES, len(CONTENT))
    assert arriving[-1] == (len(CONTENT), len(CONTENT))


def test_goes_on_after_a_break(server: Answers, tmp_path: Path) -> None:
    server.break_after["/x.bin"] = [3_000_000, 1_000_000]
    download([f"{server.url}/x.bin"], tmp_path / "x.bin", checksum=SHA256)
    assert (tmp_path / "x.bin").read_bytes() == CONTENT
    assert server.asked("/x.bin") == [None, "bytes=3000000-", "bytes=4000000-"]


def test_goes_on_where_an_earlier_process_stopped(server: Answers, tmp_path: Path) -> None:
    def interrupt(what: str, done: int, total: int | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download([f"{server.url}/x.bin"], tmp_path / "x.bin", progress=interrupt)
    assert names(tmp_path) == ["x.bin.part", "x.bin.part.json"]
    arrived = (tmp_path / "x.bin.part").stat().st_size
    assert 0 < arrived < len(CONTENT)
    server.requests.clear()
    download([f"{server.url}/x.bin"], tmp_path / "x.bin")
    assert (tmp_path / "x.bin").read_bytes() == CONTENT
    assert server.asked("/x.bin") == [f"bytes={arrived}-"]
    assert names(tmp_path) == ["x.bin"]


def start(server: Answers, folder: Path, content: bytes) -> Path:
    """A part file as an earlier attempt would have left it."""
    (folder / "x.bin.part").write_bytes(content)
    (folder / "x.bin.part.json").write_text(json.dumps({"url": f"{server.url}/x.bin", "validator": '"v1"'}))
    return folder / "x.bin"


def test_starts_anew_when_the_file_has_changed(server: Answers, tmp_path: Path) -> None:
    target = start(server, tmp_path, b"old" * 1000)
    server.etag = '"v2"'
    download([f"{server.url}/x.bin"], target)
    assert target.read_bytes() == CONTENT


def test_starts_anew_where_the_server_knows_no_ranges(server: Answers, tmp_path: Path) -> None:
    target = start(server, tmp_path, CONTENT[:1000])
    server.ranges = False
    download([f"{server.url}/x.bin"], target, checksum=SHA256)
    assert target.read_bytes() == CONTENT


def test_starts_anew_without_a_validator(server: Answers, tmp_path: Path) -> None:
    server.etag = None
    server.break_after["/x.bin"] = [2_000_000]
    download([f"{server.url}/x.bin"], tmp_path / "x.bin")
    assert (tmp_path / "x.bin").read_bytes() == CONTENT
    assert server.asked("/x.bin") == [None, None]


def test_starts_anew_when_the_part_is_too_long(server: Answers, tmp_path: Path) -> None:
    target = start(server, tmp_path, CONTENT + b"more")
    download([f"{server.url}/x.bin"], target, checksum=SHA256)
    assert target.read_bytes() == CONTENT


def test_starts_anew_when_the_part_was_bad(server: Answers, tmp_path: Path) -> None:
    target = start(server, tmp_path, b"?" * 1000)
    download([f"{server.url}/x.bin"], target, checksum=SHA256)
    assert target.read_bytes() == CONTENT
    assert server.asked("/x.bin") == ["bytes=1000-", None]


def test_wrong_checksum_leaves_nothing(server: Answers, tmp_path: Path) -> None:
    found = hashlib.sha256(CONTENT).hexdigest()
    with pytest.raises(DownloadError, match=rf"sha256 of .*x\.bin\.part is {found}, expected 0123"):
        download([f"{server.url}/x.bin"], tmp_path / "x.bin", checksum="sha256:0123")
    assert names(tmp_path) == []


def test_second_mirror_answers(server: Answers, tmp_path: Path) -> None:
    server.files["/bad.bin"] = b"something else"
    urls = [f"{server.url}/{name}" for name in ("gone.bin", "bad.bin", "x.bin")]
    assert download(urls, tmp_path / "x.bin", checksum=SHA256) == urls[-1]
    assert (tmp_path / "x.bin").read_bytes() == CONTENT
    assert [path for path, _ in server.requests] == ["/gone.bin", "/bad.bin", "/x.bin"]


def test_web_page_is_not_the_file(server: Answers, tmp_path: Path) -> None:
    server.content_type = "text/html; charset=utf-8"
    with pytest.raises(DownloadError, match="answered with a web page instead of the file"):
        download([f"{server.url}/x.bin"], tmp_path / "x.bin")
    assert names(tmp_path) == []


def test_troubles_of_the_server_may_pass(server: Answers, tmp_path: Path) -> None:
    server.status["/x.bin"] = [503, 429, 500]
    download([f"{server.url}/x.bin"], tmp_path / "x.bin", checksum=SHA256)
    server.status["/x.bin"] = [503] * 10
    with pytest.raises(DownloadError, match="HTTP 503"):
        download([f"{server.url}/x.bin"], tmp_path / "y.bin")
    assert len(server.status["/x.bin"]) == 10 - _download.ATTEMPTS


def test_connection_refused(server: Answers, tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{closed.getsockname()[1]}/x.bin"
        with pytest.raises(DownloadError) as caught:
            download([dead, f"{server.url}/gone.bin"], tmp_path / "x.bin")
        message = str(caught.value).splitlines()
        assert message[0] == "x.bin could not be downloaded."
        assert message[1] == f"  {dead}: connection refused"
        assert message[2].startswith(f"  {server.url}/gone.bin: HTTP 404")
        assert download([dead, f"{server.url}/x.bin"], tmp_path / "x.bin") == f"{server.url}/x.bin"


def test_host_that_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(DownloadError, match="host not found, or no network"):
        download(["http://host.invalid/x.bin"], tmp_path / "x.bin")


def test_too_little_space_is_said_before_anything_is_written(
    server: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(10, 9, 1_000_000))
    with pytest.raises(OSError, match=r"No space left in .*: 0\.01 GB more is needed, 0\.00 GB is free"):
        download([f"{server.url}/x.bin"], tmp_path / "x.bin")
    assert names(tmp_path) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, a disk that is full")
def test_disk_that_fills_up(server: Answers, tmp_path: Path) -> None:
    (tmp_path / "x.bin.part").symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"No space left in .* run the same command again: it resumes the download"):
        download([f"{server.url}/x.bin"], tmp_path / "x.bin")
    assert not (tmp_path / "x.bin").exists()

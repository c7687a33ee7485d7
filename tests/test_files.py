"""Atomic writes and checks of output paths."""

import os
import threading
from pathlib import Path

import pytest

from momentalign._files import atomic_file, atomic_write, check_output


@pytest.mark.parametrize("content", ["naïve\n", b"\x00\xff"])
def test_content_is_written_and_nothing_else(content: str | bytes, tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("before")
    atomic_write(path, content)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError("half"), KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_failure_keeps_the_old_file(error: BaseException, tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("before")

    def write() -> None:
        with atomic_file(path) as temporary:
            temporary.write_text("hal")
            raise error

    with pytest.raises(type(error)):
        write()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_error_names_the_file_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "file.txt"
    with pytest.raises(FileNotFoundError) as caught:
        atomic_write(path, "text")
    assert str(caught.value) == f"[Errno 2] No such file or directory: '{path}'"


def test_folder_in_the_way_is_named(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        atomic_write(path, "text")
    assert str(caught.value).endswith(f": '{path}'")
    assert list(tmp_path.iterdir()) == [path]


def test_concurrent_temporary_names_differ(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    with atomic_file(path) as first, atomic_file(path) as second:
        assert first != second
        first.write_text("outer")
        second.write_text("inner")
    assert path.read_text() == "outer"


def test_concurrent_writers_leave_one_complete_file(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    contents = [str(number) * 100_000 for number in range(8)]
    threads = [threading.Thread(target=atomic_write, args=(path, content)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() in contents
    assert list(tmp_path.iterdir()) == [path]


def test_temporary_file_in_another_folder(tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    with atomic_file(tmp_path / "file.txt", temporary_folder=parts) as temporary:
        assert temporary.parent == parts
        temporary.write_text("whole")
    assert (tmp_path / "file.txt").read_text() == "whole"
    assert not list(parts.iterdir())


def test_a_link_stays_a_link_and_what_it_names_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    atomic_write(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "target"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_is_written_to_directly(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        atomic_write(tmp_path / "pipe", "text")
        assert os.read(reader, 100) == b"text"
    finally:
        os.close(reader)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_device_stays_a_device() -> None:
    atomic_write(Path(os.devnull), "gone")
    assert not Path(os.devnull).is_file()


def test_unwritable_outputs_are_refused(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("a,b\n")
    check_output(tmp_path / "deep" / "other.csv", (".csv",), inputs=[table])
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]  # the check leaves nothing behind
    (tmp_path / "link.csv").symlink_to(table)
    for path in (table, tmp_path / "link.csv"):
        with pytest.raises(
            ValueError, match=r"should name another file than the input .*rows.csv, which would be overwritten"
        ):
            check_output(path, (".csv",), inputs=[table])
    with pytest.raises(ValueError, match=r"should end in .html or .htm, but is .*rows.csv"):
        check_output(table, (".html", ".htm"))
    with pytest.raises(ValueError, match=r"should end in .csv, but is .*ROWS.CSV"):
        check_output(tmp_path / "ROWS.CSV", (".csv",))
    with pytest.raises(ValueError, match=r"should name a file, but .* is a folder"):
        check_output(tmp_path, (".csv",))
    with pytest.raises(ValueError, match=r"should be inside a folder, but .*rows.csv is a file"):
        check_output(table / "more.csv", (".csv",))


def test_a_device_is_a_valid_output() -> None:
    if Path("/dev/null").exists():
        check_output(Path("/dev/null"), (".csv",))


def test_an_unwritable_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(dir: Path) -> None:
        raise PermissionError(13, "Permission denied", str(dir))

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(ValueError, match=r"but .* is not \(Permission denied\). Choose another."):
        check_output(tmp_path / "out.csv", (".csv",))

"""A file is there whole, or what was there before is."""

import os
import threading
from pathlib import Path

import pytest

from momentalign._files import check_output, whole_file, write_whole


@pytest.mark.parametrize("content", ["naïve\n", b"\x00\xff"])
def test_content_is_there_and_nothing_else(content: str | bytes, tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("before")
    write_whole(path, content)
    assert path.read_bytes() == (content.encode() if isinstance(content, str) else content)
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("error", [ValueError("half"), KeyboardInterrupt(), OSError(28, "No space left on device")])
def test_failure_keeps_what_was_there(error: BaseException, tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("before")

    def write() -> None:
        with whole_file(path) as unfinished:
            unfinished.write_text("hal")
            raise error

    with pytest.raises(type(error)):
        write()
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_error_names_the_file_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "file.txt"
    with pytest.raises(FileNotFoundError) as caught:
        write_whole(path, "text")
    assert str(caught.value) == f"[Errno 2] No such file or directory: '{path}'"


def test_folder_in_the_way_is_named(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    path.mkdir()
    with pytest.raises(IsADirectoryError) as caught:
        write_whole(path, "text")
    assert str(caught.value).endswith(f": '{path}'")
    assert list(tmp_path.iterdir()) == [path]


def test_two_at_once_never_share_a_name(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    with whole_file(path) as first, whole_file(path) as second:
        assert first != second
        first.write_text("outer")
        second.write_text("inner")
    assert path.read_text() == "outer"


def test_writers_side_by_side_leave_one_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    contents = [str(number) * 100_000 for number in range(8)]
    threads = [threading.Thread(target=write_whole, args=(path, content)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() in contents
    assert list(tmp_path.iterdir()) == [path]


def test_unfinished_file_can_lie_elsewhere(tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    with whole_file(tmp_path / "file.txt", beside=parts) as unfinished:
        assert unfinished.parent == parts
        unfinished.write_text("whole")
    assert (tmp_path / "file.txt").read_text() == "whole"
    assert not list(parts.iterdir())


def test_a_link_stays_a_link_and_what_it_names_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "target").write_text("old")
    (tmp_path / "link").symlink_to("target")
    write_whole(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "target"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe_takes_what_comes(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(tmp_path / "pipe", "text")
        assert os.read(reader, 100) == b"text"
    finally:
        os.close(reader)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]


def test_a_device_stays_a_device() -> None:
    write_whole(Path(os.devnull), "gone")
    assert not Path(os.devnull).is_file()


def test_places_that_would_lose_the_work_are_refused(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("a,b\n")
    check_output(tmp_path / "deep" / "other.csv", (".csv",), inputs=[table])
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]  # looking leaves nothing
    (tmp_path / "link.csv").symlink_to(table)
    for place in (table, tmp_path / "link.csv"):
        with pytest.raises(ValueError, match=r"should name another file than .*rows.csv, which would be replaced"):
            check_output(place, (".csv",), inputs=[table])
    with pytest.raises(ValueError, match=r"should end in .html or .htm, but is .*rows.csv"):
        check_output(table, (".html", ".htm"))
    with pytest.raises(ValueError, match=r"should end in .csv, but is .*ROWS.CSV"):
        check_output(tmp_path / "ROWS.CSV", (".csv",))
    with pytest.raises(ValueError, match=r"should name a file, but .* is a folder"):
        check_output(tmp_path, (".csv",))
    with pytest.raises(ValueError, match=r"should lie in a folder, but .*rows.csv is a file"):
        check_output(table / "more.csv", (".csv",))


def test_a_device_takes_what_comes() -> None:
    if Path("/dev/null").exists():
        check_output(Path("/dev/null"), (".csv",))


def test_a_folder_that_takes_no_files_is_found_out_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(dir: Path) -> None:
        raise PermissionError(13, "Permission denied", str(dir))

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(ValueError, match=r"but .* takes none \(Permission denied\). Name another."):
        check_output(tmp_path / "out.csv", (".csv",))

"""Atomic writes and checks of output paths."""

import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from momentalign._files import (
    atomic_file,
    atomic_write,
    new_folder,
    remove_folder,
)
from momentalign._outputs import check_output, write_output


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


def test_errors_name_the_file_asked_for(tmp_path: Path) -> None:
    missing, folder = tmp_path / "missing" / "file.txt", tmp_path / "folder"
    folder.mkdir()
    for path, error in ((missing, FileNotFoundError), (folder, IsADirectoryError)):
        with pytest.raises(error) as caught:
            atomic_write(path, "text")
        assert str(caught.value).endswith(f": '{path}'")
    assert list(tmp_path.iterdir()) == [folder]


def at_once(write: Callable[[str], None], texts: Iterable[str]) -> None:
    """Call in as many threads as there are texts."""
    threads = [threading.Thread(target=write, args=(text,)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


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
    at_once(lambda content: atomic_write(path, content), contents)
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


def test_a_device_is_a_valid_output_and_stays_a_device() -> None:
    check_output(Path(os.devnull), (".csv",))
    atomic_write(Path(os.devnull), "gone")
    assert not Path(os.devnull).is_file()


def test_unwritable_outputs_are_refused(tmp_path: Path) -> None:
    table = tmp_path / "rows.csv"
    table.write_text("a,b\n")
    check_output(tmp_path / "deep" / "other.csv", (".csv",), inputs=[table])
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]  # the check leaves nothing behind
    (tmp_path / "link.csv").symlink_to(table)
    refused = [
        (table, (".csv",), "rows.csv"),
        (tmp_path / "link.csv", (".csv",), "rows.csv"),
        (table, (".html", ".htm"), r"\.html or \.htm.*rows.csv"),
        (tmp_path / "ROWS.CSV", (".csv",), r"\.csv.*ROWS.CSV"),
        (tmp_path, (".csv",), tmp_path.name),
        (table / "more.csv", (".csv",), "rows.csv"),
    ]
    for path, endings, named in refused:
        with pytest.raises(ValueError, match=named):
            check_output(path, endings, inputs=[table])


def test_an_unwritable_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(dir: Path) -> None:
        raise PermissionError(13, "Permission denied", str(dir))

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(ValueError, match=r"but .* is not \(Permission denied\). Choose another."):
        check_output(tmp_path / "out.csv", (".csv",))


def content_of(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_new_folder_leaves_its_neighbours_alone(tmp_path: Path) -> None:
    path, neighbour = tmp_path / "set", tmp_path / "set.old"
    neighbour.mkdir()
    (neighbour / "mine").write_text("mine")
    path.mkdir()
    with new_folder(path) as new:
        (new / "a").write_text("a")
    assert content_of(path) == {"a": "a"}
    assert content_of(neighbour) == {"mine": "mine"}
    with pytest.raises(OSError, match="not empty"), new_folder(path) as new:
        (new / "b").write_text("b")
    assert content_of(path) == {"a": "a"}
    assert {entry.name for entry in tmp_path.iterdir()} == {"set", "set.old"}


class KilledError(BaseException):
    pass


def test_old_temporary_files_of_ours_are_removed_by_the_next_write(tmp_path: Path) -> None:
    old, young, other, stranger = (
        tmp_path / name
        for name in (
            ".a.txt.0123456789abcdef.tmp",
            ".a.txt.0123456789abcdee.tmp",
            ".b.txt.0123456789abcdef.tmp",
            ".a.txt.mine.tmp",
        )
    )
    for path in (old, young, other, stranger):
        path.touch()
    for path in (old, other, stranger):
        os.utime(path, (0, 0))
    atomic_write(tmp_path / "a.txt", "text")
    assert sorted(tmp_path.iterdir()) == sorted([tmp_path / "a.txt", young, other, stranger])


def test_a_folder_is_removed_from_its_name_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "plan").touch()

    def killed(*_: object, **__: object) -> None:
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", killed)
        with pytest.raises(KilledError):
            remove_folder(tmp_path / "parts")
    assert not (tmp_path / "parts").exists()
    remove_folder(tmp_path / "parts")


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of what is brought to disk, and renames, in their order."""
    calls: list[str] = []

    def recorded(owner: object, attribute: str, name: Callable[..., str]) -> None:
        real = getattr(owner, attribute)

        def call(*arguments: object) -> object:
            calls.append(name(*arguments))
            return real(*arguments)

        monkeypatch.setattr(owner, attribute, call)

    recorded(os, "fsync", lambda descriptor: Path(f"/proc/self/fd/{descriptor}").resolve().name)
    for attribute in ("rename", "replace"):
        recorded(Path, attribute, lambda *_: "rename")
    return calls


def test_content_is_on_disk_before_it_has_its_name(tmp_path: Path, done: list[str]) -> None:
    atomic_write(tmp_path / "a.txt", "text")
    assert done[0].startswith(".a.txt.")
    assert done[1:] == ["rename", tmp_path.name]


def test_files_of_a_folder_are_on_disk_before_it_has_its_name(tmp_path: Path, done: list[str]) -> None:
    with new_folder(tmp_path / "out") as new:
        (new / "inner").mkdir()
        for name in ("a.txt", "inner/b.txt"):
            (new / name).write_text("a")
        expected = sorted(["a.txt", "b.txt", "inner", new.name])
        done.clear()
    assert sorted(done[: done.index("rename")]) == expected
    assert done[-1] == tmp_path.name


def test_an_output_makes_its_folder(tmp_path: Path) -> None:
    write_output(tmp_path / "new" / "folder" / "scores.csv", "a\n")
    write_output(tmp_path / "new" / "folder" / "scores.csv", b"b\n")
    assert (tmp_path / "new" / "folder" / "scores.csv").read_text() == "b\n"

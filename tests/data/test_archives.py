import errno
import io
import random
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from momentalign.data._archives import extract, is_archive

FILES = {"PACS/photo/dog/1.jpg": b"one", "PACS/sketch/dog/2.jpg": b"two" * 500_000}


def make_zip(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("PACS/", b"")
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def make_tar(path: Path, files: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz" if path.name.endswith("gz") else "w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            info.mode = 0o4777
            archive.addfile(info, io.BytesIO(content))
    return path


MAKERS: dict[str, Callable[[Path, dict[str, bytes]], Path]] = {
    "x.zip": make_zip,
    "x.tar": make_tar,
    "x.tar.gz": make_tar,
}
kinds = pytest.mark.parametrize("kind", MAKERS)


def written(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@kinds
def test_archives_are_unpacked(kind: str, tmp_path: Path) -> None:
    archive = MAKERS[kind](tmp_path / kind, FILES)
    seen: list[tuple[int, int | None]] = []
    assert extract(archive, tmp_path / "out", lambda what, done, total: seen.append((done, total))) == 2
    assert written(tmp_path / "out") == FILES
    assert all(done <= (total or 0) == archive.stat().st_size for done, total in seen)
    assert not stat.S_IMODE((tmp_path / "out/PACS/photo/dog/1.jpg").stat().st_mode) & (stat.S_ISUID | stat.S_IXUSR)


@kinds
@pytest.mark.parametrize(
    "name",
    [
        "../evil.txt",
        "a/../../evil.txt",
        "/tmp/evil.txt",
        "..\\evil.txt",
        "C:\\evil.txt",
        "\\\\host\\share\\evil.txt",
        "..",
    ],
)
def test_paths_out_of_the_folder_are_refused(kind: str, name: str, tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    archive = MAKERS[kind](tmp_path / kind, {"good.txt": b"", name: b"evil"})
    before = written(tmp_path)
    with pytest.raises(ValueError, match="has a member that leads out of its folder"):
        extract(archive, inner / "out")
    assert written(tmp_path).keys() - before.keys() <= {"a/b/out/good.txt"}
    assert not Path("/tmp/evil.txt").exists()


def test_links_in_tars_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    with tarfile.open(tmp_path / "x.tar", "w") as archive:
        for name, kind, target in (
            ("door", tarfile.SYMTYPE, str(tmp_path / "outside")),
            ("relative", tarfile.SYMTYPE, "../outside"),
            ("hard", tarfile.LNKTYPE, "../../etc/passwd"),
            ("pipe", tarfile.FIFOTYPE, ""),
            ("device", tarfile.CHRTYPE, ""),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            archive.addfile(info)
        info = tarfile.TarInfo("door/evil.txt")
        info.size = 4
        archive.addfile(info, io.BytesIO(b"evil"))
    with pytest.warns(UserWarning, match=r"skipped 5 links or devices: door, relative, hard, pipe, device"):
        extract(tmp_path / "x.tar", tmp_path / "out")
    assert written(tmp_path / "out") == {"door/evil.txt": b"evil"}
    assert not any((tmp_path / "outside").iterdir())
    assert not (tmp_path / "out" / "door").is_symlink()


def test_links_in_zips_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        link = zipfile.ZipInfo("door")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, str(tmp_path / "outside"))
        archive.writestr("door/evil.txt", "evil")
    with pytest.warns(UserWarning, match="skipped 1 links or devices: door"):
        extract(tmp_path / "x.zip", tmp_path / "out")
    assert not any((tmp_path / "outside").iterdir())
    assert written(tmp_path / "out") == {"door/evil.txt": b"evil"}


@kinds
def test_litter_of_macos_is_left_out(kind: str, tmp_path: Path) -> None:
    litter = {"__MACOSX/PACS/._1.jpg": b"", "PACS/.DS_Store": b"", "PACS/photo/._1.jpg": b""}
    assert extract(MAKERS[kind](tmp_path / kind, FILES | litter), tmp_path / "out") == 2
    assert written(tmp_path / "out") == FILES


@pytest.mark.parametrize("compression", ["gz", "xz"])
def test_a_compressed_archive_is_held_to_its_checksum(compression: str, tmp_path: Path) -> None:
    archive = tmp_path / f"x.tar.{compression}"
    generator = random.Random(0)
    content = generator.randbytes(300_000)
    with tarfile.open(archive, f"w:{compression}") as made:
        info = tarfile.TarInfo("PACS/photo/dog/1.jpg")
        info.size = len(content)
        made.addfile(info, io.BytesIO(content))
    spoilt = bytearray(archive.read_bytes())
    spoilt[len(spoilt) // 2] ^= 1
    archive.write_bytes(spoilt)
    with pytest.raises(ValueError, match=r"is broken .* Fetch it again\."):
        extract(archive, tmp_path / "out")


@kinds
def test_broken_archives(kind: str, tmp_path: Path) -> None:
    archive = MAKERS[kind](tmp_path / kind, FILES)
    content = bytearray(archive.read_bytes())
    if kind == "x.zip":
        content[len(content) // 2] ^= 255  # within the second member
    else:
        del content[len(content) // 2 :]
    archive.write_bytes(content)
    with pytest.raises(ValueError, match=rf"{kind} is broken .* Fetch it again\."):
        extract(archive, tmp_path / "out")


SECOND_HEADER = 1024  # after the first header and its file of one block


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda content: content[:SECOND_HEADER], id="cut before a header"),
        pytest.param(lambda content: content[: SECOND_HEADER + 100], id="cut in a header"),
        pytest.param(lambda content: content.replace(b"PACS/sketch", b"PACS/Sketch"), id="flipped in a header"),
    ],
)
def test_a_tar_that_is_damaged_at_a_header_is_not_taken_for_complete(
    damage: Callable[[bytes], bytes], tmp_path: Path
) -> None:
    archive = make_tar(tmp_path / "x.tar", FILES)
    archive.write_bytes(damage(archive.read_bytes()))
    with pytest.raises(ValueError, match=r"x\.tar is broken \(ReadError: .*, at byte 1024\)\. Fetch it again\."):
        extract(archive, tmp_path / "out")


@pytest.mark.parametrize("compression", ["gz", "xz", "bz2"])
def test_an_archive_that_ends_in_its_first_bytes(compression: str, tmp_path: Path) -> None:
    archive = tmp_path / f"x.tar.{compression}"
    with tarfile.open(archive, f"w:{compression}") as made:
        made.addfile(tarfile.TarInfo("PACS/photo/dog/1.jpg"), io.BytesIO())
    archive.write_bytes(archive.read_bytes()[:60])
    with pytest.raises(ValueError, match=r"is broken .* Fetch it again\.|but is neither"):
        extract(archive, tmp_path / "out")


@kinds
def test_a_member_larger_than_the_disk_is_not_written(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = MAKERS[kind](tmp_path / kind, FILES)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(100, 98, 2))
    with pytest.raises(OSError, match=r"No space left in .*out to unpack"):
        extract(archive, tmp_path / "out")
    assert not written(tmp_path / "out")


def test_not_an_archive(tmp_path: Path) -> None:
    (tmp_path / "page.zip").write_text("<html>")
    assert not is_archive(tmp_path / "page.zip")
    with pytest.raises(ValueError, match=r"page\.zip should be a zip or tar archive, but is neither"):
        extract(tmp_path / "page.zip", tmp_path / "out")
    with pytest.raises(FileNotFoundError, match=r"gone\.zip does not exist"):
        extract(tmp_path / "gone.zip", tmp_path / "out")


@kinds
def test_file_and_folder_of_one_name(kind: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="has a file and a folder of one name"):
        extract(MAKERS[kind](tmp_path / kind, {"a": b"", "a/b": b""}), tmp_path / "out")


def test_disk_that_fills_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    archive = make_tar(tmp_path / "x.tar", FILES)
    monkeypatch.setattr(tarfile, "copyfileobj", full)
    with pytest.raises(
        OSError, match=r"No space left in .*out to unpack x\.tar .* Free some space and run the same command"
    ):
        extract(archive, tmp_path / "out")

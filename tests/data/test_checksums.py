import gzip
import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from momentalign.data._checksums import check_manifest, compare_checksum, digest, write_manifest


def test_digest_of_a_file_and_of_what_it_holds(tmp_path: Path) -> None:
    (tmp_path / "x.gz").write_bytes(gzip.compress(b"digits", compresslevel=1))
    (tmp_path / "y.gz").write_bytes(gzip.compress(b"digits", compresslevel=9))
    assert digest(tmp_path / "x.gz") == hashlib.sha256((tmp_path / "x.gz").read_bytes()).hexdigest()
    assert digest(tmp_path / "x.gz", "gunzip-md5") == digest(tmp_path / "y.gz", "gunzip-md5")
    assert digest(tmp_path / "x.gz", "gunzip-md5") == hashlib.md5(b"digits", usedforsecurity=False).hexdigest()


def test_check(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"abc")
    right = hashlib.sha256(b"abc").hexdigest()
    assert compare_checksum(path, f"sha256:{right}") is None
    assert compare_checksum(path, "sha256:9c0e") == f"sha256 of {path} is {right}, expected 9c0e."
    assert "should be a gzip file, but cannot be unpacked" in str(compare_checksum(path, "gunzip-sha256:9c0e"))


def test_either_of_two_checksums_will_do(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    path.write_bytes(b"abc")
    right = hashlib.sha256(b"abc").hexdigest()
    assert compare_checksum(path, f"md5:9c0e|sha256:{right}") is None
    assert compare_checksum(path, f"sha256:{right}|md5:9c0e") is None
    problem = str(compare_checksum(path, "md5:9c0e|sha256:1f3a"))
    assert problem.startswith(f"md5 of {path} is ")
    assert problem.endswith(f"sha256 of {path} is {right}, expected 1f3a.")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    for name in ("a/1.txt", "a/two words.txt", "b/3.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_manifest(folder: Path, tmp_path: Path) -> None:
    manifest = tmp_path / "data.sha256"
    done: list[tuple[int, int | None]] = []
    assert write_manifest(folder, manifest, lambda what, now, total: done.append((now, total))) == 3
    assert done[-1] == (29, 29)
    assert check_manifest(folder, manifest) == []
    (folder / "a" / "two words.txt").write_text("changed")
    (folder / "b" / "3.txt").unlink()
    first, second = check_manifest(folder, manifest)
    assert first.startswith(f"sha256 of {folder / 'a' / 'two words.txt'} is ")
    assert second == f"{folder / 'b' / '3.txt'} is missing."


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs the tool sha256sum")
def test_manifest_is_one_that_sha256sum_reads(folder: Path, tmp_path: Path) -> None:
    write_manifest(folder, tmp_path / "data.sha256")
    subprocess.run(["sha256sum", "--check", "--strict", "../data.sha256"], cwd=folder, check=True, capture_output=True)

import dataclasses
import errno
import hashlib
import io
import json
import os
import shutil
import socket
import subprocess
import tarfile
import zipfile
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from momentalign.data import DownloadError, dataset_path, fetch, is_complete, load_dataset, verify
from momentalign.data._sources import SOURCES, find_source, sort_camera_traps
from tests.data.files import (
    PACS,
    pack,
    pack_pacs,
    set_source,
    write_camera_traps,
    write_celeba,
    write_image_folder,
    write_mnist,
    write_multinli,
    write_waterbirds,
)
from tests.data.server import Answers

pytestmark = pytest.mark.slow

REAL = Path(os.environ.get("MOMENTALIGN_DATA", "")) / "pacs" / "PACS_112px_q85.tar"


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def serve_pacs(mirrors: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """PACS on the first mirror, with its checksum; returns the archive."""
    content = mirrors.files["/0/PACS.zip"] = pack_pacs(tmp_path / "made")
    checksum = f"md5:{'0' * 32}|sha256:{hashlib.sha256(content).hexdigest()}"
    set_source(monkeypatch, "pacs", files=(dataclasses.replace(SOURCES["pacs"].files[0], checksum=checksum),))
    return content


def test_fetch_verify_load(mirrors: Answers, tmp_path: Path) -> None:
    content = mirrors.files["/0/PACS.zip"] = pack_pacs(tmp_path / "made")
    root = tmp_path / "root"
    assert not is_complete("pacs", root)
    seen: list[tuple[str, int, int | None]] = []
    assert fetch("pacs", root, lambda *state: seen.append(state)) == root / "PACS" == dataset_path("pacs", root)
    assert entries(root) == ["PACS", "PACS.sha256"]
    assert ("PACS.zip", len(content), len(content)) in seen
    assert is_complete("pacs", root)
    assert verify("pacs", root) == []
    assert load_dataset("pacs", root=root).names == PACS
    mirrors.requests.clear()
    fetch("pacs", root)
    assert mirrors.requests == []


@pytest.mark.skipif(shutil.which("sha256sum") is None, reason="needs the tool sha256sum")
def test_list_is_one_that_sha256sum_reads(tmp_path: Path) -> None:
    (tmp_path / "mine.zip").write_bytes(pack_pacs(tmp_path / "made"))
    fetch("pacs", tmp_path, archives=[tmp_path / "mine.zip"])
    subprocess.run(["sha256sum", "--check", "--strict", "../PACS.sha256"], cwd=tmp_path / "PACS", check=True)


def test_broken_downloads_are_resumed(mirrors: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = len(serve_pacs(mirrors, tmp_path, monkeypatch))
    mirrors.break_after["/0/PACS.zip"] = [size // 2, size // 4]

    def interrupt(what: str, done: int, total: int | None) -> None:
        if done == size:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fetch("pacs", tmp_path, interrupt)
    assert not is_complete("pacs", tmp_path)
    fetch("pacs", tmp_path)
    starts = [0, size // 2, size // 2 + size // 4, size]  # all is there: then nothing is left to ask for
    assert mirrors.asked("/0/PACS.zip")[:4] == [f"bytes={start}-" for start in starts]
    assert verify("pacs", tmp_path) == []


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("part", [b"of another file", b"longer" * 10_000])
def test_a_bad_part_is_downloaded_again(
    part: bytes, ranges: bool, mirrors: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_pacs(mirrors, tmp_path, monkeypatch)
    mirrors.ranges = ranges
    place = tmp_path / ".downloads" / "pacs" / "PACS.zip.part"
    place.parent.mkdir(parents=True)
    place.write_bytes(part)
    fetch("pacs", tmp_path)
    assert verify("pacs", tmp_path) == []


def test_the_next_mirror_is_asked(mirrors: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mirrors.files["/1/PACS.zip"] = serve_pacs(mirrors, tmp_path, monkeypatch)
    mirrors.files["/0/PACS.zip"] = b"something else"
    fetch("pacs", tmp_path)
    assert [path for path, _ in mirrors.requests] == ["/0/PACS.zip", "/1/PACS.zip"]


def test_nothing_answers(mirrors: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = serve_pacs(mirrors, tmp_path, monkeypatch)
    place = tmp_path / ".downloads" / "pacs" / "PACS.zip"
    mirrors.files["/0/PACS.zip"] = b"something else"
    with pytest.raises(DownloadError) as caught:
        fetch("pacs", tmp_path)
    for part in (f"{mirrors.url}/0/PACS.zip: The checksum", "/1/PACS.zip: HTTP 404", str(place), "--from FILE"):
        assert part in str(caught.value)
    assert entries(place.parent) == ["lock"]
    place.write_bytes(b"something else")  # what the message says is checked, and works
    with pytest.raises(ValueError, match=r"PACS\.zip is md5:.*\|sha256:.* Remove it"):
        fetch("pacs", tmp_path)
    place.write_bytes(content)
    fetch("pacs", tmp_path)
    assert verify("pacs", tmp_path) == []


def test_troubles_of_a_server(mirrors: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    serve_pacs(mirrors, tmp_path, monkeypatch)
    mirrors.status["/0/PACS.zip"] = [503, 429, 500]
    fetch("pacs", tmp_path / "patient")
    mirrors.status["/0/PACS.zip"] = [503] * 10
    with pytest.raises(DownloadError, match="HTTP 503"):
        fetch("pacs", tmp_path / "failed")
    mirrors.content_type, mirrors.status["/0/PACS.zip"] = "text/html; charset=utf-8", []
    with pytest.raises(DownloadError, match="web page"):
        fetch("pacs", tmp_path / "failed")


def test_no_connection(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        urls = (f"http://127.0.0.1:{closed.getsockname()[1]}/x", "http://host.invalid/x")
        set_source(monkeypatch, "pacs", files=(dataclasses.replace(SOURCES["pacs"].files[0], urls=urls),))
        with pytest.raises(DownloadError, match=r"127\.0\.0\.1.*[Cc]onnection refused[^$]*host\.invalid"):
            fetch("pacs", tmp_path)


@pytest.mark.parametrize(("where", "name"), [(Path, "rename"), (shutil, "copyfileobj")])
def test_a_full_disk_loses_nothing(
    where: object, name: str, mirrors: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serve_pacs(mirrors, tmp_path, monkeypatch)

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(where, name, full)
        with pytest.raises(OSError, match=r"No space left in .*--root.*resumes"):
            fetch("pacs", tmp_path)
    assert not (tmp_path / "PACS").exists()
    fetch("pacs", tmp_path)
    assert verify("pacs", tmp_path) == []


def test_one_process_fetches_a_set_at_a_time(tmp_path: Path) -> None:
    archive = tmp_path / "mine.tar.gz"
    archive.write_bytes(pack_pacs(tmp_path / "made", "tar.gz"))
    root = tmp_path / "root"
    refused = []

    def meanwhile(what: str, done: int, total: int | None) -> None:
        with pytest.raises(ValueError, match=f"Another process is fetching pacs into {root}"):
            fetch("pacs", root, archives=[archive])
        refused.append(what)

    fetch("pacs", root, meanwhile, archives=[archive])
    assert refused
    assert entries(root) == ["PACS", "PACS.sha256"]
    assert load_dataset("pacs", root=root).names == PACS


@pytest.mark.parametrize(("kind", "prefix"), [("tar", ""), ("zip", "kfold/"), ("tar.gz", "a/PACS/")])
def test_archive_that_the_user_has(kind: str, prefix: str, tmp_path: Path) -> None:
    archive = tmp_path / f"mine.{kind}"
    archive.write_bytes(pack_pacs(tmp_path / "made", kind, prefix))
    fetch("pacs", tmp_path / "root", archives=[archive])
    assert archive.exists()
    assert entries(tmp_path / "root") == ["PACS", "PACS.sha256"]
    assert load_dataset("pacs", root=tmp_path / "root").classes == ("cat", "dog")


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_nothing_is_written_outside_of_the_folder(kind: str, tmp_path: Path) -> None:
    evil = tmp_path / f"evil.{kind}"
    for name in ("../../../../evil.txt", str(tmp_path / "evil.txt")):
        if kind == "zip":
            with zipfile.ZipFile(evil, "w") as zipped:
                zipped.writestr(name, "evil")
        else:
            with tarfile.open(evil, "w") as tar:
                tar.addfile(tarfile.TarInfo(name), io.BytesIO())
                link = tarfile.TarInfo("door")
                link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path)
                tar.addfile(link)
        with pytest.raises(ValueError, match=r"evil\.tar cannot be unpacked|should contain art_painting"):
            fetch("pacs", tmp_path / "root", archives=[evil])
        assert not list(tmp_path.rglob("evil.txt"))
        assert not (tmp_path / "root" / "PACS").exists()


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_broken_archive(kind: str, tmp_path: Path) -> None:
    content = bytearray(pack_pacs(tmp_path / "made", kind))
    content[len(content) // 2 : len(content) // 2 + 99] = bytes(99)
    (tmp_path / f"mine.{kind}").write_bytes(content)
    with pytest.raises(ValueError, match=rf"mine\.{kind} cannot be unpacked"):
        fetch("pacs", tmp_path / "root", archives=[tmp_path / f"mine.{kind}"])
    assert not (tmp_path / "root" / "PACS").exists()


def test_archive_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "made" / "x").mkdir(parents=True)
    (tmp_path / "made" / "x" / "readme.txt").write_text("")
    (tmp_path / "other.zip").write_bytes(pack(tmp_path / "made", "zip"))
    (tmp_path / "notes.txt").write_text("")
    for name, error, words in (
        ("other.zip", ValueError, r"art_painting, .*, sketch .* Found: x\."),
        ("notes.txt", ValueError, r"notes\.txt .* PACS\.zip"),
        ("gone.zip", FileNotFoundError, r"'--from' .*gone\.zip"),
        ("made", FileNotFoundError, r"'--from' .*made"),
    ):
        with pytest.raises(error, match=words):
            fetch("pacs", tmp_path / "root", archives=[tmp_path / name])
    assert not (tmp_path / "root" / "PACS").exists()


def serve_files(mirrors: Answers, name: str, contents: dict[str, bytes]) -> None:
    for file in SOURCES[name].files:
        mirrors.files[urlsplit(file.urls[1]).path] = contents[Path(file.name).name]


def test_sets_of_several_files(mirrors: Answers, tmp_path: Path) -> None:
    made = tmp_path / "made"
    write_mnist(made)
    serve_files(mirrors, "mnist", {path.name: path.read_bytes() for path in (made / "mnist").iterdir()})
    nli = write_multinli(made)
    table = (nli / "metadata_random.csv").read_bytes()
    (nli / "metadata_random.csv").unlink()
    serve_files(mirrors, "multinli", {"multinli_1.0.zip": pack(made / "multinli_1.0", "zip", "multinli_1.0/"),
                                     "metadata_random.csv": table})  # fmt: skip
    domains = ("clipart", "infograph", "painting", "quickdraw", "real", "sketch")
    net = write_image_folder(made / "net", {domain: {"dog": 5} for domain in domains})
    zips = {f"{domain}.zip": pack(net / domain, "zip", f"{domain}/") for domain in domains}
    serve_files(mirrors, "domain-net", zips | {"domain_net_duplicates.txt": b"real/dog/pic_0000.jpg\n"})
    camera = write_camera_traps(made / "camera")
    labels = json.loads((camera / "caltech_images_20210113.json").read_text())
    for location in ("43", "46"):
        labels["images"].append({"id": location, "file_name": "d-4.jpg", "location": location})
        labels["annotations"].append({"id": location, "image_id": location, "category_id": 1})
    (made / "labels").mkdir()
    (made / "labels" / "caltech_images_20210113.json").write_text(json.dumps(labels))
    images = pack(camera / "eccv_18_all_images_sm", "tar.gz", "eccv_18_all_images_sm/")
    serve_files(
        mirrors,
        "terra-incognita",
        {"eccv_18_all_images_sm.tar.gz": images, "caltech_camera_traps.json.zip": pack(made / "labels", "zip")},
    )
    root = tmp_path / "root"
    for name in ("colored-mnist", "multinli", "domain-net", "terra-incognita"):
        fetch(name, root)
        assert verify(name, root) == []
    assert entries(root / "mnist") == entries(made / "mnist")
    assert entries(root / "multinli_1.0") == [
        "metadata_random.csv",
        "multinli_1.0_dev_matched.jsonl",
        "multinli_1.0_dev_mismatched.jsonl",
        "multinli_1.0_train.jsonl",
    ]
    net_data = load_dataset("domain-net", root=root, holdout=0)
    assert len(net_data.split("real", "in")) == 4
    assert entries(root / "terra_incognita") == ["location_100", "location_38", "location_43", "location_46"]
    assert ".downloads" not in entries(root)


def test_missing_part_is_filled_in(mirrors: Answers, tmp_path: Path) -> None:
    made = write_mnist(tmp_path / "made") / "mnist"
    serve_files(mirrors, "mnist", {path.name: path.read_bytes() for path in made.iterdir()})
    fetch("mnist", tmp_path)
    (tmp_path / "mnist" / "t10k-images-idx3-ubyte.gz").unlink()
    (tmp_path / "mnist" / "mine.txt").write_text("stays")
    (problem,) = verify("mnist", tmp_path)
    assert "lacks t10k-images-idx3-ubyte.gz" in problem
    fetch("mnist", tmp_path)
    assert verify("mnist", tmp_path) == []
    assert (tmp_path / "mnist" / "mine.txt").read_text() == "stays"


def test_given_file_stands_for_one_and_the_others_are_downloaded(
    mirrors: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = write_celeba(tmp_path / "made", text=True)
    serve_files(
        mirrors, "celeba", {path.name: path.read_bytes() for path in made.glob("*.txt")} | {"img_align_celeba.zip": b""}
    )
    images, *tables = SOURCES["celeba"].files
    set_source(monkeypatch, "celeba", files=(dataclasses.replace(images, checksum="sha256:9c0e"), *tables))
    given = tmp_path / "img_align_celeba.zip"
    given.write_bytes(pack(made / "img_align_celeba", "zip", "img_align_celeba/"))
    with pytest.warns(UserWarning, match="expected sha256:9c0e.* used nevertheless"):
        fetch("celeba", tmp_path / "root", archives=[given])
    assert verify("celeba", tmp_path / "root") == []
    assert not [path for path, _ in mirrors.requests if path.endswith(".zip")]


def test_archives_may_be_kept(mirrors: Answers, tmp_path: Path) -> None:
    mirrors.files["/0/PACS.zip"] = pack_pacs(tmp_path / "made")
    fetch("pacs", tmp_path, keep=True)
    assert (tmp_path / ".downloads" / "pacs" / "PACS.zip").exists()


@pytest.mark.skipif("MOMENTALIGN_DATA" not in os.environ or not REAL.exists(), reason=f"needs pacs/{REAL.name}")
def test_real_pacs(tmp_path: Path) -> None:
    fetch("pacs", tmp_path, archives=[REAL])
    assert verify("pacs", tmp_path) == []
    data = load_dataset("pacs", root=tmp_path)
    assert data.classes == ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
    assert [len(data.split(name, "out")) for name in data.names] == [409, 468, 334, 785]
    assert data.split("photo", "out").inputs.names[:2] == ["photo/person/253_0204.jpg", "photo/person/253_0195.jpg"]  # type: ignore[union-attr]


def test_verify_names_what_changed(mirrors: Answers, tmp_path: Path) -> None:
    mirrors.files["/0/PACS.zip"] = pack_pacs(tmp_path / "made")
    fetch("pacs", tmp_path)
    changed, gone = tmp_path / "PACS/photo/dog/pic_0001.jpg", tmp_path / "PACS/sketch/cat/pic_0000.jpg"
    changed.write_bytes(b"rot")
    gone.unlink()
    first, second = verify("pacs", tmp_path)
    assert first.startswith(f"The checksum of {changed} is sha256:")
    assert second == f"{gone} is missing."


def test_verify_counts_rows(mirrors: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_image_folder(tmp_path / "PACS", {domain: {"dog": 3, "cat": 2} for domain in PACS})
    set_source(monkeypatch, "pacs", rows={"photo": 5, "sketch": 3929})
    assert verify("pacs", tmp_path) == ["pacs should have 3929 rows in sketch, but has 5."]
    write_waterbirds(tmp_path)
    set_source(monkeypatch, "waterbirds", rows={"train": 5, "val": 4, "test": 5})
    assert verify("waterbirds", tmp_path) == ["waterbirds should have 5 rows in test, but has 4."]


def test_verify_of_nothing_and_of_half(mirrors: Answers, tmp_path: Path) -> None:
    assert verify("vlcs", tmp_path) == [f"{tmp_path / 'VLCS'} does not exist. Run 'momentalign data fetch vlcs'."]
    (tmp_path / "VLCS" / "SUN09").mkdir(parents=True)
    assert "lacks Caltech101, LabelMe and VOC2007" in verify("vlcs", tmp_path)[0]
    write_image_folder(tmp_path / "PACS", {domain: {"dog": 0} for domain in PACS})
    (problem,) = verify("pacs", tmp_path)
    assert "should have the structure domain/class/image" in problem


def test_published_checksums_of_files_that_stay_packed(tmp_path: Path) -> None:
    folder = write_mnist(tmp_path) / "mnist"
    (folder / "t10k-labels-idx1-ubyte.gz").write_bytes(b"not packed")
    problems = verify("rotated-mnist", tmp_path)
    assert [problem.split(" of ")[0] for problem in problems[:3]] == ["The checksum"] * 3
    assert "t10k-labels-idx1-ubyte.gz should be a gzip file" in problems[3]


def test_sources_are_well_formed() -> None:
    files = [file for source in SOURCES.values() for file in source.files]
    for file in files:
        assert all(urlsplit(url).scheme in ("http", "https") for url in file.urls)
        for checksum in file.checksum.split("|") if file.checksum else ():
            algorithm, _, digits = checksum.partition(":")
            assert len(bytes.fromhex(digits)) == hashlib.new(algorithm.removeprefix("gunzip-")).digest_size
    assert {file.base_name for file in files if not file.checksum} == {
        "caltech_camera_traps.json.zip",
        "domain_net_duplicates.txt",
        "metadata_random.csv",
    }
    assert {file.name for file in files if len(set(file.urls)) < 2} == {"VLCS.tar.gz"}


def test_names() -> None:
    with pytest.raises(ValueError, match="colored-digits has no files"):
        dataset_path("colored-digits")
    with pytest.raises(ValueError, match=r"no data set 'pcas'\. Did you mean 'pacs'\?"):
        fetch("pcas")
    assert find_source("rotated-mnist")[0] == "mnist"


def test_images_are_sorted_by_place_and_animal(tmp_path: Path) -> None:
    sort_camera_traps(write_camera_traps(tmp_path))
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()) == [
        "location_100/bobcat/b-2.jpg",
        "location_38/bobcat/a-1.jpg",
        "location_38/opossum/a-1.jpg",
    ]
    (write_camera_traps(tmp_path) / "caltech_images_20210113.json").write_text('{"images": []}')
    with pytest.raises(ValueError, match=r"caltech_images_20210113\.json .*KeyError\('categories'\)"):
        sort_camera_traps(tmp_path)

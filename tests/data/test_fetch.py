import dataclasses
import hashlib
import json
import os
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from momentalign.data import _fetch, dataset_path, fetch, is_complete, load_dataset, verify
from momentalign.data._checksums import no_progress, read_lock_file, record_download
from momentalign.data._download import DownloadError
from momentalign.data._sources import SOURCES
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
)
from tests.data.server import Answers

pytestmark = pytest.mark.slow

REAL = Path(os.environ.get("MOMENTALIGN_DATA", "")) / "pacs" / "PACS_112px_q85.tar"


def entries(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_fetch_verify_load(mirrors: Answers, tmp_path: Path) -> None:
    mirrors.files["/0/PACS.zip"] = pack_pacs(tmp_path / "made")
    root = tmp_path / "root"
    assert not is_complete("pacs", root)
    seen: set[str] = set()
    assert fetch("pacs", root, lambda what, done, total: seen.add(what)) == root / "PACS" == dataset_path("pacs", root)
    assert entries(root) == ["PACS", "PACS.sha256", "momentalign.lock.json"]
    assert {"PACS.zip", "unpacking PACS.zip", "recording checksums"} <= seen
    assert is_complete("pacs", root)
    assert verify("pacs", root) == []
    assert load_dataset("pacs", root=root).names == PACS
    entry = json.loads((root / "momentalign.lock.json").read_text())["files"]["pacs/PACS.zip"]
    content = mirrors.files["/0/PACS.zip"]
    assert entry["sha256"] == hashlib.sha256(content).hexdigest()
    assert entry["bytes"] == len(content)
    assert entry["from"] == f"{mirrors.url}/0/PACS.zip"
    mirrors.requests.clear()
    fetch("pacs", root)
    assert mirrors.requests == []


def test_first_download_is_trusted_and_recorded(mirrors: Answers, tmp_path: Path) -> None:
    mirrors.files["/0/PACS.zip"] = pack_pacs(tmp_path / "made")
    fetch("pacs", tmp_path)
    for path in sorted((tmp_path / "PACS").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    mirrors.files["/0/PACS.zip"] = mirrors.files["/1/PACS.zip"] = pack_pacs(tmp_path / "made", prefix="other/")
    with pytest.raises(DownloadError, match=r"expected [0-9a-f]{64}\.") as caught:
        fetch("pacs", tmp_path)
    assert "Its checksum was recorded on 20" in str(caught.value)
    assert "remove it to trust a new one" in str(caught.value)
    assert not is_complete("pacs", tmp_path)


def test_known_checksum_is_compared(mirrors: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = SOURCES["pacs"]
    content = mirrors.files["/1/PACS.zip"] = pack_pacs(tmp_path / "made")
    mirrors.files["/0/PACS.zip"] = b"a mirror that has something else"
    checksum = f"md5:{hashlib.md5(content, usedforsecurity=False).hexdigest()}"
    set_source(monkeypatch, "pacs", files=(dataclasses.replace(source.files[0], checksum=checksum),))
    fetch("pacs", tmp_path)
    assert [path for path, _ in mirrors.requests] == ["/0/PACS.zip", "/1/PACS.zip"]
    assert is_complete("pacs", tmp_path)


def test_nothing_answers(mirrors: Answers, tmp_path: Path) -> None:
    with pytest.raises(DownloadError) as caught:
        fetch("pacs", tmp_path)
    message = str(caught.value)
    place = tmp_path / ".downloads" / "pacs" / "PACS.zip"
    assert f"{mirrors.url}/0/PACS.zip: HTTP 404" in message
    assert f"{mirrors.url}/1/PACS.zip: HTTP 404" in message
    assert f"save it as {place} and run the same command again" in message
    assert "'momentalign data fetch pacs --from FILE'" in message
    place.write_bytes(pack_pacs(tmp_path / "made"))  # what the message says works
    fetch("pacs", tmp_path)
    assert verify("pacs", tmp_path) == []


def test_interrupted_between_download_and_unpacking(
    mirrors: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mirrors.files["/0/PACS.zip"] = pack_pacs(tmp_path / "made")

    def interrupt(*_: object) -> int:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(_fetch, "extract", interrupt)
        with pytest.raises(KeyboardInterrupt):
            fetch("pacs", tmp_path)
    assert entries(tmp_path / ".downloads") == ["pacs", "record.lock"]
    assert not (tmp_path / "PACS").exists()
    mirrors.requests.clear()
    fetch("pacs", tmp_path)
    assert mirrors.requests == []
    assert is_complete("pacs", tmp_path)


def test_one_process_fetches_a_set_at_a_time(tmp_path: Path) -> None:
    archive = tmp_path / "mine.tar.gz"
    archive.write_bytes(pack_pacs(tmp_path / "made", "tar.gz"))
    root = tmp_path / "root"
    refused = []

    def meanwhile(what: str, done: int, total: int | None) -> None:
        if what.startswith("unpacking") and not refused:
            with pytest.raises(ValueError, match=f"Another process is fetching pacs into {root}. Wait for it"):
                fetch("pacs", root, archives=[archive])
            refused.append(what)

    fetch("pacs", root, meanwhile, archives=[archive])
    assert refused
    assert is_complete("pacs", root)
    assert entries(root) == ["PACS", "PACS.sha256"]
    assert load_dataset("pacs", root=root).names == PACS


def test_several_sets_may_be_recorded_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")

    def one(number: int) -> None:
        record_download(tmp_path, f"set-{number}/file", tmp_path / "file", "somewhere", no_progress)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(40)))
    assert len(read_lock_file(tmp_path)) == 40


@pytest.mark.parametrize(("kind", "prefix"), [("tar", ""), ("zip", "kfold/"), ("tar.gz", "a/PACS/")])
def test_archive_that_the_user_has(kind: str, prefix: str, tmp_path: Path) -> None:
    archive = tmp_path / f"mine.{kind}"
    archive.write_bytes(pack_pacs(tmp_path / "made", kind, prefix))
    fetch("pacs", tmp_path / "root", archives=[archive])
    assert archive.exists()
    assert entries(tmp_path / "root") == ["PACS", "PACS.sha256"]
    assert load_dataset("pacs", root=tmp_path / "root").classes == ("cat", "dog")


def test_hostile_archive_leaves_nothing(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "evil.zip", "w") as archive:
        archive.writestr("PACS/photo/dog/1.jpg", "")
        archive.writestr("../../../evil.txt", "evil")
    with pytest.raises(ValueError, match="leads out of its folder"):
        fetch("pacs", tmp_path / "root", archives=[tmp_path / "evil.zip"])
    assert not list(tmp_path.rglob("evil.txt"))
    assert not list((tmp_path / "root").rglob("*.jpg"))


def test_archive_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "made" / "x").mkdir(parents=True)
    (tmp_path / "made" / "x" / "readme.txt").write_text("")
    (tmp_path / "other.zip").write_bytes(pack(tmp_path / "made", "zip"))
    with pytest.raises(
        ValueError, match=r"should contain art_painting, .*, sketch in one folder, but do not\. Found: x\."
    ):
        fetch("pacs", tmp_path / "root", archives=[tmp_path / "other.zip"])
    assert not (tmp_path / "root" / "PACS").exists()
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(
        ValueError, match=r"notes\.txt should be a zip or tar archive, or one of PACS\.zip, but is neither"
    ):
        fetch("pacs", tmp_path / "root", archives=[tmp_path / "notes.txt"])
    with pytest.raises(FileNotFoundError, match=r"'--from' should name a file, but .*gone\.zip does not exist"):
        fetch("pacs", tmp_path / "root", archives=[tmp_path / "gone.zip"])
    with pytest.raises(FileNotFoundError, match=r"made is a folder"):
        fetch("pacs", tmp_path / "root", archives=[tmp_path / "made"])


def test_given_file_of_another_checksum_is_taken_with_a_warning(tmp_path: Path) -> None:
    made = write_celeba(tmp_path / "made", text=True)
    (tmp_path / "img_align_celeba.zip").write_bytes(pack(made / "img_align_celeba", "zip", "img_align_celeba/"))
    given = [tmp_path / "img_align_celeba.zip", made / "list_attr_celeba.txt", made / "list_eval_partition.txt"]
    with pytest.warns(UserWarning, match="It is used nevertheless, because you gave it"):
        fetch("celeba", tmp_path / "root", archives=given)
    assert entries(tmp_path / "root" / "celeba") == [
        "img_align_celeba",
        "list_attr_celeba.txt",
        "list_eval_partition.txt",
    ]


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
    root = tmp_path / "root"
    fetch("mnist", root)
    (root / "mnist" / "t10k-images-idx3-ubyte.gz").unlink()
    (root / "mnist" / "mine.txt").write_text("stays")
    assert verify("mnist", root) == [
        f"{root / 'mnist'} lacks t10k-images-idx3-ubyte.gz. Run 'momentalign data fetch mnist'."
    ]
    fetch("mnist", root)
    assert verify("mnist", root) == []
    assert (root / "mnist" / "mine.txt").read_text() == "stays"


def test_given_file_stands_for_one_and_the_others_are_downloaded(mirrors: Answers, tmp_path: Path) -> None:
    made = write_celeba(tmp_path / "made", text=True)
    images = pack(made / "img_align_celeba", "zip", "img_align_celeba/")
    tables = {path.name: path.read_bytes() for path in made.glob("*.txt")}
    serve_files(mirrors, "celeba", tables | {"img_align_celeba.zip": b"must not be asked for"})
    (tmp_path / "img_align_celeba.zip").write_bytes(images)
    fetch("celeba", tmp_path / "root", archives=[tmp_path / "img_align_celeba.zip"])
    assert verify("celeba", tmp_path / "root") == []
    assert not [path for path, _ in mirrors.requests if path.endswith(".zip")]


def test_file_put_there_by_hand_is_checked_and_recorded(
    mirrors: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / ".downloads" / "pacs" / "PACS.zip"
    place.parent.mkdir(parents=True)
    place.write_bytes(pack_pacs(tmp_path / "made"))
    with monkeypatch.context() as patch:
        set_source(patch, "pacs", files=(dataclasses.replace(SOURCES["pacs"].files[0], checksum="sha256:9c0e"),))
        with pytest.raises(
            ValueError, match=r"pacs: sha256 of .* expected 9c0e\. Remove it and run 'momentalign data fetch"
        ):
            fetch("pacs", tmp_path)
    assert place.exists()
    fetch("pacs", tmp_path)
    entry = json.loads((tmp_path / "momentalign.lock.json").read_text())["files"]["pacs/PACS.zip"]
    assert entry["from"] == "put there manually"
    assert mirrors.requests == []


def test_archives_may_be_kept(mirrors: Answers, tmp_path: Path) -> None:
    mirrors.files["/0/PACS.zip"] = pack_pacs(tmp_path / "made")
    fetch("pacs", tmp_path, keep=True)
    assert (tmp_path / ".downloads" / "pacs" / "PACS.zip").exists()


@pytest.mark.parametrize("content", ["{", "[" * 100_000, "[]"])
def test_broken_lock_file(content: str, tmp_path: Path) -> None:
    (tmp_path / "momentalign.lock.json").write_text(content)
    with pytest.raises(ValueError, match=r"momentalign\.lock\.json should be a lock file of 'momentalign data'"):
        fetch("pacs", tmp_path)


@pytest.mark.skipif("MOMENTALIGN_DATA" not in os.environ or not REAL.exists(), reason=f"needs pacs/{REAL.name}")
def test_real_pacs(tmp_path: Path) -> None:
    fetch("pacs", tmp_path, archives=[REAL])
    assert verify("pacs", tmp_path) == []
    data = load_dataset("pacs", root=tmp_path)
    assert data.classes == ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
    assert [len(data.split(name, "out")) for name in data.names] == [409, 468, 334, 785]
    assert data.split("photo", "out").inputs.names[:2] == ["photo/person/253_0204.jpg", "photo/person/253_0195.jpg"]  # type: ignore[union-attr]

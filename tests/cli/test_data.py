import tarfile
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from momentalign.cli import app
from tests.data.files import write_image_folder, write_mnist


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["data", *arguments], env={"COLUMNS": "200"})


def pacs(folder: Path) -> Path:
    images = write_image_folder(folder, {d: {"dog": 2} for d in ("art_painting", "cartoon", "photo", "sketch")})
    with tarfile.open(folder / "pacs.tar", "w") as archive:
        for path in sorted(images.rglob("*.jpg")):
            archive.add(path, path.relative_to(images).as_posix())
    return folder / "pacs.tar"


def test_list(tmp_path: Path) -> None:
    write_mnist(tmp_path)
    shown = run("list", "--root", str(tmp_path))
    assert shown.exit_code == 0
    lines = {line.split()[0]: line for line in shown.stdout.splitlines()}
    assert lines["colored-digits"].split()[1] == "yes"
    assert lines["rotated-mnist"].split()[1:5] == ["yes", "12", "MB", "published"]
    assert lines["pacs"].split()[1] == "no"
    assert "1 of 2 published" in lines["multinli"]
    assert str(tmp_path) in lines["Data"]


def test_fetch_from_an_archive_then_verify_and_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "root"
    monkeypatch.setenv("MOMENTALIGN_DATA", str(root))
    done = run("fetch", "pacs", "--from", str(pacs(tmp_path / "made")))
    assert done.exit_code == 0, done.output
    assert f"Saved pacs to {root / 'PACS'}. Next: momentalign train pacs" in done.stdout
    assert run("path", "pacs").stdout == f"{root / 'PACS'}\n"
    assert "already exists" in run("fetch", "pacs").stdout
    checked = run("verify", "pacs")  # two images a domain are not the published numbers
    assert isinstance(checked.exception, ValueError)
    assert "pacs should have 1670 rows in photo, but has 2." in str(checked.exception)


def test_dry_run_says_what_would_be_done(tmp_path: Path) -> None:
    shown = run("fetch", "multinli", "--root", str(tmp_path), "--dry-run")
    assert shown.exit_code == 0
    assert "2 files, about 240 MB, into" in shown.stdout
    assert "multinli_1.0.zip: 2 addresses, checksum known" in shown.stdout
    assert "metadata_random.csv: 2 addresses, no checksum published" in shown.stdout
    assert not list(tmp_path.iterdir())


def test_embedded_sets() -> None:
    assert "needs no download" in run("fetch", "colored-digits").stdout
    assert "has no files to verify" in run("verify", "rotated-digits").stdout
    assert isinstance(run("path", "colored-digits").exception, ValueError)


def test_verify_by_hand_says_that_nothing_was_recorded(tmp_path: Path) -> None:
    folders = ("location_100", "location_38", "location_43", "location_46")
    write_image_folder(tmp_path / "terra_incognita", {folder: {"bobcat": 2} for folder in folders})
    shown = run("verify", "terra-incognita", "--root", str(tmp_path))
    assert shown.exit_code == 0, shown.output
    assert "without a list of files" in shown.stdout


def test_errors_name_what_to_do(tmp_path: Path) -> None:
    unknown = run("fetch", "pacz")
    assert isinstance(unknown.exception, ValueError)
    assert "Did you mean 'pacs'?" in str(unknown.exception)
    missing = run("verify", "pacs", "--root", str(tmp_path))
    assert "Run 'momentalign data fetch pacs'." in str(missing.exception)


def test_interrupt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from momentalign import data

    def interrupt(*_: object, **__: object) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(data, "fetch", interrupt)
    stopped = run("fetch", "pacs", "--root", str(tmp_path))
    assert stopped.exit_code == 130
    assert "Run the same command again to resume." in stopped.stdout


def test_groups(tmp_path: Path) -> None:
    source = write_image_folder(tmp_path / "images", {d: {"dog": 20, "polar bear": 20} for d in ("photo", "line art")})
    choice = ["--classes", "dog,polar bear", "--domains", "photo, line art", "--share", "0.9"]
    made = run("groups", str(source), *choice, "-o", str(tmp_path / "set"))
    assert made.exit_code == 0, made.output
    lines = [line.split() for line in made.stdout.splitlines()]
    assert ["group", "train", "val", "test"] in lines
    assert ["polar", "bear,", "photo", "1", "4", "15"] in lines
    assert f"momentalign embed {tmp_path / 'set'}" in made.stdout
    again = run("groups", str(source), *choice, "-o", str(tmp_path / "set"))
    assert "is not empty" in str(again.exception)

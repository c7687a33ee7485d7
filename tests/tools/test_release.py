"""The checks of a release, on a small project."""

import io
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from tools.release import (
    PROJECT,
    ReleaseError,
    check_contents,
    check_links,
    check_tag,
    check_tree,
    check_versions,
    make_tag,
)

FILES = {
    "src/momentalign/__init__.py": '__version__ = "1.2.0"\n',
    "src/momentalign/data/sources.toml": "",
    "pyproject.toml": '[project.urls]\nRepository = "https://github.com/a/b"\n',
    "CHANGELOG.md": "# Changelog\n\n## [1.2.0] - 2026-01-31\n\n- It works.\n\n[1.2.0]: https://github.com/a/b/1.2.0\n",
    "CITATION.cff": 'title: b\nversion: 1.2.0\ndate-released: "2026-01-31"\n',
    "README.md": "[docs](https://github.com/a/b/blob/main/pyproject.toml#urls)\n",
    ".gitignore": "/dist/\n",
    ".ci/run": "",
}


def git(root: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "a")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "a@b.c")
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    return tmp_path


def archives(root: Path, change: str = "") -> tuple[Path, Path]:
    """A source archive and a wheel with what they should have, and one more file."""
    source, wheel = root / "dist/momentalign-1.2.0.tar.gz", root / "dist/momentalign-1.2.0-py3-none-any.whl"
    source.parent.mkdir()
    names = [name for name in FILES if name != ".ci/run"]
    with tarfile.open(source, "w:gz") as file:
        for name in filter(None, [*names, "PKG-INFO", change]):
            file.addfile(tarfile.TarInfo(f"momentalign-1.2.0/{name}"), io.BytesIO())
    metadata = ["METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE"]
    with zipfile.ZipFile(wheel, "w") as file:
        for name in filter(None, [*(name.removeprefix("src/") for name in names if "src/" in name), change]):
            file.writestr(name, "")
        for name in metadata:
            file.writestr(f"momentalign-1.2.0.dist-info/{name}", "")
    return source, wheel


def test_a_project_that_is_ready_is_tagged_once(project: Path) -> None:
    for check in (check_tree, check_versions, check_tag, check_links, make_tag):
        check(project)
    assert git(project, "tag", "--list", "--format=%(refname:short) %(subject)") == "v1.2.0 momentalign 1.2.0\n"
    with pytest.raises(ReleaseError, match=r"The tag v1\.2\.0 exists already"):
        check_tag(project)


def test_files_that_are_not_committed_are_named(project: Path) -> None:
    (project / "new.py").write_text("")
    (project / "README.md").write_text("changed")
    with pytest.raises(ReleaseError, match=r"(?s)README\.md is not committed.*new\.py is not committed"):
        check_tree(project)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("CHANGELOG.md", "[1.2.0] - 2026-01-31", "[1.1.0] - 2026-01-31", "should begin with '## \\[1.2.0\\] - DATE'"),
        ("CHANGELOG.md", " - 2026-01-31", "", "should date 1.2.0 as YYYY-MM-DD, today or before, but has none"),
        ("CHANGELOG.md", "2026-01-31", "2026-02-31", "but has 2026-02-31"),
        ("CHANGELOG.md", "2026-01-31", "9999-01-31", "but has 9999-01-31"),
        ("CHANGELOG.md", "## [1", "## [Unreleased]\n\n- More.\n\n## [1", "unreleased changes"),
        ("CHANGELOG.md", "[1.2.0]: ", "[1.2.1]: ", "an address for \\[1.2.0\\]"),
        ("CITATION.cff", "version: 1.2.0", "version: 1.1.0", "'version: 1.2.0', but has 1.1.0"),
        ("CITATION.cff", "date-released", "date", "'date-released: 2026-01-31', but has none"),
        ("src/momentalign/__init__.py", "1.2.0", "1.3.0", "\\[1.3.0\\] - DATE"),
    ],
)
def test_one_version_and_one_date(project: Path, file: str, old: str, new: str, message: str) -> None:
    path = project / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(ReleaseError, match=message):
        check_versions(project)


def test_an_empty_section_of_unreleased_changes_is_allowed(project: Path) -> None:
    path = project / "CHANGELOG.md"
    path.write_text(path.read_text().replace("## [1", "## [Unreleased]\n\n## [1", 1))
    check_versions(project)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[a](docs/a.md)", "docs/a.md is relative"),
        ("![a](./a.png)", "a.png is relative"),
        ("[a](#heading)", "#heading is relative"),
        ("[a]: docs/a.md", "docs/a.md is relative"),
        ('<img src="a.png">', "a.png is relative"),
        ("[a](http://github.com/a)", "http://github.com/a is relative"),
        ("[a](https://github.com/a/b/blob/main/none.md#x)", "none.md#x names a file that does not exist"),
        ("![a](https://raw.githubusercontent.com/a/b/main/none.svg?sanitize=true)", "a file that does not exist"),
    ],
)
def test_links_that_an_index_cannot_follow(project: Path, text: str, message: str) -> None:
    (project / "README.md").write_text(f"Text.\n\n{text}\n")
    with pytest.raises(ReleaseError, match=message):
        check_links(project)


def test_code_has_no_links(project: Path) -> None:
    (project / "README.md").write_text("`x[0](a)`\n\n```python\nx[0](a)\n```\n")
    check_links(project)


def test_the_readme_can_be_shown_by_an_index() -> None:
    check_links(PROJECT)


def test_archives_have_the_committed_files(project: Path) -> None:
    check_contents(project, *archives(project))


def test_another_file_in_an_archive(project: Path) -> None:
    with pytest.raises(
        ReleaseError, match=r"(?s)gz should not have momentalign-1\.2\.0/runs/a.*whl should not have runs/a"
    ):
        check_contents(project, *archives(project, "runs/a"))


def test_a_file_that_an_archive_lacks(project: Path) -> None:
    (project / "src/momentalign/new.py").write_text("")
    git(project, "add", ".")
    with pytest.raises(ReleaseError, match=r"(?s)gz lacks \S+src/momentalign/new\.py.*whl lacks momentalign/new\.py"):
        check_contents(project, *archives(project))

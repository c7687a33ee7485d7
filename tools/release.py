"""Check and tag a release: ``python -m tools.release [--package]``. Nothing is uploaded.

`--package` only builds the source archive and the wheel into dist/ and checks them and the files for the hosting site.
A release also needs a clean working tree, one version and date everywhere, and all tests; then its commit is tagged.
"""

import argparse
import datetime
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]

BRANCH = "main"
"""Branch that absolute links to files of the repository name."""

SCHEMAS = {
    "vendor.citation-file-format": "CITATION.cff",
    "vendor.github-workflows": ".github/workflows/*.yml",
    "vendor.github-issue-config": ".github/ISSUE_TEMPLATE/config.yml",
    "vendor.github-issue-forms": ".github/ISSUE_TEMPLATE/*_*.yml",
}
"""Files by the schema of check-jsonschema that they have to follow."""

SMOKE_TEST = """
import sys, torch, momentalign
assert momentalign.__file__.startswith(sys.argv[1]), momentalign.__file__
assert momentalign.__version__ == sys.argv[2], momentalign.__version__
features = torch.randn(8, 3, requires_grad=True)
logits = torch.nn.functional.linear(features, torch.randn(2, 3))
momentalign.CMA()(features, logits, torch.arange(8) % 2, torch.arange(8) // 4).backward()
assert features.grad.isfinite().all()
from momentalign.__main__ import start
sys.argv[1:] = ["--help"]
start()
"""
"""Arguments: the folder that the wheel was unpacked into, and its version."""


class ReleaseError(Exception):
    """What keeps the release from being made, a line for each problem."""


def main() -> int:
    """Run the checks in turn and stop at the first that fails; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--package", action="store_true", help="only build and check the archives; no tests, no tag")
    package_only = parser.parse_args().package
    try:
        for name, step in _steps(package_only):
            print(f"{name} ...", flush=True)
            step(PROJECT)
    except ReleaseError as error:
        print(f"No release: {error}", file=sys.stderr)
        return 1
    print("Archives are in dist/." + ("" if package_only else " Nothing was pushed or uploaded."))
    return 0


def _steps(package_only: bool) -> Iterator[tuple[str, Callable[[Path], None]]]:
    if not package_only:
        yield "Working tree", check_tree
        yield "Version and date", check_versions
        yield "Tag", check_tag
    yield "Links of README.md", check_links
    yield "Schemas", check_schemas
    yield "Archives", build_archives
    if not package_only:
        yield "Tests", lambda root: _call("make", "test", cwd=root)
        yield "Documentation", lambda root: _call("make", "docs", cwd=root)
        yield "Working tree after the tests", check_tree
        yield "Tag", make_tag


def check_tree(root: Path) -> None:
    """Raise ReleaseError if a file of the working tree is not committed."""
    changed = _git(root, "status", "--porcelain").splitlines()
    _refuse(f"{line[3:]} is not committed" for line in changed)


def check_versions(root: Path) -> None:
    """Raise ReleaseError unless package, changelog and citation have one version and one date, not in the future."""
    version = package_version(root)
    changelog, citation = (root / "CHANGELOG.md").read_text(), (root / "CITATION.cff").read_text()
    headings = re.findall(r"^## \[(.+?)\](?: - (\S+))?$", changelog, flags=re.MULTILINE)
    unreleased = re.search(r"^## \[Unreleased\]\n(.*?)(?=^## |\Z)", changelog, flags=re.MULTILINE | re.DOTALL)
    name, date = next((found for found in headings if found[0] != "Unreleased"), ("", ""))
    problems = []
    if name != version:
        problems.append(f"CHANGELOG.md should begin with '## [{version}] - DATE', but has {name or 'no version'}")
    elif not _is_past(date):
        problems.append(f"CHANGELOG.md should date {version} as YYYY-MM-DD, today or before, but has {date or 'none'}")
    if unreleased and unreleased[1].strip():
        problems.append("CHANGELOG.md has unreleased changes. Move them under the release's heading")
    if not re.search(rf"^\[{re.escape(version)}\]: https://\S+$", changelog, flags=re.MULTILINE):
        problems.append(f"CHANGELOG.md should have an address for [{version}] at its end")
    for key, expected in (("version", version), ("date-released", date)):
        found = re.search(rf"^{key}: *[\"']?([^\"'\n]*)", citation, flags=re.MULTILINE)
        if found is None or found[1] != expected:
            problems.append(f"CITATION.cff should have '{key}: {expected}', but has {found[1] if found else 'none'}")
    _refuse(problems)


def _is_past(date: str) -> bool:
    try:
        return datetime.date.fromisoformat(date) <= datetime.datetime.now(datetime.UTC).date()
    except ValueError:
        return False


def package_version(root: Path) -> str:
    """The version in the package's `__init__.py`."""
    found = re.search(r'^__version__ = "(.+)"$', (root / "src/momentalign/__init__.py").read_text(), flags=re.MULTILINE)
    if found is None:
        raise ReleaseError("src/momentalign/__init__.py has no __version__.")
    return found[1]


def check_links(root: Path) -> None:
    """Raise ReleaseError for a link of README.md that an index cannot follow, or to a file that does not exist."""
    urls = tomllib.loads((root / "pyproject.toml").read_text())["project"]["urls"]
    base = urls["Repository"]
    raw = base.replace("https://github.com/", "https://raw.githubusercontent.com/")
    own = re.compile(rf"(?:{re.escape(base)}/(?:blob|tree|raw)|{re.escape(raw)})/{BRANCH}/([^#?]*)")
    text = re.sub(r"^```.*?^```|`[^`\n]*`", "", (root / "README.md").read_text(), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(\s*<?([^)\s>]+)|^\[[^\]]+\]:\s*(\S+)|(?:src|srcset|href)=\"([^\"]+)\"", text, flags=re.M)
    problems = []
    for link in (*("".join(found) for found in links), *urls.values()):
        file = own.match(link)
        if not link.startswith("https://"):
            problems.append(f"{link} is relative, but the package index shows README.md alone. Write {base}/blob/…")
        elif file and not (root / file[1]).exists():
            problems.append(f"{link} names a file that does not exist")
    _refuse(problems)


def check_schemas(root: Path) -> None:
    """Raise ReleaseError if a file for the hosting site or a citation does not follow its schema."""
    for schema, pattern in SCHEMAS.items():
        files = sorted(map(str, root.glob(pattern)))
        if not files:
            raise ReleaseError(f"{pattern} does not exist.")
        _call(sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *files, cwd=root, quiet=True)


def build_archives(root: Path) -> None:
    """Build the source archive, from it the wheel, and replace those in dist/ if nothing is wrong with them."""
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder, "dist")
        _call(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(built), str(root), cwd=root, quiet=True)
        archives = sorted(built.iterdir())
        check_contents(root, *archives)
        _call(sys.executable, "-m", "twine", "check", "--strict", *map(str, archives), cwd=root, quiet=True)
        _try_wheel(next(path for path in archives if path.suffix == ".whl"), Path(folder), package_version(root))
        shutil.rmtree(root / "dist", ignore_errors=True)
        shutil.move(built, root / "dist")


def check_contents(root: Path, *archives: Path) -> None:
    """Raise ReleaseError unless the source archive has the committed files and the wheel those of the package."""
    tracked = _git(root, "ls-files").splitlines()
    name = f"momentalign-{package_version(root)}"
    metadata = ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
    expected = {
        ".gz": {f"{name}/{path}" for path in (*tracked, "PKG-INFO") if path == ".gitignore" or path[0] != "."},
        ".whl": {path.removeprefix("src/") for path in tracked if path.startswith("src/")}
        | {f"{name}.dist-info/{path}" for path in metadata},
    }
    problems = []
    for archive in archives:
        if archive.suffix == ".whl":
            with zipfile.ZipFile(archive) as wheel:
                found = set(wheel.namelist())
        else:
            with tarfile.open(archive) as source:
                found = set(source.getnames())
        problems += [f"{archive.name} lacks {path}" for path in sorted(expected[archive.suffix] - found)]
        problems += [f"{archive.name} should not have {path}" for path in sorted(found - expected[archive.suffix])]
    _refuse(problems)


def _try_wheel(wheel: Path, folder: Path, version: str) -> None:
    """Use the wheel's files, not the sources', for a penalty and the command line."""
    unpacked = folder / "site"
    zipfile.ZipFile(wheel).extractall(unpacked)
    environment = {**os.environ, "PYTHONPATH": str(unpacked)}
    program = [sys.executable, "-c", SMOKE_TEST, str(unpacked), version]
    done = subprocess.run(program, cwd=folder, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise ReleaseError(f"The wheel does not work:\n{done.stderr}")


def check_tag(root: Path) -> None:
    """Raise ReleaseError if the version's tag exists."""
    tag = f"v{package_version(root)}"
    if _git(root, "tag", "--list", tag).strip():
        raise ReleaseError(
            f"The tag {tag} exists already. Raise the version, or remove it with git tag --delete {tag}."
        )


def make_tag(root: Path) -> None:
    """Tag the commit with the version. It is not pushed."""
    version = package_version(root)
    _git(root, "tag", "--annotate", f"v{version}", "--message", f"momentalign {version}")
    print(f"Tagged v{version}. To publish: git push origin v{version}, and twine upload dist/*.")


def _refuse(problems: Iterator[str] | list[str]) -> None:
    lines = list(problems)
    if lines:
        raise ReleaseError("\n  ".join(["", *(f"{line}." for line in lines)]))


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)
    if done.returncode:
        raise ReleaseError(f"git {arguments[0]} failed: {done.stderr.strip()}")
    return done.stdout


def _call(*command: str, cwd: Path, quiet: bool = False) -> None:
    """Run a command; `quiet` shows its output only where it fails."""
    done = subprocess.run(command, cwd=cwd, text=True, capture_output=quiet)
    if done.returncode:
        output = f":\n{done.stdout}{done.stderr}" if quiet else "."
        raise ReleaseError(f"{' '.join(command[:4])} … ended with {done.returncode}{output}")


if __name__ == "__main__":
    sys.exit(main())

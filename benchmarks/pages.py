"""Build the results pages and the README from their records: `python -m benchmarks.pages [NAME ...] [--check]`.

docs/results/NAME.md, or the texts that a page names instead, have blocks `<!-- begin BLOCK -->` ... `<!-- end -->`
that the study's module fills, on lines of their own or inside a sentence, and show figures
docs/figures/results/NAME-FIGURE.svg. `--check` writes nothing and fails with the names of what differs.
`python -m benchmarks.pages add RECORDS PATH ...` takes in new records from files or folders that a study wrote;
`expand RECORDS FOLDER` writes the runs of a sweep back as folders.
"""

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.records import DOCS, Line, RecordFile, add_lines, expand_runs, load_lines, record_path
from momentalign._files import atomic_write

MODULES: Mapping[str, str] = {
    "ablation": "benchmarks.ablation.page",
    "colored-digits": "benchmarks.domainbed.digits",
    "costs": "benchmarks.costs.page",
    "domainbed": "benchmarks.domainbed.page",
    "estimators": "benchmarks.estimators.page",
    "fine-tuning": "benchmarks.fine_tuning.page",
    "groups": "benchmarks.groups.page",
    "pacs": "benchmarks.domainbed.pacs",
    "probing": "benchmarks.probing.page",
    "selection": "benchmarks.selection.page",
    "performance": "benchmarks.costs.performance",
    "choosing-weights": "benchmarks.weights",
    "index": "benchmarks.overview",
    "readme": "benchmarks.readme",
    "which-method": "benchmarks.which_method",
}
"""Module of each page; its `PAGE` is a :class:`StudyPage`."""

_BLOCK = re.compile(r"<!-- begin (?P<name>[\w.-]+) -->(?P<text>.*?)<!-- end (?P=name) -->", re.DOTALL)


@dataclass(frozen=True, eq=False)
class PageContent:
    """What the records say: blocks of Markdown and figures, by name."""

    blocks: Mapping[str, str]
    figures: Mapping[str, Figure] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class StudyPage:
    """A page of results.

    Args:
        files: The files of records that it is made from, by name.
        make: Its content, from the records of these files.
        texts: Paths of its texts from the folder of the documentation; docs/results/NAME.md if there are none. Each has
            some of the blocks, and all figures.
    """

    files: Mapping[str, RecordFile]
    make: Callable[[Mapping[str, list[Line]]], PageContent]
    texts: Sequence[str] = ()


def study_page(name: str) -> StudyPage:
    """The page of a name.

    Raises:
        ValueError: If there is no such page.
    """
    if name not in MODULES:
        raise ValueError(f"the page should be one of {', '.join(MODULES)}, but is {name}.")
    page: StudyPage = import_module(MODULES[name]).PAGE
    return page


def block_names(text: str) -> list[str]:
    """Names of a text's blocks, in their order."""
    return [match["name"] for match in _BLOCK.finditer(text)]


def fill(text: str, blocks: Mapping[str, str]) -> str:
    """A page's text with its blocks filled: on lines of their own if `begin` starts a line, else inside the sentence.

    Raises:
        ValueError: If the page has a block that nothing fills, or a marker without its other half.
    """
    found = block_names(text)
    lone = len(re.findall("<!-- (?:begin|end) ", text)) - 2 * len(found)
    if lone:
        raise ValueError(f"every begin should be followed by its end, but {lone} markers are without the other half.")
    if unknown := sorted(set(found) - set(blocks)):
        raise ValueError(f"nothing fills {', '.join(unknown)}: remove the block, or make it in the study's module.")

    def replace(match: re.Match[str]) -> str:
        name, content = match["name"], blocks[match["name"]].strip("\n")
        alone = match.start() == 0 or text[match.start() - 1] == "\n"
        if not alone and "\n" in content:
            raise ValueError(f"{name} has several lines and needs a block whose begin starts a line.")
        around = "\n\n" if alone else ""
        return f"<!-- begin {name} -->{around}{content}{around}<!-- end {name} -->"

    return _BLOCK.sub(replace, text)


def build(name: str, docs: Path = DOCS, *, check: bool = False) -> list[str]:
    """Write a page and its figures; with `check` nothing is written.

    Args:
        name: Of the page.
        docs: Folder of the documentation.
        check: Only compare.

    Returns:
        Names of the blocks and figures that differed.

    Raises:
        ValueError: If the page and its study name different blocks or figures.
    """
    study = study_page(name)
    content = study.make({file: load_lines(file, docs) for file in study.files})
    paths = [(docs / text).resolve() for text in study.texts or [f"results/{name}.md"]]
    found = {block for path in paths for block in block_names(path.read_text(encoding="utf-8"))}
    if missing := sorted(set(content.blocks) - found):
        names, files = ", ".join(missing), ", ".join(path.name for path in paths)
        raise ValueError(f"{files}: there is no block for {names}: write <!-- begin NAME --><!-- end NAME -->.")
    differing = []
    for label, figure in content.figures.items():
        file = f"figures/results/{name}-{label}.svg"
        for path in paths:
            if file not in path.read_text(encoding="utf-8"):
                raise ValueError(f"{path.name}: should show {file}, which is made for it.")
        if not figure.is_current(docs / file):
            differing.append(f"{paths[0].name}: {Path(file).name}")
            if not check:
                figure.save(docs / file)
    return [line for path in paths for line in _build_text(path, content.blocks, check=check)] + differing


def _build_text(path: Path, blocks: Mapping[str, str], *, check: bool) -> list[str]:
    """Fill the blocks of one text; returns those that differed."""
    text = path.read_text(encoding="utf-8")
    try:
        filled = fill(text, blocks)
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None
    old, new = ([match["text"] for match in _BLOCK.finditer(version)] for version in (text, filled))
    differing = [block for block, before, now in zip(block_names(text), old, new, strict=True) if before != now]
    if not check and filled != text:
        atomic_write(path, filled)
    return [f"{path.name}: {label}" for label in dict.fromkeys(differing)]


def add(file: str, paths: Sequence[Path], docs: Path = DOCS) -> int:
    """Merge what a study wrote into a file of records; returns how many records it then has.

    Raises:
        ValueError: If no page is made from a file of that name.
    """
    files = {name: known for page in MODULES for name, known in study_page(page).files.items()}
    if file not in files:
        raise ValueError(f"the file of records should be one of {', '.join(files)}, but is {file}.")
    return add_lines(file, files[file], (line for path in paths for line in files[file].read(path)), docs)


def main(arguments: Sequence[str] | None = None, docs: Path = DOCS) -> int:
    """Build or check pages, or take in records; returns the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        commands = {"add": _add_command, "expand": _expand_command}
        return commands[words[0]](words[1:], docs) if words and words[0] in commands else _build_command(words, docs)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2


def _add_command(words: Sequence[str], docs: Path) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages add", description="Take in new records.")
    parser.add_argument("records", help="name of a file in docs/results/records, without its ending")
    parser.add_argument("paths", nargs="+", type=Path, help="files or folders that the study wrote")
    given = parser.parse_args(words)
    number = add(given.records, given.paths, docs)
    print(f"{record_path(given.records, docs)} has {number} records.")
    return 0


def _expand_command(words: Sequence[str], docs: Path) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pages expand", description="Write a sweep's runs, for momentalign table and report."
    )
    parser.add_argument("records", help="name of a file of runs in docs/results/records, without its ending")
    parser.add_argument("folder", type=Path, help="new parent of the runs' folders")
    given = parser.parse_args(words)
    lines = load_lines(given.records, docs)
    if not lines or "run" not in lines[0]:
        raise ValueError(f"{record_path(given.records, docs)} should hold runs of a sweep, but does not.")
    if given.folder.exists():
        raise ValueError(f"{given.folder} should not exist yet.")
    expand_runs(lines, given.folder)
    print(f"{given.folder} has {len(lines)} runs. Next: momentalign table {given.folder}")
    return 0


def _build_command(words: Sequence[str], docs: Path) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pages",
        description="Build the results pages from their records. 'add RECORDS PATH ...' takes in new records.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"pages (default: all): {', '.join(MODULES)}")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page differs from its records")
    given = parser.parse_args(words)
    differing = [line for name in given.names or MODULES for line in build(name, docs, check=given.check)]
    for line in differing:
        print(f"{'differs from the records' if given.check else 'written'}: {line}")
    return 1 if given.check and differing else 0


if __name__ == "__main__":
    sys.exit(main())

"""Table of docs/results/index.md: what the files of records hold, and what they were made with."""

from collections import Counter
from collections.abc import Iterable, Mapping

from benchmarks.markdown import table
from benchmarks.pages import MODULES, PageContent, StudyPage, study_page
from benchmarks.records import Line

OWN_NAME = "index"
SHOWN = ("momentalign", "python", "torch", "numpy", "scikit-learn")
"""Packages whose versions are shown."""


def make_page(records: Mapping[str, list[Line]]) -> PageContent:
    """One row for each file."""
    rows = [
        [f"`{name}`", str(len(lines)), _join(map(_versions, lines)), _join(map(_device, lines))]
        for name, lines in records.items()
    ]
    return PageContent({"files": table(["records", "lines", "versions", "device"], rows, left=(0, 2, 3))})


def _join(values: Iterable[str]) -> str:
    """Distinct values, the most frequent first, with their numbers of records if there are several."""
    counts = Counter(values).most_common()
    return "; ".join(f"{value} ({count})" if len(counts) > 1 else value for value, count in counts)


def _versions(line: Line) -> str:
    run = line.get("run", {})
    versions = {**line.get("versions", {}), **run.get("versions", {})}
    if "momentalign" in run:
        versions["momentalign"] = run["momentalign"]
    return ", ".join(f"{name} {versions[name]}" for name in SHOWN if name in versions) or "not recorded"


def _device(line: Line) -> str:
    return line.get("run", line).get("device") or "not recorded"


PAGE = StudyPage(
    {name: file for page in MODULES if page != OWN_NAME for name, file in study_page(page).files.items()}, make_page
)

"""Tables and figures of docs/results/estimators.md."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.estimators.tables import markdown_tables
from benchmarks.pages import PageContent, StudyPage
from benchmarks.records import Line, RecordFile


def cell_lines(file: Path) -> Iterator[Line]:
    """One record for each cell of a file that the study wrote."""
    content = json.loads(file.read_text(encoding="utf-8"))
    versions = {"momentalign": content["estimators"]["momentalign"], **content["versions"]}
    for name, cell in content["cells"].items():
        yield {"cell": name, "versions": versions, **cell}


def make_page(records: Mapping[str, list[Line]]) -> PageContent:
    """Tables of each half and kind of set."""
    cells = {line["cell"]: line for line in records["estimators"]}
    return PageContent(markdown_tables(cells))


PAGE = StudyPage({"estimators": RecordFile(("cell",), cell_lines)}, make_page)

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import pages
from benchmarks.figures import Figure, dots
from benchmarks.markdown import mean_with_error, number, table
from benchmarks.pages import MODULES, PageContent, StudyPage, build, fill, main
from benchmarks.records import (
    DOCS,
    SWEEP_RUNS,
    Line,
    RecordFile,
    add_lines,
    json_lines,
    load_lines,
    record_path,
    rounded,
)

NUMBERS = RecordFile(("name", "trial"), json_lines)


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page with a table, a number in a sentence and a figure, built from two records."""

    def make(records: dict[str, list[Line]]) -> PageContent:
        rows = [{"row": str(line["trial"]), "name": line["name"], "mean": line["value"]} for line in records["numbers"]]
        table = "\n".join(["| trial | value |", "|---|--:|", *(f"| {row['row']} | {row['mean']} |" for row in rows)])
        figure = Figure(rows, lambda data: dots(data, x="value", names=["a"], sort=["0", "1"]))
        return PageContent({"table": table, "best": str(max(row["mean"] for row in rows))}, {"dots": figure})

    page = SimpleNamespace(PAGE=StudyPage({"numbers": NUMBERS}, make))
    monkeypatch.setattr(pages, "MODULES", {"small": "small_page"})
    monkeypatch.setattr(pages, "import_module", {"small_page": page}.__getitem__)
    (tmp_path / "results").mkdir()
    (tmp_path / "results/small.md").write_text(
        "# Small\n\nThe best is <!-- begin best -->?<!-- end best -->, see\n\n"
        "<!-- begin table --><!-- end table -->\n\n"
        "![Values](../figures/results/small-dots.svg)\n"
    )
    new = tmp_path / "new.jsonl"
    new.write_text("".join(json.dumps({"name": "a", "trial": k, "value": k / 3}) + "\n" for k in (1, 0)))
    assert main(["add", "numbers", str(new)], tmp_path) == 0
    assert main([], tmp_path) == 0
    return tmp_path


@pytest.mark.parametrize("name", MODULES)
def test_pages_show_their_records(name: str) -> None:
    assert build(name, check=True) == []


def test_records_are_small() -> None:
    assert sum(path.stat().st_size for path in (DOCS / "results/records").iterdir()) < 20e6


def test_a_page_is_filled_from_its_records(docs: Path) -> None:
    text = (docs / "results/small.md").read_text()
    assert "The best is <!-- begin best -->0.333333<!-- end best -->, see" in text
    assert "<!-- begin table -->\n\n| trial | value |\n|---|--:|\n| 0 | 0 |\n| 1 | 0.333333 |\n\n<!-- end" in text
    assert "<svg" in (docs / "figures/results/small-dots.svg").read_text()
    assert main(["--check"], docs) == 0


def test_every_block_is_in_a_text(docs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = docs / "results/small.md"
    page.write_text(page.read_text().replace("<!-- begin best -->0.333333<!-- end best -->", "the best"))
    assert main([], docs) == 2
    assert "small.md: there is no block for best" in capsys.readouterr().err


def test_a_page_may_have_several_texts(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make = pages.study_page("small").make
    page = SimpleNamespace(PAGE=StudyPage({"numbers": NUMBERS}, make, texts=("../front.md", "results/small.md")))
    monkeypatch.setattr(pages, "import_module", {"small_page": page}.__getitem__)
    docs = docs.rename(docs.parent / "documents")
    front = docs.parent / "front.md"
    front.write_text("# <!-- begin best --><!-- end best -->\n")  # not all of the blocks
    assert main(["--check"], docs) == 2  # it does not show the figure
    front.write_text(front.read_text() + "![Values](https://example.org/docs/figures/results/small-dots.svg)\n")
    assert build("small", docs) == ["front.md: best"]
    assert "# <!-- begin best -->0.333333<!-- end best -->" in front.read_text()
    assert main(["--check"], docs) == 0


@pytest.mark.parametrize(
    ("file", "before", "after", "named"),
    [
        ("results/small.md", "| 0.333333 |", "| 0.433333 |", "small.md: table"),
        ("results/small.md", ">0.333333<", ">0.433333<", "small.md: best"),
        ("figures/results/small-dots.svg", "<svg", "<svg ", "small.md: small-dots.svg"),
    ],
)
def test_numbers_edited_by_hand_are_found(
    docs: Path, file: str, before: str, after: str, named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = docs / file
    built = path.read_text()
    path.write_text(built.replace(before, after, 1))
    capsys.readouterr()
    assert main(["--check"], docs) == 1
    assert capsys.readouterr().out == f"differs from the records: {named}\n"
    assert main([], docs) == 0
    assert path.read_text() == built


def test_a_number_of_a_published_page_edited_by_hand_is_found(tmp_path: Path) -> None:
    name = "estimators"
    shutil.copytree(DOCS / "results", tmp_path / "results")
    shutil.copytree(DOCS / "figures", tmp_path / "figures")
    page = tmp_path / f"results/{name}.md"
    head, marker, rest = page.read_text().partition("<!-- begin settle-classification-all-rows -->")
    page.write_text(head + marker + rest.replace("0 / ", "1 / ", 1))
    assert build(name, tmp_path, check=True) == [f"{name}.md: settle-classification-all-rows"]


def test_new_records_change_the_page(docs: Path) -> None:
    (docs / "newer.jsonl").write_text('{"name": "a", "trial": 1, "value": 0.5}\n')
    assert main(["add", "numbers", str(docs / "newer.jsonl")], docs) == 0
    assert build("small", docs, check=True) == ["small.md: best", "small.md: table", "small.md: small-dots.svg"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<!-- begin a --> <!-- end b -->", "2 markers are without the other half"),
        ("<!-- begin a --><!-- end a --><!-- begin b --><!-- end b -->", "nothing fills b"),
        ("Here: <!-- begin a --><!-- end a -->", "a has several lines"),
    ],
)
def test_blocks_that_do_not_fit_are_errors(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        fill(text, {"a": "one\ntwo"})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["large"], "should be one of small, but is large"), (["add", "letters", "x"], "should be one of numbers")],
)
def test_unknown_names_are_one_line_and_exit_code_2(
    docs: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments, docs) == 2
    assert message in capsys.readouterr().err


def test_a_file_of_records_does_not_depend_on_their_order(tmp_path: Path) -> None:
    lines = [{"name": "b", "trial": k, "value": 1 / (k + 1)} for k in range(12)]
    assert add_lines("one", NUMBERS, lines, tmp_path) == 12
    assert add_lines("two", NUMBERS, [*lines[6:], *lines], tmp_path) == 12
    assert record_path("one", tmp_path).read_bytes() == record_path("two", tmp_path).read_bytes()
    assert [line["trial"] for line in load_lines("one", tmp_path)] == list(range(12))
    assert add_lines("one", NUMBERS, [{"name": "b", "trial": 3, "value": 7.0}], tmp_path) == 12
    assert load_lines("one", tmp_path)[3]["value"] == 7


def test_numbers_are_rounded_to_six_digits() -> None:
    assert rounded({"a": [1 / 3, 2.0, 12345678.9, 3, None, True, float("nan")]}) == {
        "a": [0.333333, 2, 12345700.0, 3, None, True, "nan"]
    }


def test_numbers_are_written_alike_on_any_machine() -> None:
    assert [number(0.15 + 1e-16), number(0.15 - 1e-16)] == [number(0.15)] * 2
    assert [number(-0.04), number(-1.26, sign=True), number(0.3, sign=True)] == ["0.0", "−1.3", "+0.3"]
    assert mean_with_error([1.0, 3.0]) == "2.0 ± 1.0"
    assert mean_with_error([1.0]) == "1.0"
    assert table(["a", "b"], [["x", "1"]]) == "| a | b |\n|---|--:|\n| x | 1 |"


def test_runs_of_a_sweep_come_back(tmp_path: Path) -> None:
    config = {"dataset": "d", "algorithm": "erm", "test_domains": ["b"], "trial": 0, "hparams_seed": 1, "hparams": {}}
    for name, status in (("x", "finished"), ("y", "running")):
        folder = tmp_path / "sweep" / name
        folder.mkdir(parents=True)
        info = {"format": 1, "hash": name, "config": {**config, "steps": 2}, "domains": ["a", "b"], "status": status}
        (folder / "run.json").write_text(json.dumps(info))
        records = [
            {"step": step, "domain": domain, "split": split, "metric": metric, "value": value}
            for step, value in ((0, 0.25), (1, float("nan")))
            for domain, split, metric in (("a", "out", "accuracy"), (None, None, "loss"), (None, None, "memory_gib"))
        ]
        (folder / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records[:5]))
    lines = list(SWEEP_RUNS.read(tmp_path / "sweep"))
    add_lines("runs", SWEEP_RUNS, lines, tmp_path)
    (line,) = load_lines("runs", tmp_path)
    assert line["run"]["hash"] == "x"
    assert line["steps"] == [0, 1]
    assert line["curves"] == {"accuracy|out|a": [0.25, "nan"], "loss||": [0.25, "nan"]}

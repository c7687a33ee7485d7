import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from momentalign._format import printable
from momentalign.report import accuracy_table, write_report
from momentalign.selection import RULES, Sweep, read_runs
from tests.report.sweeps import HOSTILE, hostile, mixed
from tests.runs.fake_sweep import make_config, record, write_domainbed_run, write_fake_sweep, write_run

pytestmark = pytest.mark.slow


class Reader(HTMLParser):
    """Text by element, scripts apart."""

    def __init__(self, content: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, Any]]] = []
        self.scripts: list[tuple[str, str]] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(content)

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)
        if tag == "script":
            self.scripts.append((dict(attrs).get("type", ""), ""))

    def handle_endtag(self, tag: str) -> None:
        while self.open and self.open.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            kind, text = self.scripts[-1]
            self.scripts[-1] = (kind, text + data)
        elif self.open and self.open[-1] != "style":
            self.text.append(data)

    def words(self) -> str:
        return " ".join(" ".join(self.text).split())


def read(sweep: Sweep, folder: Path) -> Reader:
    target = folder / "out" / "report.html"
    assert write_report(sweep, target) == [target]
    assert [path.name for path in target.parent.iterdir()] == ["report.html"]
    return Reader(target.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    return mixed(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def page(sweep: Sweep, tmp_path_factory: pytest.TempPathFactory) -> Reader:
    return read(sweep, tmp_path_factory.mktemp("page"))


def test_all_chapters_are_there(page: Reader) -> None:
    keys = [attrs["id"] for tag, attrs in page.tags if tag == "section"]
    assert keys == ["answer", "accuracy", "curves", "terms", "moments", "costs", "search", "provenance", "problems"]
    for words in ("Leave one domain out", "Worst group", "Hessian spread", "worst-group accuracy on the test split"):
        assert words in page.words()


def test_the_answer_is_the_first_paragraph_and_there_once(page: Reader, sweep: Sweep) -> None:
    for rule, name in (("extrapolated", "extrapolated selection (reach 2)"), ("worst-group", "worst-group selection")):
        (section,) = accuracy_table(sweep, rule).sections
        sentence = f"{section.label}, {name}: {section.words[-1]}"
        assert page.words().count(sentence) == page.words().count(section.words[-1]) == 1
    first = next(index for index, (tag, _) in enumerate(page.tags) if tag == "p")
    assert page.tags[first][1]["class"] == "headline"


def test_tables_hold_the_numbers_of_the_rules(page: Reader, sweep: Sweep) -> None:
    cells = [text.strip() for text in page.text]
    for rule in RULES:
        for section in accuracy_table(sweep, rule).sections:
            assert section.title in cells
            assert {cell.text for row in section.rows for cell in row.cells if cell.text} <= set(cells)


def test_provenance(page: Reader) -> None:
    words = page.words()
    for part in ("torch 2.11.0", "python 3.11.7", "device cpu", "holdout 0.2", "record every 100"):
        assert part in words


def test_problems_are_listed(page: Reader, sweep: Sweep) -> None:
    words = page.words()
    assert sweep.problems
    for problem in sweep.problems:
        assert problem in words
    assert "RuntimeError: loss is not finite" in words
    assert "11 finished, 1 failed" in words or "2 running, 1 failed" in words


def test_nothing_is_asked_for_and_only_own_scripts_may_run(page: Reader) -> None:
    for tag, attrs in page.tags:
        assert tag not in ("link", "img", "iframe", "object", "base", "form")
        assert "src" not in attrs
        assert attrs.get("href", "#").startswith("#")
        assert not any(name.startswith("on") for name in attrs)
    (policy,) = [attrs["content"] for tag, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-eval" not in policy
    allowed = set(re.findall(r"'sha256-([^']+)'", policy))
    scripts = [text for kind, text in page.scripts if kind != "application/json"]
    assert {base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts} == allowed
    assert len(scripts) == 2


def test_charts_are_json_without_a_way_out(tmp_path: Path) -> None:
    page = read(hostile(tmp_path / "runs"), tmp_path)
    blocks = [text for kind, text in page.scripts if kind == "application/json"]
    assert len(blocks) > 10
    for text in blocks:
        assert not set("<>&") & set(text)
        json.loads(text)
    assert any(HOSTILE[0] in json.dumps(json.loads(text)) for text in blocks)


def test_hostile_names_are_text(tmp_path: Path) -> None:
    page = read(hostile(tmp_path / "runs"), tmp_path)
    assert len([tag for tag, _ in page.tags if tag == "script"]) == len(page.scripts)
    assert not {tag for tag, _ in page.tags} & {"img", "b", "i"} - {"b"}
    assert not [attrs for tag, attrs in page.tags if tag == "svg" and "onload" in attrs]
    words = page.words()
    for name in HOSTILE:
        assert printable(name) in words
    shown = words + "".join(
        json.dumps(json.loads(text), ensure_ascii=False) for kind, text in page.scripts if "json" in kind
    )
    assert not {"\x1b", "\u202e"} & set(shown)


def test_half_finished_sweeps_say_what_is_missing(tmp_path: Path) -> None:
    write_fake_sweep(tmp_path / "runs", algorithms=("erm", "cma"), trials=1, hparams=1, unfinished=6)
    words = read(read_runs(tmp_path / "runs"), tmp_path).words()
    assert words.count("no run is finished.") == 4
    assert "ERM and another method need finished runs in common" in words
    assert "No run is finished: all runs so far." in words
    assert "0 / 6 runs finished" in words
    assert "no method has finished runs with different hyper-parameters" in words


def test_averaged_weights_are_a_method_and_no_run_of_their_own(tmp_path: Path) -> None:
    for folder in write_fake_sweep(tmp_path / "runs", algorithms=("erm", "cma"), hparams=1, average="sma"):
        lines = (folder / "records.jsonl").read_text().splitlines(keepends=True)
        averaged = [line.replace('"accuracy"', '"averaged_accuracy"') for line in lines if '"accuracy"' in line]
        (folder / "records.jsonl").write_text("".join([*lines, *averaged]))
    words = read(read_runs(tmp_path / "runs"), tmp_path).words()
    assert "ERM ERM + SMA CMA CMA + SMA" in words
    assert "12 runs finished" in words


def test_runs_without_any_record(tmp_path: Path) -> None:
    write_run(tmp_path / "runs", make_config(), [], status="running")
    words = read(read_runs(tmp_path / "runs"), tmp_path).words()
    assert "no records yet" in words
    assert "no time or memory recorded" in words


def test_sweeps_of_domainbed(tmp_path: Path) -> None:
    for test in range(3):
        lines = [
            {"step": step, **{f"env{i}_{split}_acc": 0.5 + step / 1000 for i in range(3) for split in ("in", "out")}}
            for step in (0, 100)
        ]
        write_domainbed_run(tmp_path / "runs", f"run{test}", lines, test_envs=[test])
    words = read(read_runs(tmp_path / "runs"), tmp_path).words()
    assert "colored-mnist: test accuracy in %, oracle selection" in words
    assert "device not known" in words


def test_a_page_that_cannot_be_written_leaves_nothing(tmp_path: Path, sweep: Sweep) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        write_report(sweep, tmp_path / "file" / "report.html")
    folder = tmp_path / "folder.html"
    folder.mkdir()
    with pytest.raises(OSError):
        write_report(sweep, folder)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "folder.html"]


def test_progress_rises(tmp_path: Path, sweep: Sweep) -> None:
    told: list[tuple[str, float]] = []
    write_report(sweep, tmp_path / "report.html", progress=lambda part, share: told.append((part, share)))
    shares = [share for _, share in told]
    assert shares == sorted(shares)
    assert told[-1] == ("done", 1.0)


def test_files_go_by_short_names_on_the_page_and_in_figures(tmp_path: Path) -> None:
    features = {"dataset": "waterbirds", "encoder": "hf:openai/clip-vit-base-patch32"}
    for place in ("one", "two"):
        config = make_config(dataset=f"/home/me/{place}/birds.parquet", test_domains=[], setting="probe")
        lines = [
            record(step, metric, 0.8, split=split)
            for step in (0, 9)
            for split in ("val", "test")
            for metric in ("worst_group_accuracy", "accuracy")
        ]
        write_run(tmp_path / "runs", config, lines, features=features)
    page, *figures = write_report(read_runs(tmp_path / "runs"), tmp_path / "page.html", tmp_path / "figures")
    content = page.read_text(encoding="utf-8")
    assert "/home/me" not in content
    assert "one/birds (probe): test accuracy" in content
    assert "features of</dt><dd>waterbirds, by hf:openai/clip-vit-base-patch32" in content
    assert "precision</dt>" not in content  # a probe has none
    assert tmp_path / "figures" / "accuracy-worst-group-two-birds.svg" in figures


def diverging(folder: Path, steps: dict[str, int]) -> Sweep:
    """A run for each test domain, accuracies of 0.5 at steps 0 to 300; from its step on the loss is null."""
    for test, step in steps.items():
        lines = []
        for at in (0, 100, 200, 300):
            lines += [record(at, "accuracy", 0.5, domain, split) for domain in steps for split in ("in", "out")]
            lines.append(record(at, "loss", 1.0) | ({"value": None} if at >= step else {}))
        write_run(folder, make_config(test_domains=[test]), lines, name=f"on-{test}", domains=tuple(steps))
    return read_runs(folder)


def test_runs_that_diverged_are_problems_and_counted(tmp_path: Path) -> None:
    words = read(diverging(tmp_path / "runs", {"a": 400, "b": 200}), tmp_path).words()
    assert "on-b: erm diverged; from the record at step 200 on its loss is not finite" in words
    assert "1 run diverged: records are ignored from the first non-finite loss on." in words
    assert "2 finished (1 diverged)" in words
    assert "1 problem found" in words


def test_a_sweep_that_diverged_as_a_whole_says_so(tmp_path: Path) -> None:
    sweep = diverging(tmp_path / "runs", {"a": 0, "b": 0})
    words = read(sweep, tmp_path).words()
    assert words.count("all runs that it could select diverged.") == 3
    assert "colored-digits: no records before the runs diverged." in words
    assert "no run is finished" not in words.lower()

import json
import os
from pathlib import Path

import pytest

from benchmarks.fine_tuning import __main__ as command
from benchmarks.fine_tuning.__main__ import main
from benchmarks.fine_tuning.page import gains
from benchmarks.fine_tuning.runs import execute
from benchmarks.fine_tuning.settings import Job, Setting, plan, settings_of
from benchmarks.fine_tuning.tables import tables
from benchmarks.fine_tuning.terms import first_terms
from benchmarks.weights import quantity, term_table
from momentalign.data import load_dataset

pytestmark = pytest.mark.slow

DATA = os.environ.get("MOMENTALIGN_DATA")


def test_settings_are_settled_on_one_seed_and_confirmed_on_the_others() -> None:
    jobs = plan("pacs", 100)
    everywhere = [setting.label for setting in settings_of(100) if setting.everywhere]
    assert {job.setting.label for job in jobs if job.seed} == set(everywhere)
    assert {job.setting.label for job in jobs if not job.seed} == {setting.label for setting in settings_of(100)}
    assert len(jobs) == len({job.key for job in jobs})
    assert {job.seed for job in plan("pacs", seeds=[1])} == {1}


def test_published_rows_are_the_published_preset(tmp_path: Path) -> None:
    line = execute(Job("rotated-digits", "0", 0, Setting("published"), 4), tmp_path, None, None)
    assert (line["hparams"]["scaling"], line["hparams"]["gradient_weight"]) == ("classes", 5000)
    assert 0 <= line["last"] <= 1
    assert 0 <= line["averaged"] <= 1


@pytest.mark.skipif(DATA is None, reason="MOMENTALIGN_DATA is not set")
def test_a_table_is_trained(tmp_path: Path) -> None:
    line = execute(Job("penguin-sex", "Chinstrap", 0, Setting("ERM", "erm"), 2), Path(str(DATA)), None, None)
    assert (line["dataset"], line["domain"], line["steps"]) == ("penguin-sex", "Chinstrap", 2)


def test_tables_show_differences_from_erm(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cells = {("ERM", "a"): 0.5, ("ERM", "b"): 0.7, ("safe", "a"): 0.51, ("safe", "b"): 0.68}
    lines = [
        {"dataset": "three", "domain": domain, "seed": 0, "setting": setting, "last": value, "steps": 1}
        for (setting, domain), value in cells.items()
    ]
    assert "| safe | 51.0 | 68.0 | -0.50 | -2.0 | 2 |" in tables(lines)
    assert any("settled on seed 0" in line for line in tables(lines))
    file = tmp_path / "runs.jsonl"
    file.write_text("".join(json.dumps({**line, "averaged": 0.5, "selected": 0.5}) + "\n" for line in lines))
    assert main(["show", str(file)]) == 0
    assert "| safe | 51.0 | 68.0 |" in capsys.readouterr().out


def test_finished_runs_are_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Job] = []
    monkeypatch.setattr(command, "run_jobs", lambda jobs, *_, **__: iter(asked.extend(jobs) or ()))
    words = ["digits", "--data", str(tmp_path), "--seeds", "0", "--only", "ERM", "-o", str(tmp_path / "out.jsonl")]
    assert main(words) == 0
    assert len(asked) == 9
    done = {"dataset": "rotated-digits", "domain": "0", "seed": 0, "setting": "ERM", "steps": 500}
    (tmp_path / "out.jsonl").write_text(json.dumps({**done, "last": 0.5}) + "\n")
    asked.clear()
    assert main(words) == 0
    assert len(asked) == 8


def test_settings_are_compared_with_erm_on_the_same_domain_and_seed() -> None:
    cells = {("ERM", "a", 0): 0.5, ("ERM", "a", 1): 0.6, ("safe", "a", 1): 0.61, ("safe", "b", 1): 0.9}
    lines = [
        {"dataset": "three", "domain": domain, "seed": seed, "setting": setting, "last": value}
        for (setting, domain, seed), value in cells.items()
    ]
    assert gains(lines, "three", "safe") == {("a", 1): pytest.approx(1.0)}
    assert gains(lines, "three", "safe", "averaged") == {}


def test_terms_of_the_first_step_by_scaling() -> None:
    data = load_dataset("colored-digits")
    lines = list(first_terms(data, "-90%", None, rows=128))
    assert [line["case"] for line in lines] == ["none", "published", "safe"]
    assert lines[0]["cross_entropy"] == lines[2]["cross_entropy"]  # the same batch and weights
    assert lines[0]["gradient"] == pytest.approx(2 * lines[1]["gradient"])  # two classes
    rows = term_table({line["case"]: line for line in lines}).splitlines()[2:]
    assert rows[0].startswith('| `"none"` |')
    assert "(published, 5000 and 1000)" in rows[1]
    assert "(safe, 0.1 and 0.1)" in rows[2]


def test_two_significant_digits() -> None:
    assert [quantity(value) for value in (254321.0, 31.4, 4.44, 0.0251)] == ["250,000", "31", "4.4", "0.025"]

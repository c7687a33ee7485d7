"""Which runs a study of the DomainBed protocol still has to do."""

from pathlib import Path

import pytest

from benchmarks import frozen, pages
from benchmarks.domainbed import __main__ as command
from benchmarks.domainbed import pacs, page, plans
from benchmarks.domainbed.study import Part, Study, runs_of
from benchmarks.records import load_lines, rounded, sweep_lines
from momentalign.runs import Claims

SMALL = Study(
    "rotated-digits",
    ("0", "15", "30", "45", "60", "75"),
    "none",
    [Part(("erm", "cma"), 2, 1, ("0",)), Part(("cma",), 1, 1, ("0",), preset="safe")],
    {"steps": 2, "average": "sma"},
)


def test_sets_come_in_order_and_algorithms_within_them() -> None:
    runs = runs_of(SMALL, Path())
    assert [(run.hparams_seed, run.algorithm, run.preset) for run in runs] == [
        (0, "erm", "published"),
        (0, "cma", "published"),
        (0, "cma", "safe"),
        (1, "erm", "published"),
        (1, "cma", "published"),
    ]


def test_what_is_stored_or_finished_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(command.STUDIES, "colored-mnist", SMALL)
    stored = [{"run": {"hash": config.hash()}} for config in runs_of(SMALL, Path())[1:]]
    monkeypatch.setattr(command, "load_lines", lambda name: stored)
    words = ["colored-mnist", "--out", str(tmp_path / "runs"), "--data", str(tmp_path)]
    assert command.main(words) == 0
    assert "1 of 5 runs are left." in capsys.readouterr().out
    assert command.main([*words, "--list"]) == 0
    assert "0 of 5 runs are left." in capsys.readouterr().out


def test_a_run_of_another_process_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(command.STUDIES, "colored-mnist", SMALL)
    monkeypatch.setattr(command, "run", lambda config, folder, **options: done.append(config.hash()))
    done: list[str] = []
    first, *others = [config.hash() for config in runs_of(SMALL, Path())]
    other_process = Claims(tmp_path)
    assert other_process.acquire(first)
    assert command.main(["colored-mnist", "--out", str(tmp_path), "--data", str(tmp_path)]) == 0
    assert done == others


def test_a_data_set_that_is_not_there_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        command.main(["pacs", "--list", "--data", str(tmp_path)])
    assert stopped.value.code == 2
    assert f"error: {tmp_path / 'PACS'} does not exist. Run" in capsys.readouterr().err


def test_a_set_is_shown_by_its_last_record_over_trials() -> None:
    def line(algorithm: str, trial: int, number: int, test: list[float], trained: float) -> dict[str, object]:
        config = {"algorithm": algorithm, "trial": trial, "hparams_seed": number, "test_domains": ["c"]}
        curves = {"accuracy|in|c": test, "accuracy|out|a": [0.1, trained], "accuracy|out|b": [0.1, trained + 0.1]}
        return {"run": {"config": config, "domains": ["a", "b", "c"]}, "curves": curves}

    lines = [
        line("erm", 0, 0, [0.9, 0.2], 0.5),
        line("erm", 1, 0, [0.9, 0.4], 0.7),
        line("cma", 0, 1, [0.9, 0.6], 0.6),
    ]
    assert page.sets_table(lines, "c").splitlines()[2:] == ["| ERM | 30.0 / 65.0 | – |", "| CMA | – | 60.0 / 65.0 |"]
    assert page.sets_table(lines, "a") == page.NO_RUNS


def test_every_study_has_runs() -> None:
    assert all(
        part.hparams and part.trials and part.algorithms for study in plans.STUDIES.values() for part in study.parts
    )


def test_a_study_counts_and_recognises_its_runs() -> None:
    runs = runs_of(SMALL, Path())
    assert SMALL.size() == len(runs) == 5
    assert SMALL.size("cma") == 3
    assert all(SMALL.covers(run.to_dict()) for run in runs)
    for other in ({"trial": 1}, {"hparams_seed": 2}, {"test_domains": ["15"]}, {"average": "none"}, {"preset": "safe"}):
        assert not SMALL.covers({**runs[0].to_dict(), **other})


def test_stored_runs_become_folders_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pages, "load_lines", lambda name, docs: load_lines(name, docs)[:3])
    assert pages.main(["expand", "colored-mnist", str(tmp_path / "runs")]) == 0
    stored = {line["run"]["hash"]: line for line in load_lines("colored-mnist")[:3]}
    found = {line["run"]["hash"]: line for line in sweep_lines(tmp_path / "runs")}
    assert found.keys() == stored.keys()
    name = next(iter(stored))
    assert rounded(found[name]["curves"]) == stored[name]["curves"]
    assert found[name]["run"]["config"] == stored[name]["run"]["config"]
    assert pages.main(["expand", "colored-mnist", str(tmp_path / "runs")]) == 2
    assert pages.main(["expand", "estimators", str(tmp_path / "other")]) == 2
    assert "should hold runs of a sweep" in capsys.readouterr().err


def test_an_average_is_the_weights_before_it_begins() -> None:
    line = {"run": {}, "curves": {"accuracy|in|a": [0.1, 0.2, 0.3], "averaged_accuracy|in|a": [None, None, 0.4]}}
    curves = pacs.with_whole_averages(line)["curves"]
    assert curves == {"accuracy|in|a": [0.1, 0.2, 0.3], "averaged_accuracy|in|a": [0.1, 0.2, 0.4]}


def test_the_change_is_from_the_last_record_before_the_penalty_counts() -> None:
    def line(algorithm: str, start: int | None, tests: list[float]) -> dict[str, object]:
        hparams = {} if start is None else {"anneal_steps": start}
        config = {"algorithm": algorithm, "hparams_seed": 1, "test_domains": ["a"], "hparams": hparams}
        return {"run": {"config": config}, "steps": [0, 50, 100], "curves": {"accuracy|in|a": tests}}

    lines = [line("cma", 100, [0.1, 0.7, 0.4]), line("cma", 50, [0.5, 0.7, 0.6]), line("erm", None, [0.1, 0.2, 0.3])]
    lines.append(line("coral", 0, [0.1, 0.2, 0.3]))
    assert pacs.change_table(lines).splitlines()[2:] == ["| CMA |  | −10.0 (−30.0 to +10.0) |  |"]


def test_l2_of_frozen_features_is_chosen_without_the_test_domain() -> None:
    results = [
        {"l2_factor": 10, "inner": [0.5, 0.7], "test": 0.9},
        {"l2_factor": 100, "inner": [0.6, 0.7], "test": 0.8},
    ]
    line = {"method": "logistic regression", "domain": "a", "results": results}
    assert frozen.frozen_table([line]).splitlines()[-1] == "| logistic regression | 80.0 | 80.0 | 90.0 |"

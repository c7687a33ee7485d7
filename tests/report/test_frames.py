import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from momentalign.report import _frames
from momentalign.report._cases import GroupedSweep, group_cases
from momentalign.report._provenance import missing_runs
from momentalign.selection import GROUP_RULES, Sweep, read_runs
from tests.report.sweeps import by_hand
from tests.runs.fake_sweep import make_config, record, write_fake_sweep, write_run

pytestmark = pytest.mark.slow


@pytest.fixture
def grouped(tmp_path: Path) -> GroupedSweep:
    return group_cases(by_hand(tmp_path))


def test_accuracy_curves_are_means_over_trials(grouped: GroupedSweep) -> None:
    frame = _frames.accuracy_curves(grouped, grouped.cases[0]).set_index(["what", "test_domain", "step"])
    last = frame.loc[("test", "a", 10)]
    assert last["mean"] == pytest.approx(80)
    assert (last["low"], last["high"]) == (pytest.approx(70), pytest.approx(90))  # population: 0.1 on both sides
    assert last["runs"] == 2
    assert frame.loc[("training", "a", 0), "mean"] == pytest.approx(80)
    assert frame.loc[("training", "b", 10), "mean"] == pytest.approx(90)


def test_left_out_domains_are_seen_by_their_in_rows_and_others_by_their_out_rows(tmp_path: Path) -> None:
    values = {("a", "in"): 0.1, ("a", "out"): 0.2, ("b", "in"): 0.7, ("b", "out"): 0.8}
    for test in (["a"], ["b"], ["a", "b"]):
        more = {("a", "in"): 0.05, ("a", "out"): 0.9} if len(test) == 2 else {}
        lines = [record(10, "accuracy", value, *key) for key, value in {**values, **more}.items()]
        lines += [record(10, "accuracy", 0.5, "c", split) for split in ("in", "out")]
        write_run(tmp_path, make_config(test_domains=test, steps=10), lines, domains=tuple("abc"))
    grouped = group_cases(read_runs(tmp_path))
    case = grouped.cases[0]
    curves = _frames.accuracy_curves(grouped, case).set_index(["what", "test_domain"])["mean"]
    assert curves.to_dict() == pytest.approx(
        {("test", "a"): 10, ("test", "b"): 70, ("training", "a"): 65, ("training", "b"): 35}
    )


def test_bands_are_one_population_standard_deviation(tmp_path: Path) -> None:
    for trial, value in enumerate((0.5, 0.6, 0.6, 0.9)):
        lines = [record(10, "accuracy", value, domain, split) for domain in "ab" for split in ("in", "out")]
        write_run(tmp_path, make_config(test_domains=["a"], trial=trial, steps=10), lines, domains=("a", "b"))
    grouped = group_cases(read_runs(tmp_path))
    (tested,) = _frames.accuracy_curves(grouped, grouped.cases[0]).query("what == 'test'").itertuples()
    assert (tested.mean, tested.runs) == (pytest.approx(65), 4)
    assert (tested.low, tested.high) == (pytest.approx(50), pytest.approx(65 + 15))


def test_terms_and_gaps(grouped: GroupedSweep) -> None:
    case = grouped.cases[0]
    terms = _frames.term_curves(grouped, case)
    assert set(terms["term"]) == {"hessian"}
    assert terms.set_index("step")["mean"].to_dict() == {0: 4.0, 10: 1.5}
    gaps = _frames.gap_curves(grouped, case).set_index(["sample", "order", "step"])
    # Means over trials are 3 and 1 for the two test domains, so their spread is 1 around 2.
    assert gaps.loc[("held-out", 1, 10), ["mean", "low", "high"]].tolist() == pytest.approx([2, 1, 3])
    assert gaps.loc[("held-out", 2, 10), "mean"] == pytest.approx(20)
    assert gaps.loc[("mini-batch", 1, 10), "mean"] == pytest.approx(6)


def test_the_loss_of_erm_is_its_cross_entropy(tmp_path: Path) -> None:
    for algorithm, metrics in (("erm", {"loss": 0.5}), ("cma", {"loss": 9.0, "cross_entropy": 0.6, "hessian": 2.0})):
        lines = [record(10, "accuracy", 0.5, domain, split) for domain in "ab" for split in ("in", "out")]
        lines += [record(10, name, value) for name, value in metrics.items()]
        write_run(tmp_path, make_config(algorithm=algorithm, test_domains=["a"], steps=10), lines, domains=("a", "b"))
    grouped = group_cases(read_runs(tmp_path))
    frame = _frames.term_curves(grouped, grouped.cases[0]).set_index(["term", "method"])["mean"]
    assert frame.to_dict() == {("cross_entropy", "CMA"): 0.6, ("cross_entropy", "ERM"): 0.5, ("hessian", "CMA"): 2.0}


def test_runs_without_a_penalty_have_no_curves_of_terms(tmp_path: Path) -> None:
    for trial in range(2):
        lines = [record(10, "accuracy", 0.5, domain, split) for domain in "ab" for split in ("in", "out")]
        config = make_config(algorithm="erm", test_domains=["a"], trial=trial, steps=10)
        write_run(tmp_path, config, [*lines, record(5, "loss", 0.6), record(10, "loss", 0.5)], domains=("a", "b"))
    grouped = group_cases(read_runs(tmp_path))
    assert _frames.term_curves(grouped, grouped.cases[0]).empty


def test_costs_leave_the_warm_up_out_but_not_its_memory(grouped: GroupedSweep) -> None:
    frame = _frames.run_costs(grouped, grouped.cases[0]).set_index("metric")
    assert frame.loc["step_seconds", "value"] == 0.25
    assert frame.loc["memory_gib", "value"] == 2.0
    assert frame.loc["memory_gib", "runs"] == 4


def test_memory_on_a_cpu_is_the_processs_and_left_out(tmp_path: Path) -> None:
    grouped = group_cases(by_hand(tmp_path, device="cpu"))
    assert _frames.run_costs(grouped, grouped.cases[0])["metric"].tolist() == ["step_seconds"]


def test_long_curves_are_thinned_and_keep_their_ends(tmp_path: Path) -> None:
    write_fake_sweep(tmp_path, algorithms=("erm",), trials=1, hparams=1, steps=5000, record_every=10)
    grouped = group_cases(read_runs(tmp_path))
    steps = set(_frames.accuracy_curves(grouped, grouped.cases[0])["step"])
    assert len(steps) <= 120
    assert {0, 5000} <= steps


def test_curves_do_not_grow_with_the_number_of_runs(tmp_path: Path) -> None:
    sizes = []
    for sets in (1, 4):
        write_fake_sweep(tmp_path / str(sets), algorithms=("erm", "cma"), trials=sets, hparams=sets)
        grouped = group_cases(read_runs(tmp_path / str(sets)))
        sizes.append(len(_frames.accuracy_curves(grouped, grouped.cases[0])))
    assert sizes[0] == sizes[1]


def test_rows_are_json(grouped: GroupedSweep) -> None:
    frame = _frames.accuracy_curves(grouped, grouped.cases[0]).assign(mean=[float("nan")] * 8)
    assert {row["mean"] for row in _frames.chart_rows(frame)} == {None}
    assert _frames.chart_rows(frame.iloc[:0]) == []


def test_nothing_finished_means_all_runs_so_far(tmp_path: Path) -> None:
    write_fake_sweep(tmp_path, algorithms=("erm",), trials=1, hparams=2, unfinished=6)
    grouped = group_cases(read_runs(tmp_path))
    assert grouped.choices == {}
    assert set(grouped.unavailable.values()) == {"no run is finished."}
    assert not grouped.unavailable.keys() & GROUP_RULES.keys()  # rules of groups are no matter without groups
    assert grouped.cases[0].rule is None
    assert len(_frames.accuracy_curves(grouped, grouped.cases[0])) > 0


def test_missing_runs_are_those_that_other_methods_have(tmp_path: Path) -> None:
    write_fake_sweep(tmp_path, algorithms=("erm",), trials=1)
    write_fake_sweep(tmp_path, algorithms=("cma",), trials=2)
    case = group_cases(read_runs(tmp_path)).cases[0]
    assert missing_runs(case) == {"ERM": 6, "CMA": 0}


def test_two_settings_of_one_data_set_stay_apart(tmp_path: Path) -> None:
    write_fake_sweep(tmp_path, algorithms=("erm",), trials=1, hparams=1)
    write_fake_sweep(tmp_path, algorithms=("erm",), trials=1, hparams=1, setting="probe")
    sweep: Sweep = read_runs(tmp_path)
    assert [case.title for case in group_cases(sweep).cases] == ["colored-digits (finetune)", "colored-digits (probe)"]


def test_curves_end_where_the_loss_does(tmp_path: Path) -> None:
    sweep = by_hand(tmp_path)
    runs = {(row.test_domains[0], row.trial): row.Index for row in sweep.runs.itertuples()}
    for key in (("a", 1), ("b", 0), ("b", 1)):
        with (tmp_path / runs[key] / "records.jsonl").open("a") as file:
            file.write(json.dumps(record(10, "loss", float("nan"))) + "\n")
    grouped = group_cases(read_runs(tmp_path))
    case = grouped.cases[0]
    assert case.rule == "training-domain"
    assert set(grouped.choices["oracle"]["run"]) == {runs["a", 0]}
    curves = _frames.accuracy_curves(grouped, case)
    tested = curves[curves["what"] == "test"].set_index(["test_domain", "step"])
    assert tested.loc[("a", 0), "runs"] == 2
    assert tested.loc[("a", 10), "runs"] == 1
    assert tested.loc[("a", 10), "mean"] == pytest.approx(70)
    assert ("b", 10) not in tested.index


def costs_of(records: list[tuple[str, int, str, float]], devices: dict[str, str | None]) -> pd.DataFrame:
    """Costs of records (run, step, metric, value) of one method, by device and metric."""
    frame = pd.DataFrame(records, columns=["run", "step", "metric", "value"])
    runs = pd.DataFrame({"method": "ERM", "device": pd.Series(devices, dtype=object)})
    grouped: Any = SimpleNamespace(sweep=SimpleNamespace(records=frame))
    case: Any = SimpleNamespace(runs=runs)
    return _frames.run_costs(grouped, case).set_index(["device", "metric"])


def test_costs_are_the_median_and_quartiles_over_runs() -> None:
    seconds = {"a": 1.0, "b": 2.0, "c": 3.0, "d": 4.0, "e": 9.0}
    records = [(run, step, "step_seconds", value) for run, value in seconds.items() for step in (10, 20)]
    records += [("b", 30, "step_seconds", 50.0), ("other", 10, "step_seconds", 7.0), ("a", 10, "memory_gib", 0.0)]
    # Of b's steps 20 and 30 the median counts.
    row = costs_of(records, dict.fromkeys(seconds, "gpu")).loc[("gpu", "step_seconds")]
    assert row[["value", "low", "high", "runs"]].tolist() == [4.0, 3.0, 9.0, 5]


def test_a_run_with_one_record_has_costs_and_none_are_not_drawn() -> None:
    records = [("a", 10, "step_seconds", 0.5), ("a", 10, "memory_gib", 0.0)]
    found = costs_of(records, {"a": None})
    assert found.index.tolist() == [("device not known", "step_seconds")]
    assert found["value"].tolist() == [0.5]


def curve(steps: range, values: list[float] | None = None) -> pd.DataFrame:
    number = len(steps)
    return pd.DataFrame({"method": "ERM", "step": list(steps), "value": values or [1.0] * number})


@pytest.mark.parametrize(("points", "marked"), [(1, 1), (5, 5), (6, 6), (12, 6), (18, 6), (120, 6)])
def test_a_curve_shows_its_shape_at_a_few_steps_from_the_first_on(points: int, marked: int) -> None:
    found = _frames._curves(curve(range(points)), ["method"])
    assert found["marked"].sum() == marked
    assert found["marked"].iloc[0]


def test_curves_leave_out_what_is_not_finite() -> None:
    found = _frames._curves(curve(range(3), [1.0, np.inf, 3.0]), ["method"])
    assert found["step"].tolist() == [0, 2]


def test_bands_of_gaps_are_over_trials_where_there_is_one_test_domain(tmp_path: Path) -> None:
    for trial, value in enumerate((1.0, 3.0)):
        lines = [record(10, "accuracy", 0.5, domain, split) for domain in "ab" for split in ("in", "out")]
        lines.append(record(10, "moment_gap_1", value))
        write_run(tmp_path, make_config(test_domains=["a"], trial=trial, steps=10), lines, domains=("a", "b"))
    grouped = group_cases(read_runs(tmp_path))
    (gap,) = _frames.gap_curves(grouped, grouped.cases[0]).itertuples()
    assert (gap.low, gap.mean, gap.high, gap.runs) == (1.0, 2.0, 3.0, 2)


@pytest.mark.parametrize(
    ("value", "shown"), [(1.2345678, 1.2346), (np.nan, None), (np.inf, None), (123456.7, 123460.0)]
)
def test_numbers_of_charts_have_five_digits(value: float, shown: float | None) -> None:
    frame = pd.DataFrame({"x": [value], "name": ["erm"], "count": [1234567]})
    assert _frames.chart_rows(frame) == [{"x": shown, "name": "erm", "count": 1234567}]


@pytest.mark.parametrize(
    ("metric", "split", "mean"),
    [
        ("worst_group_accuracy", "test", 10),
        ("accuracy", "test", 20),
        ("worst_group_accuracy", "val", 30),
        ("accuracy", "val", 40),
    ],
)
def test_curves_of_groups_are_of_one_measure_and_split_as_a_whole(metric: str, split: str, mean: float) -> None:
    keys = [(split, metric) for split in ("test", "val") for metric in ("worst_group_accuracy", "accuracy")]
    lines = [("r", 5, name, part, None, (k + 1) / 10) for k, (part, name) in enumerate(keys)]
    lines += [("r", 5, "accuracy", "test", "land", 0.9), ("other", 5, metric, split, None, 0.9)]
    records = pd.DataFrame(lines, columns=["run", "step", "metric", "split", "domain", "value"])
    sweep = SimpleNamespace(records=records, diverged=lambda: pd.Series(dtype=int))
    grouped: Any = SimpleNamespace(sweep=sweep)
    case: Any = SimpleNamespace(chosen=pd.DataFrame({"run": ["r"], "method": "ERM", "test_domain": None, "trial": 0}))
    (row,) = _frames.group_curves(grouped, case, metric, split).itertuples()
    assert (row.method, row.step, row.runs, row.mean) == ("ERM", 5, 1, pytest.approx(mean))

"""The study that changes one factor of CMA at a time."""

from pathlib import Path

import pytest

from benchmarks.ablation import factors
from benchmarks.ablation.factors import ABLATION, AVERAGED, CHANGES, DEFAULT, TEST_DOMAIN, Factor
from benchmarks.ablation.page import after_annealing, end, result_table, runs_of_factor, verdict
from benchmarks.domainbed.study import Part, Study, runs_of
from benchmarks.records import Line, sweep_lines
from momentalign.algorithms import draw_hyperparameters, find_algorithm
from momentalign.training import run

KEPT = next(factor for factor in CHANGES if "not reset" in factor.change)


def _line(factor: Factor, trial: int, values: list[float]) -> Line:
    hparams = draw_hyperparameters(find_algorithm(factor.algorithm).space("mnist", 5001), 0, factor.overrides)
    config = {"algorithm": factor.algorithm, "hparams": hparams, "trial": trial, "steps": 5001}
    averaged = [None] * 4 + [value / 2 for value in values[4:]]
    curves: dict[str, list[float | None]] = {f"averaged_accuracy|in|{TEST_DOMAIN}": averaged}
    curves |= {f"accuracy|in|{TEST_DOMAIN}": [*values], "accuracy|out|+90%": [0.9] * 8, "accuracy|out|+80%": [0.7] * 8}
    curves |= {f"averaged_accuracy|out|{name}": averaged for name in ("+90%", "+80%")}
    domains = ["+90%", "+80%", TEST_DOMAIN]
    return {
        "run": {"config": config, "domains": domains},
        "steps": [0, 300, 2500, 2600, 3000, 4400, 4700, 5000],
        "curves": curves,
    }


def test_every_change_is_one_configuration() -> None:
    settings = []
    for factor in (DEFAULT, *CHANGES):
        assert {factor.prediction} <= {factors.HIGHER, factors.SAME, factors.LOWER}
        space = find_algorithm(factor.algorithm).space("mnist", 5001)
        settings.append((factor.algorithm, draw_hyperparameters(space, 0, factor.overrides)))
    assert all(settings.count(setting) == 1 for setting in settings)
    assert len(ABLATION.parts) == len(settings)


def test_numbers_are_means_of_the_records_after_annealing_and_at_the_end() -> None:
    line = _line(DEFAULT, 0, [0.5, 0.1, 0.1, 0.4, 0.6, 0.3, 0.2, 0.1])
    assert after_annealing(line) == pytest.approx(0.5)
    assert end(line) == pytest.approx(0.15)
    assert end(line, "averaged_accuracy") == pytest.approx(0.075)
    assert end(line, training=True) == pytest.approx(0.8)
    assert after_annealing(_line(CHANGES[0], 0, [0.1] * 8)) is None
    assert [verdict(points) for points in (5.1, -4.9, -5.1)] == ["higher", "same", "lower"]


def test_results_are_compared_with_the_default_within_trials() -> None:
    values = [0.1] * 8
    lines = [_line(factor, trial, values) for factor in (DEFAULT, CHANGES[0]) for trial in (0, 1)]
    lines.append(_line(CHANGES[1], 0, [0.1] * 6 + [0.5, 0.5]))
    runs = {factor.change: runs_of_factor(factor, lines) for factor in (DEFAULT, *CHANGES)}
    rows = result_table(runs).splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows] == [
        f"| {factor.change}" for factor in (DEFAULT, CHANGES[0], CHANGES[1], AVERAGED)
    ]
    assert rows[0].endswith("| 10.0 ± 0.0 | 80.0 ± 0.0 | 10.0 ± 0.0 | 80.0 ± 0.0 |  |  |  |")
    assert rows[1].endswith("| 0.0 ± 0.0 | lower | **same** |")
    assert rows[2].endswith("| +40.0 | higher | higher |")
    assert rows[3].endswith("| −5.0 ± 0.0 | same | same |")
    assert result_table({change: {} for change in runs}) == "*There are no runs yet.*"


def test_the_optimizer_without_a_reset_differs_only_after_annealing(tmp_path: Path) -> None:
    overrides = {"anneal_steps": 3, "batch_size": 4}
    parts = [Part((name,), 1, 1, ("0",), overrides) for name in ("cma", KEPT.algorithm)]
    study = Study("rotated-digits", ("0", "15"), "none", parts, {"steps": 6, "record_every": 1})
    for config in runs_of(study, tmp_path):
        run(config, tmp_path / config.hash(), root=tmp_path, save=False, train_accuracy=False)
    first, second = (line["curves"]["loss||"] for line in sweep_lines(tmp_path))
    assert first[:4] == second[:4]
    assert first[4:] != second[4:]

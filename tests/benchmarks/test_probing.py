"""The study of probing without one domain: its splits, one cell, and what the rules choose."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.estimators.sets import DomainRows
from benchmarks.probing import cells
from benchmarks.probing.cells import ProbeCell, chosen_sets, left_out_data, run_cell
from benchmarks.probing.page import choose, make_page, rule_cost
from momentalign.probing import project


def make_rows(each: int = 40) -> DomainRows:
    rng = np.random.default_rng(0)
    domains = np.repeat(["a", "b", "c"], each)
    targets = np.tile([0, 1], len(domains) // 2)
    features = rng.normal(size=(len(domains), 4)) + targets[:, None]
    return DomainRows(pd.DataFrame(features), targets, domains)


def test_no_row_of_the_left_out_domain_trains_or_selects() -> None:
    data = left_out_data(make_rows(), "b", 0)
    names = np.array(data.domain_names)[data.domains]
    assert set(names[data.rows("test")]) == {"b"}
    for split, number in (("train", 32), ("val", 8)):
        assert dict(zip(*np.unique(names[data.rows(split)], return_counts=True), strict=True)) == {
            "a": number,
            "c": number,
        }


def test_sets_are_of_the_grid_from_first_to_last() -> None:
    sets = chosen_sets("cma", 100)
    assert len(sets) == cells.MOST_SETS
    assert sets[0] == {"gradient_weight": 1.0, "hessian_weight": 1.0}
    assert sets[-1] == {"gradient_weight": 1e4, "hessian_weight": 1e4}
    assert chosen_sets("erm", 100) == [{}]


def test_cells_make_a_page() -> None:
    lines = []
    for seed in range(2):
        features = project(left_out_data(make_rows(), "b", seed))
        lines += [run_cell(features, ProbeCell("b", seed, method)) for method in ("erm", "gradient-matching")]
    blocks = make_page({"probing": lines}).blocks
    assert "gradient-matching" in blocks["differences"]
    assert lines[0]["sources"] == ["a", "c"]


@pytest.mark.parametrize(("rule", "test"), [("training-domain", 0.1), ("extrapolated", 0.3)])
def test_rules_read_held_out_rows_of_training_domains_only(rule: str, test: float) -> None:
    results = [
        {"validation": [0.9, 0.8], "test": 0.1},
        {"validation": [0.73, 0.72], "test": 0.2},
        {"validation": [0.73, 0.72], "test": 0.3},
    ]
    line = {"method": "erm", "domain": "b", "seed": 0, "rows": {"validation": [5000, 5000]}, "results": results}
    assert choose([line], rule)["test"].tolist() == [test]


def test_the_cost_of_a_rule_is_that_of_the_method_that_loses_most() -> None:
    usual = pd.DataFrame({"algorithm": ["a", "a", "b", "b"], "test": [0.5, 0.7, 0.8, 0.6]})
    assert rule_cost(usual, usual.assign(test=[0.5, 0.6, 0.9, 0.7])) == "5.0"

"""The rules written down a second time, as plain loops over one record after the other, on sweeps full of ties."""

import itertools

import numpy as np
import pytest

from momentalign.selection import read_runs, select
from tests.runs.fake_sweep import make_config, record, write_run

DOMAINS = ("a", "b", "c")
STEPS = (0, 100, 200)
ROWS = {"a": {"out": 40}, "b": {"out": 10}, "c": {"out": 90}}


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    ends = {}  # steps at which runs diverged
    tests = [(name,) for name in DOMAINS] + list(itertools.combinations(DOMAINS, 2))
    for algorithm, test, trial, number in itertools.product(("erm", "cma"), tests, range(3), range(4)):
        if rng.random() < 0.1:
            continue  # never begun
        values = rng.integers(0, 4, size=(len(STEPS), len(DOMAINS), 2)) / 4  # few values, so many ties
        lines = [
            record(step, "accuracy", values[i, j, k], domain, split)
            for i, step in enumerate(STEPS)
            for j, domain in enumerate(DOMAINS)
            for k, split in enumerate(("in", "out"))
        ]
        if rng.random() < 0.3:
            ends[algorithm, trial, number, frozenset(test)] = end = rng.choice(STEPS)
            lines += [record(step, "loss", None if step == end else 1.0) for step in STEPS]
            lines.sort(key=lambda line: line["step"])
        config = make_config(
            dataset="toy", algorithm=algorithm, test_domains=list(test), trial=trial, hparams_seed=number
        )
        status = rng.choice(["failed", "running"]) if rng.random() < 0.1 else "finished"
        write_run(folder, config, lines, domains=DOMAINS, status=status, rows=ROWS)
    return read_runs(folder), ends


def plain(sweep, ends, rule):
    """Answers by cell: set, step and test accuracy."""
    values = {
        (row.run, row.step, row.domain, row.split): row.value
        for row in sweep.records.itertuples()
        if row.domain == row.domain
    }
    runs = {}
    for row in sweep.runs.itertuples():
        if row.status == "finished":
            runs[row.algorithm, row.trial, row.hparams_seed, frozenset(row.test_domains)] = row.Index
    answers = {}
    for algorithm, trial, target in itertools.product(("erm", "cma"), range(3), DOMAINS):
        others = [name for name in DOMAINS if name != target]
        best = None
        for number in range(4):
            run = runs.get((algorithm, trial, number, frozenset([target])))
            pairs = [runs.get((algorithm, trial, number, frozenset([target, v]))) for v in others]
            if run is None or (rule == "leave-one-domain-out" and None in pairs):
                continue
            read = [{target}] + [{target, v} for v in others if rule == "leave-one-domain-out"]
            end = min(ends.get((algorithm, trial, number, frozenset(names)), STEPS[-1] + 1) for names in read)
            chosen = None
            for step in STEPS:
                if step >= end:
                    break
                if rule == "oracle":
                    if step != STEPS[-1]:
                        continue
                    validation = values[run, step, target, "out"]
                elif rule == "training-domain":
                    validation = sum(values[run, step, v, "out"] for v in others) / len(others)
                elif rule == "extrapolated":
                    if step == 0:
                        continue
                    low, high = sorted(values[run, step, v, "out"] for v in others)
                    error = sum(
                        values[run, step, v, "out"] * (1 - values[run, step, v, "out"]) / ROWS[v]["out"] for v in others
                    )
                    validation = low - 2 * max(0, high - low - 2 * error**0.5)
                else:
                    validation = sum(values[p, step, v, "in"] for p, v in zip(pairs, others, strict=True)) / len(others)
                if chosen is None or validation > chosen[0]:
                    chosen = (validation, step, values[run, step, target, "in"])
            if chosen is not None and (best is None or chosen[0] >= best[0]):
                best = (chosen[0], number, *chosen[1:])
        if best is not None:
            answers[algorithm, trial, target] = best
    return answers


@pytest.mark.parametrize("rule", ["training-domain", "extrapolated", "leave-one-domain-out", "oracle"])
def test_selection_gives_what_plain_loops_give(sweep, rule):
    sweep, ends = sweep
    found = {
        (row.algorithm, row.trial, row.test_domain): (row.validation, row.hparams_seed, row.step, row.test)
        for row in select(sweep, rule).itertuples()
    }
    expected = plain(sweep, ends, rule)
    assert len(expected) > 10
    assert found == {cell: pytest.approx(answer) for cell, answer in expected.items()}

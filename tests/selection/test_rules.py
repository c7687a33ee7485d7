"""Hand-made records with answers worked out by hand."""

import itertools

import numpy as np
import pandas as pd
import pytest

from momentalign.selection import GROUP_RULES, RULES, candidates, read_runs, select
from tests.runs.fake_sweep import make_config, record, write_run

ABC = ("a", "b", "c")


def accuracies(step, inside, outside, domains=ABC):
    lines = [record(step, "accuracy", value, name, "in") for name, value in zip(domains, inside, strict=True)]
    return lines + [record(step, "accuracy", value, name, "out") for name, value in zip(domains, outside, strict=True)]


def run(folder, records, *, name, test=("c",), number=0, trial=0, rows=None, **more):
    config = make_config(dataset="toy", test_domains=list(test), hparams_seed=number, trial=trial, **more)
    counts = {} if rows is None else {"rows": {domain: {"in": 4 * rows, "out": rows} for domain in ABC}}
    return write_run(folder, config, records, name=name, domains=ABC, **counts)


def chosen(folder, rule):
    rows = select(read_runs(folder), rule)
    return [(row.test_domain, row.trial, row.hparams_seed, row.run, row.step) for row in rows.itertuples()]


def test_training_domain_takes_the_best_record_by_the_other_domains(tmp_path):
    run(
        tmp_path,
        [
            *accuracies(0, (0.5, 0.5, 0.11), (0.5, 0.5, 0.99)),
            *accuracies(100, (0.1, 0.1, 0.22), (0.7, 0.9, 0.0)),
            *accuracies(200, (0.9, 0.9, 0.33), (0.6, 0.9, 0.9)),
        ],
        name="x",
    )
    row = select(read_runs(tmp_path), "training-domain").iloc[0]
    assert (row.step, row.validation, row.test) == (100, pytest.approx(0.8), 0.22)


def test_records_of_domains_that_a_run_does_not_have_are_not_read(tmp_path):
    foreign = accuracies(0, (0.9, 0.9, 0.9), (0.9, 0.9, 0.9), domains=("x", "y", "z"))
    run(tmp_path, accuracies(0, (0.1, 0.2, 0.3), (0.4, 0.5, 0.6)) + foreign, name="r")
    row = select(read_runs(tmp_path), "training-domain").iloc[0]
    assert (row.validation, row.test) == (pytest.approx(0.45), 0.3)


COLOUR = (0.9, 0.8, 0.1)
SHAPE = (0.73, 0.72, 0.71)


def test_extrapolated_prefers_what_is_equally_good_on_all_training_domains(tmp_path):
    records = [*accuracies(100, COLOUR, COLOUR), *accuracies(200, SHAPE, SHAPE), *accuracies(300, COLOUR, COLOUR)]
    run(tmp_path, records, name="x", rows=10_000)
    sweep = read_runs(tmp_path)
    assert select(sweep, "training-domain").iloc[0].step == 100
    row = select(sweep, "extrapolated").iloc[0]
    assert (row.step, row.validation, row.test) == (200, pytest.approx(0.72), 0.71)
    # Not far outside the hull, the more accurate one is still better.
    assert select(sweep, "extrapolated", reach=0.2).iloc[0].step == 100


def test_extrapolated_forgives_differences_that_few_rows_cannot_show(tmp_path):
    records = [*accuracies(100, COLOUR, COLOUR), *accuracies(200, SHAPE, SHAPE)]
    run(tmp_path, records, name="few", rows=50)
    assert chosen(tmp_path, "extrapolated") == [("c", 0, 0, "few", 100)]
    run(tmp_path / "unknown", records, name="x")  # no standard error: every difference counts
    assert chosen(tmp_path / "unknown", "extrapolated") == [("c", 0, 0, "x", 200)]


def test_extrapolated_takes_no_record_of_the_warm_up(tmp_path):
    records = [line for step in (0, 50, 100) for line in accuracies(step, SHAPE, SHAPE)]
    run(tmp_path, records, name="x", steps=5001)
    assert chosen(tmp_path, "extrapolated") == [("c", 0, 0, "x", 100)]


def test_oracle_orders_records_by_step_and_not_by_line(tmp_path):
    late, early = accuracies(300, (0, 0, 0.4), (0, 0, 0.5)), accuracies(0, (0, 0, 0.9), (0, 0, 0.9))
    run(tmp_path, [*late, *early], name="x")
    assert chosen(tmp_path, "oracle") == [("c", 0, 0, "x", 300)]


def test_rows_come_by_algorithm_then_test_domain_as_the_data_have_them_then_trial(tmp_path):
    domains = ("z", "m", "a")  # not in the order of the alphabet
    wanted = [(name, test, trial) for name in ("cma", "erm") for test in domains for trial in (0, 1)]
    for algorithm, test, trial in reversed(wanted):
        config = make_config(dataset="toy", algorithm=algorithm, test_domains=[test], trial=trial)
        lines = accuracies(300, (0.5, 0.5, 0.5), (0.5, 0.5, 0.5), domains)
        write_run(tmp_path, config, lines, name=f"{algorithm}-{test}-{trial}", domains=domains)
    rows = select(read_runs(tmp_path), "oracle")
    assert list(zip(rows["algorithm"], rows["test_domain"], rows["trial"], strict=True)) == wanted


def test_leave_one_domain_out_uses_steps_that_all_its_runs_have(tmp_path):
    run(tmp_path, [*accuracies(0, (0, 0, 0.1), (0,) * 3), *accuracies(100, (0, 0, 0.2), (0,) * 3)], name="c")
    run(
        tmp_path, [*accuracies(0, (0.3, 0, 0), (0,) * 3), *accuracies(100, (0.9, 0, 0), (0,) * 3)], name="ac", test="ac"
    )
    run(tmp_path, accuracies(0, (0, 0.4, 0), (0,) * 3), name="bc", test="bc")
    assert chosen(tmp_path, "leave-one-domain-out") == [("c", 0, 0, "c", 0)]


def test_records_without_a_number_are_not_chosen(tmp_path):
    run(
        tmp_path,
        [
            *accuracies(0, (0, 0, 0.1), (0.2, 0.2, 0)),
            *accuracies(100, (0, 0, 0.2), (0.9, float("nan"), 0)),
            *accuracies(200, (0, 0, 0.3), (0.9, 0.9, 0))[:-2],  # a torn evaluation: b's out split is missing
        ],
        name="x",
    )
    assert chosen(tmp_path, "training-domain") == [("c", 0, 0, "x", 0)]
    never = [line for line in accuracies(0, (0.9,) * 3, (0.9,) * 3) if (line["domain"], line["split"]) != ("b", "out")]
    run(tmp_path / "never", never, name="y")
    assert chosen(tmp_path / "never", "training-domain") == []


def test_nothing_to_choose_from_is_an_empty_frame(tmp_path):
    run(tmp_path, [], name="x")
    for rule in RULES:
        found = select(read_runs(tmp_path), rule)
        assert len(found) == 0
        assert {"dataset", "algorithm", "test_domain", "trial", "run", "step", "validation", "test"} <= set(found)
        assert ("average" if rule in GROUP_RULES else "held_out") in found


def test_selection_changes_nothing(tmp_path):
    run(tmp_path, accuracies(0, (0, 0, 0), (0, 0, 0)), name="x")
    sweep = read_runs(tmp_path)
    before = sweep.runs.copy(), sweep.records.copy()
    select(sweep, "oracle")
    pd.testing.assert_frame_equal(sweep.runs, before[0])
    pd.testing.assert_frame_equal(sweep.records, before[1])


def test_means_are_rounded_as_upstream_rounds_them(tmp_path):
    """A tie within rounding is decided by the last bit, so the mean has to be NumPy's of the domains in order."""
    rng = np.random.default_rng(0)
    outside = rng.random((50, 3))
    records = [line for step, row in enumerate(outside) for line in accuracies(step, (0, 0, 0), row)]
    run(tmp_path, records, name="x")
    row = select(read_runs(tmp_path), "training-domain").iloc[0]
    means = [np.mean([float(values[0]), float(values[1])]) for values in outside]
    assert row.validation == max(means)


@pytest.mark.parametrize("rule", ["training-domain", "extrapolated", "oracle"])
def test_a_choice_has_the_accuracy_on_held_out_rows_of_its_training_domains(tmp_path, rule):
    run(tmp_path, accuracies(100, (0, 0, 0.3), (0.8, 0.7, 0.1)), name="x")
    found = select(read_runs(tmp_path), rule)
    assert found["held_out"].tolist() == pytest.approx([0.75])


def test_unknown_rules_and_bad_reach_are_refused(tmp_path):
    run(tmp_path, [], name="x")
    sweep = read_runs(tmp_path)
    for choose in (select, candidates):
        with pytest.raises(ValueError, match=r"'rule' .*'orcale'.* Did you mean 'oracle'"):
            choose(sweep, "orcale")
        for rule, reach in itertools.product(RULES, (-0.5, float("nan"))):
            if choose is candidates or rule not in GROUP_RULES:
                with pytest.raises(ValueError, match="'reach'"):
                    choose(sweep, rule, reach=reach)

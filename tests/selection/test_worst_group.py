import pytest

from momentalign.selection import read_runs, select
from momentalign.selection._worst_group import finalists, worst_group_candidates
from tests.runs.fake_sweep import make_config, record, write_run


def probe(folder, number, trial, validation, test=0.5, *, before=None, train=1.0, by_class=None, **more):
    config = make_config(
        dataset="birds", test_domains=[], hparams_seed=number, trial=trial, setting="probe", algorithm="cma", **more
    )
    lines = []
    for step, value in ((0, before if before is not None else validation), (300, validation)):
        lines += [
            record(step, "worst_group_accuracy", value, split="val"),
            record(step, "worst_group_accuracy", test, split="test"),
            record(step, "worst_group_accuracy", train, split="train"),
            *([] if by_class is None else [record(step, "worst_class_accuracy", by_class, split="val")]),
            record(step, "accuracy", test + 0.1, split="test"),
            record(step, "accuracy", 0.123, "land", "test"),
            record(step, "group_accuracy", 0.01, split="val", group="landbird"),
        ]
    return write_run(folder, config, lines, domains=("land", "water"))


def test_best_mean_over_trials_among_the_five_best_of_the_first(tmp_path):
    for number, first in enumerate((0.90, 0.80, 0.70, 0.60, 0.50, 0.40)):
        probe(tmp_path, number, 0, first)
    for trial in (1, 2):
        probe(tmp_path, 0, trial, 0.30)  # best on the first trial by luck
        for number in (1, 2, 3, 4):
            probe(tmp_path, number, trial, 0.75 if number == 2 else 0.60, test=0.4 + 0.1 * trial)
        probe(tmp_path, 5, trial, 1.0)  # not among the five, whatever it does later
    rows = select(read_runs(tmp_path), "worst-group")
    assert list(rows["hparams_seed"]) == [2, 2, 2]
    assert list(rows["trial"]) == [0, 1, 2]
    assert list(rows["validation"]) == [0.70, 0.75, 0.75]
    assert list(rows["test"]) == [0.5, 0.5, 0.6000000000000001]
    assert list(rows["average"]) == pytest.approx([0.6, 0.6, 0.7])
    assert rows["test_domain"].isna().all()


def test_the_last_record_counts(tmp_path):
    probe(tmp_path, 0, 0, 0.2, before=0.9)
    probe(tmp_path, 1, 0, 0.3, before=0.1)
    row = select(read_runs(tmp_path), "worst-group").iloc[0]
    assert (row.hparams_seed, row.step, row.validation) == (1, 300, 0.3)


def test_a_set_with_fewer_trials_does_not_win_by_them(tmp_path):
    probe(tmp_path, 0, 0, 0.9)
    for trial in (0, 1, 2):
        probe(tmp_path, 1, trial, 0.5)
    assert list(select(read_runs(tmp_path), "worst-group")["hparams_seed"]) == [1, 1, 1]


def test_ties_go_to_the_set_with_the_higher_number(tmp_path):
    for number in range(7):
        probe(tmp_path, number, 0, 0.5)
    sweep = read_runs(tmp_path)
    assert list(finalists(worst_group_candidates(sweep))["hparams_seed"]) == [6, 5, 4, 3, 2]
    assert list(select(sweep, "worst-group")["hparams_seed"]) == [6]


def test_half_a_grid_gives_what_there_is(tmp_path):
    probe(tmp_path, 3, 0, 0.5)
    assert list(select(read_runs(tmp_path), "worst-group")["hparams_seed"]) == [3]


def test_algorithms_do_not_compete(tmp_path):
    probe(tmp_path, 0, 0, 0.5)
    config = make_config(dataset="birds", test_domains=[], setting="probe", algorithm="erm")
    lines = [record(1, "worst_group_accuracy", 0.9, split=split) for split in ("val", "test")]
    write_run(tmp_path, config, lines)
    rows = select(read_runs(tmp_path), "worst-group")
    assert list(rows["algorithm"]) == ["cma", "erm"]


def test_rules_differ_in_what_they_rank_by(tmp_path):
    for number, (validation, by_class, train) in enumerate([(0.9, 0.1, 0.2), (0.1, 0.9, 0.1), (0.2, 0.2, 0.9)]):
        probe(tmp_path, number, 0, validation, test=number / 10, by_class=by_class, train=train)
    sweep = read_runs(tmp_path)
    for number, rule in enumerate(("worst-group", "worst-class", "train-groups")):
        row = select(sweep, rule).iloc[0]
        assert (row.hparams_seed, row.validation, row.test) == (number, 0.9, number / 10)


def test_runs_without_the_metric_are_no_candidates(tmp_path):
    probe(tmp_path, 0, 0, 0.5)
    assert select(read_runs(tmp_path), "worst-class").empty
    with pytest.raises(ValueError, match="'rule' should be one of 'worst-group', 'worst-class', 'train-groups'"):
        worst_group_candidates(read_runs(tmp_path), "oracle")

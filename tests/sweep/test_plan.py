import itertools

import pandas as pd
import pytest

from momentalign._datasets import walk_links
from momentalign.algorithms import PLAIN_MODELS
from momentalign.report import accuracy_table, write_report
from momentalign.selection import read_runs, select
from momentalign.sweep import make_plan, make_probe_plan
from momentalign.sweep._jobs import Job, execute
from tests.encoders.models import write_images
from tests.runs.fake_sweep import record, write_run

DOMAINS = ("+90%", "+80%", "-90%")


def plan_of(*algorithms, **options):
    return make_plan(["colored-digits"], algorithms or ["erm"], **{"trials": 1, "hparams": 1, "steps": 5, **options})


def test_a_run_for_each_choice(tmp_path):
    plan = plan_of("erm", "cma", trials=2, hparams=3)
    assert len(plan.runs) == 2 * 3 * 3 * 2
    assert len({run.hash() for run in plan.runs}) == len(plan.runs)
    found = {(run.algorithm, run.test_domains, run.hparams_seed, run.trial) for run in plan.runs}
    expected = itertools.product(("erm", "cma"), [(name,) for name in DOMAINS], range(3), range(2))
    assert found == set(expected)
    assert plan.rules == ("training-domain", "extrapolated", "oracle")
    assert plan.number_of_finals == 0


def test_trials_repeat_one_setting():
    plan = plan_of("cma", trials=2, hparams=2)
    by_set = {}
    for run in plan.runs:
        by_set.setdefault(run.hparams_seed, []).append(run.hparams)
    assert all(hparams == found[0] for found in by_set.values() for hparams in found)
    assert by_set[0][0] != by_set[1][0]


@pytest.mark.parametrize("rules", [["oracle"], ["extrapolated"], ["training-domain", "oracle"]])
def test_single_test_domains_are_enough_for_these_rules(rules):
    assert {len(run.test_domains) for run in plan_of(rules=rules).runs} == {1}


def test_leave_one_domain_out_needs_pairs():
    plan = plan_of(rules=["leave-one-domain-out"])
    tests = {run.test_domains for run in plan.runs}
    assert tests == {*((name,) for name in DOMAINS), *itertools.combinations(DOMAINS, 2)}
    only = plan_of(rules=["leave-one-domain-out"], test_domains=["-90%"])
    assert {run.test_domains for run in only.runs} == {("-90%",), ("+90%", "-90%"), ("+80%", "-90%")}


def test_leave_one_domain_out_needs_three_domains(grouped, tmp_path):
    path = tmp_path / "two.csv"
    pd.read_csv(grouped).drop(columns=["group", "split"]).to_csv(path, index=False)
    with pytest.raises(ValueError, match=r"leave-one-domain-out needs at least three domains, but .* has 2"):
        make_plan([str(path)], ["erm"], rules=["oracle", "leave-one-domain-out"])
    assert {run.test_domains for run in make_plan([str(path)], ["erm"], rules=["oracle"]).runs} == {
        ("land",),
        ("water",),
    }


def test_the_column_that_probes_miss_is_named(grouped, tmp_path):
    path = tmp_path / "gas.csv"
    pd.read_csv(grouped).drop(columns="split").to_csv(path, index=False)
    with pytest.raises(ValueError, match=r"Probes need .* splits .* gas\.csv should have a column 'split' .*Found: x0"):
        make_probe_plan([str(path)], ["erm"])


def test_some_test_domains():
    assert {run.test_domains for run in plan_of(test_domains=["-90%", "-90%"]).runs} == {("-90%",)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test_domains": ["-9%"]}, "'test_domains' should be one of"),
        ({"rules": ["best"]}, "'select' should be one of"),
        ({"rules": ["worst-group"]}, "has no groups, so it cannot be selected by worst-group"),
        ({"trials": 0}, "'trials' should be at least 1"),
        ({"hparams": 0}, "'hparams' should be at least 1"),
        ({"overrides": {"weigth": 1}}, "no hyper-parameter 'weigth'"),
    ],
)
def test_bad_plans_are_refused_before_any_work(options, message):
    with pytest.raises(ValueError, match=message):
        plan_of(**options)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="Did you mean 'fishr'"):
        plan_of("fisher")
    with pytest.raises(ValueError, match="colored-digits"):
        make_plan(["colored-digit"], ["erm"])
    with pytest.raises(ValueError, match="at least one algorithm"):
        make_plan(["colored-digits"], [])


def test_settings_that_are_not_searched():
    plan = plan_of("cma", hparams=3, overrides={"gradient_weight": 7.0})
    assert {run.hparams["gradient_weight"] for run in plan.runs} == {7.0}
    assert len({run.hparams["hessian_weight"] for run in plan.runs}) == 3


def test_worst_group_is_a_grid_on_one_trial_and_five_sets_on_the_others(grouped, tmp_path):
    plan = make_plan([grouped], ["erm", "cma"], trials=3, hparams=7, steps=5, baselines=False)
    assert plan.rules == ("worst-group",)
    assert {(run.trial, run.test_domains) for run in plan.runs} == {(0, ())}
    assert len(plan.runs) == 2 * 7
    assert plan.number_of_finals == 2 * 5 * 2
    assert plan.describe().startswith("34 runs:")
    out = tmp_path / "runs"
    for run in plan.runs:
        validation = {0: 0.1, 3: 0.2}.get(run.hparams_seed, 0.5 + run.hparams_seed / 100)
        lines = [record(4, "worst_group_accuracy", validation, split=split) for split in ("val", "test")]
        write_run(out, run.to_dict(), lines, name=run.hash())
    finals = plan.final_runs(read_runs(out))
    assert {(run.algorithm, run.hparams_seed, run.trial) for run in finals} == {
        (algorithm, number, trial) for algorithm in ("erm", "cma") for number in (1, 2, 4, 5, 6) for trial in (1, 2)
    }
    assert set(select(read_runs(out), "worst-group")["hparams_seed"]) == {6}


def test_finals_are_the_best_sets_by_each_rule(grouped, tmp_path):
    rules = ["worst-group", "train-groups"]
    plan = make_plan([grouped], ["erm"], rules=rules, trials=2, hparams=8, steps=5, baselines=False)
    assert plan.number_of_finals == 8
    out = tmp_path / "runs"
    for run in plan.runs:
        up = run.hparams_seed / 10
        values = {"val": up, "train": 1 - up, "test": 0.5}
        lines = [record(4, "worst_group_accuracy", value, split=split) for split, value in values.items()]
        write_run(out, run.to_dict(), lines, name=run.hash())
    assert [run.hparams_seed for run in plan.final_runs(read_runs(out))] == [7, 6, 5, 4, 3, 0, 1, 2]
    with pytest.raises(
        ValueError, match=r"Probes cannot be selected by oracle\. Use --select worst-group, worst-class"
    ):
        make_probe_plan([grouped], ["erm"], rules=["oracle"])


def test_plain_models_run_beside_the_algorithms_on_tables(grouped, tmp_path):
    path = tmp_path / "two.csv"
    pd.read_csv(grouped).drop(columns=["group", "split"]).to_csv(path, index=False)
    options = {"trials": 2, "hparams": 3, "steps": 5}
    plan = make_plan([str(path)], ["erm"], **options)
    plain = [run for run in plan.runs if run.algorithm in PLAIN_MODELS]
    assert {(run.algorithm, run.test_domains, run.trial, run.hparams_seed) for run in plain} == set(
        itertools.product(PLAIN_MODELS, [("land",), ("water",)], range(2), [0])
    )
    assert len(plan.runs) == 3 * 2 * 2 + 2 * 2 * 2
    assert list(plan.runs[: len(plain)]) == plain  # first
    alone = make_plan([str(path)], ["erm"], baselines=False, **options)
    assert set(alone.runs) == set(plan.runs) - set(plain)
    one = make_plan([str(path)], ["logistic-regression"], baselines=False, **options)
    assert set(one.runs) == {run for run in plain if run.algorithm == "logistic-regression"}
    assert len(make_plan([grouped], ["erm"], **options).all_runs) == 3 * 2 + 2 * 2
    with pytest.raises(
        ValueError, match=r"'logistic-regression' takes rows of a table, but ColoredDigits is none|none\."
    ):
        plan_of("erm", "logistic-regression")


def test_a_plain_model_with_one_set_is_complete(grouped, tmp_path):
    """Executed as any run, and neither marked nor listed as incomplete."""
    path = tmp_path / "two.csv"
    pd.read_csv(grouped).drop(columns=["group", "split"]).to_csv(path, index=False)
    out = tmp_path / "runs"
    plan = make_plan([str(path)], ["erm"], trials=1, hparams=2, steps=5)
    for run in plan.runs:
        job = Job(run, out / run.hash(), plan.domains[run.dataset])
        if run.algorithm in PLAIN_MODELS:
            assert execute(job).status == "finished"
        else:
            lines = [
                record(4, "accuracy", 0.5, domain, split) for domain in ("land", "water") for split in ("in", "out")
            ]
            write_run(out, run.to_dict(), lines, name=run.hash(), domains=("land", "water"))
    sweep = read_runs(out)
    for rule in ("training-domain", "extrapolated", "oracle"):
        (section,) = accuracy_table(sweep, rule).sections
        assert [row.label for row in section.rows] == ["LogisticRegression", "LogisticRegressionCV", "ERM"]
        assert all(cell.complete and cell.mean for row in section.rows for cell in row.cells)
        assert any("scikit-learn's, fitted to the same training rows" in note for note in section.notes)
    write_report(sweep, tmp_path / "report.html")
    assert "lacks" not in (tmp_path / "report.html").read_text().split("<footer>")[0]


def test_test_domains_do_not_go_with_groups(grouped):
    with pytest.raises(ValueError, match="worst group on all domains"):
        make_plan([grouped], ["erm"], test_domains=["land"])
    with pytest.raises(ValueError, match=r"cannot be selected by oracle\. Use --select worst-group"):
        make_plan([grouped], ["erm"], rules=["oracle"])


def test_probes_take_the_whole_grid_on_the_first_seed(grouped):
    plan = make_probe_plan([grouped], ["erm", "hessian-matching"], trials=4)
    assert plan.rules == ("worst-group",)
    assert {run.setting for run in plan.runs} == {"probe"}
    assert {(run.algorithm, run.hparams_seed, run.trial) for run in plan.runs} == {
        ("erm", 0, 0),
        *(("hessian-matching", number, 0) for number in range(7)),
    }
    assert plan.number_of_finals == 3 * (1 + 5)
    assert plan.domains == {grouped: ("land", "water")}
    few = make_probe_plan([grouped], ["hessian-matching"], trials=2, hparams=3, overrides={"components": 2})
    assert [run.hparams_seed for run in few.runs] == [0, 1, 2]
    assert {run.hparams["components"] for run in few.runs} == {2}


@pytest.mark.parametrize("make", [make_plan, make_probe_plan])
def test_a_string_is_no_list_of_names(make, grouped):
    with pytest.raises(TypeError, match=r"'algorithms' should be a list of names, but is the string 'erm'"):
        make([grouped], "erm")
    with pytest.raises(TypeError, match="'datasets' should be a list of names"):
        make(grouped, ["erm"])


def test_a_table_is_swept_as_it_is_named(grouped, tmp_path):
    frame = pd.read_csv(grouped).drop(columns=["group", "split"]).rename(columns={"y": "bird", "domain": "place"})
    frame.to_csv(tmp_path / "t.tsv", index=False, sep="\t")
    plan = make_plan([f"{tmp_path}/t.tsv?target=bird&domain=place"], ["erm"], rules=["oracle"], trials=1, hparams=1)
    assert set(plan.domains) == {f"{tmp_path}/t.tsv?target=bird&domain=place"}
    assert {run.test_domains for run in plan.runs} == {("land",), ("water",)}
    frame[frame["place"] == "land"].to_csv(tmp_path / "one.tsv", index=False, sep="\t")
    with pytest.raises(ValueError, match=r"one\.tsv has only 'land'\. Two domains at least"):
        make_plan([f"{tmp_path}/one.tsv?target=bird&domain=place"], ["erm"])


def test_probes_of_a_table_with_other_columns(grouped, tmp_path):
    path = tmp_path / "t.csv"
    pd.read_csv(grouped).rename(columns={"y": "bird", "split": "part"}).to_csv(path, index=False, sep=";")
    plan = make_probe_plan([f"{path}?target=bird&split=part&sep=;"], ["erm"], trials=1, hparams=1)
    assert {run.dataset for run in plan.runs} == {f"{path}?target=bird&split=part&sep=;"}


def test_a_folder_is_read_once_for_all_runs(tmp_path, monkeypatch):
    write_images(tmp_path / "animals")
    walks = []
    monkeypatch.setattr(
        "momentalign.data._folders.walk_links", lambda folder: walks.append(folder) or walk_links(folder)
    )
    options = {"trials": 2, "hparams": 3, "encoder": "mnist-cnn"}
    plan = make_plan([str(tmp_path / "animals")], ["erm", "cma"], rules=["oracle"], **options)
    assert len(plan.runs) == 24
    assert len(walks) == 4  # the folders of two classes in two domains

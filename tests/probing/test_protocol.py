import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from momentalign.probing import PROTOCOL_METHODS, make_probe_config, project, run_probe, run_protocol
from momentalign.selection import read_runs, select
from tests.probing.problems import spurious_data, write_csv

pytestmark = pytest.mark.slow

DATA = spurious_data(160, 80, features=4)
METHODS = ["erm", "erm-balanced", "coral", "vrex", "groupdro", "gradient-matching"]


@pytest.fixture(scope="module")
def result():  # type: ignore[no-untyped-def]
    return run_protocol(DATA, METHODS, seeds=3, top=2, published={"erm-balanced": (89.52, 84.58)})


def test_the_set_with_the_best_mean_over_seeds_is_reported(result) -> None:  # type: ignore[no-untyped-def]
    frame = result.grid_frame()
    for method in ("vrex", "gradient-matching"):
        mine = frame[frame["method"] == method]
        first = mine[mine["seed"] == 0]
        assert len(first) == len({tuple(row) for row in first[["hparams_seed"]].to_numpy()})
        ranked = first.sort_values(["val_worst", "hparams_seed"], ascending=False)
        assert set(mine[mine["seed"] > 0]["hparams_seed"]) == set(ranked["hparams_seed"][:2])
        finals = mine[mine["hparams_seed"].isin(ranked["hparams_seed"][:2])].groupby("hparams_seed")
        assert (finals.size() == 3).all()
        means = finals["val_worst"].mean()
        best = max(means.index, key=lambda place: (means[place], place))
        chosen = mine[mine["hparams_seed"] == best]
        row = result.to_frame().loc[method]
        assert row["worst_group"] == pytest.approx(chosen["test_worst"].mean())
        assert row["average"] == pytest.approx(chosen["test_average"].mean())
        assert row["worst_group_se"] == pytest.approx(chosen["test_worst"].std(ddof=1) / math.sqrt(3))
        assert row["validation"] == pytest.approx(chosen["val_worst"].mean())
    assert len(frame) == 2 * (1 + 2) + (5 + 2 * 2) + (1 + 2) + (7 + 2 * 2)


def test_test_rows_have_no_say_in_the_choice() -> None:
    tested = DATA.splits == 2
    hostile = replace(
        DATA,
        targets=np.where(tested, 1 - DATA.targets, DATA.targets),
        groups=np.where(tested, 3 - DATA.groups, DATA.groups),
    )
    method = "vrex"
    plain, other = (run_protocol(data, [method], seeds=2, top=3) for data in (DATA, hostile))
    assert plain.to_frame().loc[method, "worst_group"] != other.to_frame().loc[method, "worst_group"]
    finalists = [{fit.hparams_seed for fit in found.fits if fit.seed == 1} for found in (plain, other)]
    assert finalists[0] == finalists[1]
    assert {fit.hparams_seed for fit in plain[method].fits} == {fit.hparams_seed for fit in other[method].fits}


def test_ties_go_to_the_later_sets_of_the_grid() -> None:
    easy = replace(DATA, features=DATA.features + 40 * np.eye(4)[DATA.targets])
    found = run_protocol(easy, ["vrex"], seeds=2, top=2, isr=False)
    assert {fit.val.worst for fit in found.fits} == {1.0}
    assert {fit.hparams_seed for fit in found.fits if fit.seed == 1} == {3, 4}
    assert {fit.hparams_seed for fit in found["vrex"].fits} == {4}


def test_coral_is_not_tuned_and_is_balanced_erm(result) -> None:  # type: ignore[no-untyped-def]
    assert result["coral"].fits is result["erm-balanced"].fits
    assert (result["coral"].fits[0].head.coef != result["erm"].fits[0].head.coef).any()
    assert "nothing tuned" in result["coral"].note
    assert result["coral"].sets == 1
    assert "coral" not in set(result.grid_frame()["method"])


def test_the_table_in_print(result) -> None:  # type: ignore[no-untyped-def]
    text = str(result)
    assert text.startswith("spurious: test accuracy in %, converged solver, ISR by class '")
    assert "89.52 / 84.58" in text
    assert " ± " in text
    lines = text.splitlines()
    labels = ["ERM", "ERM, balanced", "CORAL", "VREx", "GroupDRO", "Gradient matching"]
    assert [line.split("  ")[0] for line in lines[2:8]] == labels
    with pytest.raises(KeyError, match="erm, erm-balanced, coral, vrex"):
        result["irm"]


def test_results_can_be_had_again_and_progress_goes_up() -> None:
    shares: list[float] = []
    features = project(DATA, isr_class=0)
    runs = [
        run_protocol(features, ["vrex"], seeds=2, top=1, progress=lambda part, share: shares.append(share))
        for _ in range(2)
    ]
    assert runs[0].to_frame().equals(runs[1].to_frame())
    assert shares[: len(shares) // 2] == sorted(shares)[::2]
    assert shares[-1] == 1
    assert shares[0] == pytest.approx(1 / (5 + 1))  # five sets, and one of them again with another seed


def test_sgd_and_one_seed() -> None:
    # Rows enough for one batch only: fifty steps.
    found = run_protocol(DATA, ["erm", "groupdro"], solver="sgd", seeds=1, top=1, isr=False)
    assert found.isr_class is None
    assert np.isnan(found.to_frame().loc["erm", "average_se"])
    assert found["groupdro"].sets == 3
    assert "no ISR" in str(found)


def test_features_of_each_seed() -> None:
    several = [spurious_data(classes=3, seed=seed) for seed in range(2)]
    options = {"solver": "sgd", "seeds": 2, "recipe": "multinli-released"}
    found = run_protocol(several, ["erm", "hgp-product"], **options)
    for seed, data in enumerate(several):
        alone = run_protocol([data, data], ["erm"], **options)
        assert found["erm"].fits[seed].test.groups.tolist() == alone["erm"].fits[seed].test.groups.tolist()
    assert found["erm"].fits[0].test.groups.tolist() != found["erm"].fits[1].test.groups.tolist()
    assert {fit.seed for fit in found["hgp-product"].fits} == {0, 1}
    with pytest.raises(ValueError, match="'data' should be one, or one for each of 3 seeds, but are 2"):
        run_protocol(several, ["erm"], seeds=3)


def test_all_methods_run_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    import momentalign.probing._protocol as protocol

    whole = protocol.method_grid
    monkeypatch.setattr(protocol, "method_grid", lambda *args, **kwargs: whole(*args, **kwargs)[:1])
    found = run_protocol(DATA, seeds=1, top=1)
    assert tuple(row.method for row in found.methods) == PROTOCOL_METHODS
    found = run_protocol(DATA, solver="sgd", seeds=1, top=1)
    assert {"balanced", "groupdro-groups"} <= {row.method for row in found.methods}
    assert "dfr" not in {row.method for row in found.methods}


def test_groups_that_are_missing_and_fits_that_stop_are_said() -> None:
    group = np.where(DATA.splits == 1, 0, DATA.groups)
    found = run_protocol(replace(DATA, groups=group), ["irm"], seeds=1, top=1, max_iter=1, tol=1e-9)
    assert "Groups without rows in 'val', left out there: 0, water; 1, land; 1, water." in found.notes
    assert any("did not converge within 1 iterations (irm)" in note for note in found.notes)


@pytest.mark.parametrize("rule", ["worst-group", "worst-class", "train-groups"])
def test_rules_rank_by_what_they_say(rule: str) -> None:
    found = run_protocol(DATA, ["gradient-matching"], seeds=1, top=3, select=rule)
    frame = found.grid_frame()
    column = {"worst-group": "val_worst", "worst-class": "val_worst_class", "train-groups": "train_worst"}[rule]
    best = frame.sort_values([column, "hparams_seed"]).iloc[-1]
    assert found["gradient-matching"].fits[0].hparams_seed == best["hparams_seed"]
    assert found.to_frame().loc["gradient-matching", "validation"] == best[column]
    phrase = {
        "worst-group": "worst-group validation",
        "worst-class": "without attributes",
        "train-groups": "training rows",
    }
    assert phrase[rule] in str(found).splitlines()[0]


def test_measures_are_those_of_the_report(result) -> None:  # type: ignore[no-untyped-def]
    frame = result.to_frame()
    features = project(DATA, isr_class=DATA.classes.index(result.isr_class))
    rows, train = features.splits["test"], features.train
    for method in ("erm", "vrex"):
        expected = []
        for fit in result[method].fits:
            right = fit.head.predict(rows.features) == rows.targets
            shares = np.bincount(train.groups) / len(train.groups)
            expected.append(sum(share * right[rows.groups == group].mean() for group, share in enumerate(shares)))
        assert frame.loc[method, "weighted_accuracy"] == pytest.approx(np.mean(expected))
        assert 0 < frame.loc[method, "calibration_error"] < 1
        assert 0.5 < frame.loc[method, "auroc"] < 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "adam"}, "'solver' should be one of 'converged', 'sgd'"),
        ({"methods": ["cmma"]}, "Did you mean 'cma'"),
        ({"seeds": 0}, "'seeds' should be at least 1"),
        ({"top": 0}, "'top' should be at least 1"),
        ({"recipe": "celebs"}, "Did you mean 'celeba'"),
        ({"isr_class": 7}, "'isr_class' is 7"),
        ({"select": "oracle"}, "'select' should be one of 'worst-group', 'worst-class', 'train-groups'"),
        ({"methods": ["dfr"], "solver": "sgd"}, "'dfr' is fitted by solver 'converged' only, but 'solver' is 'sgd'"),
    ],
)
def test_bad_arguments(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run_protocol(DATA, **options)  # type: ignore[arg-type]


def test_runs_of_a_sweep_end_where_the_protocol_ends(tmp_path: Path) -> None:
    path = write_csv(DATA, tmp_path / "features.csv")
    expected = run_protocol(path, ["vrex"], seeds=2, top=5)
    for place, trial in itertools.product(range(5), range(2)):
        config = make_probe_config(path, "vrex", hparams_seed=place, trial=trial)
        run_probe(config, tmp_path / "runs" / config.hash())
    chosen = select(read_runs(tmp_path / "runs"), "worst-group")
    assert chosen["test"].mean() == pytest.approx(expected["vrex"].mean("test", "worst"))
    assert chosen["average"].mean() == pytest.approx(expected["vrex"].mean("test", "average"))
    assert set(chosen["hparams_seed"]) == {expected["vrex"].fits[0].hparams_seed}

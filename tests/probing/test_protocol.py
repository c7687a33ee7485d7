import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from momentalign.probing import PROTOCOL_METHODS, ProtocolResult, make_probe_config, project, run_probe, run_protocol
from momentalign.selection import read_runs, select
from tests.probing.problems import spurious_data, write_csv

pytestmark = pytest.mark.slow

DATA = spurious_data(160, 80, features=4)
METHODS = ["erm", "erm-balanced", "coral", "vrex", "groupdro", "gradient-matching"]


@pytest.fixture(scope="module")
def result() -> ProtocolResult:
    return run_protocol(DATA, METHODS, seeds=3, top=2, published={"erm-balanced": (89.52, 84.58)})


def numbers(found: ProtocolResult, method: str, seed: int) -> set[int]:
    """Sets of a method that were fitted on a seed."""
    return set(found.fits.query("method == @method and seed == @seed")["hparams_seed"])


def test_the_set_with_the_best_mean_over_seeds_is_reported(result: ProtocolResult) -> None:
    for method in ("vrex", "gradient-matching"):
        mine = result.fits[result.fits["method"] == method]
        first = mine[mine["seed"] == 0]
        assert first["hparams_seed"].is_unique
        ranked = first.sort_values(["val_worst", "hparams_seed"], ascending=False)
        assert numbers(result, method, 1) == set(ranked["hparams_seed"][:2])
        finals = mine[mine["hparams_seed"].isin(ranked["hparams_seed"][:2])].groupby("hparams_seed")
        assert (finals.size() == 3).all()
        means = finals["val_worst"].mean()
        chosen = mine[mine["hparams_seed"] == max(means.index, key=lambda number: (means[number], number))]
        row = result.to_frame().loc[method]
        assert row["worst_group"] == pytest.approx(chosen["test_worst"].mean())
        assert row["average"] == pytest.approx(chosen["test_average"].mean())
        assert row["worst_group_se"] == pytest.approx(chosen["test_worst"].std(ddof=1) / math.sqrt(3))
        assert row["validation"] == pytest.approx(chosen["val_worst"].mean())
        assert row["seeds"] == 3
    assert len(result.fits) == 2 * (1 + 2) + (5 + 2 * 2) + (1 + 2) + (7 + 2 * 2)


def test_test_rows_have_no_say_in_the_choice() -> None:
    tested = DATA.splits == 2
    hostile = replace(
        DATA,
        targets=np.where(tested, 1 - DATA.targets, DATA.targets),
        groups=np.where(tested, 3 - DATA.groups, DATA.groups),
    )
    plain, other = (run_protocol(data, ["vrex"], seeds=2, top=3) for data in (DATA, hostile))
    assert plain.to_frame().loc["vrex", "worst_group"] != other.to_frame().loc["vrex", "worst_group"]
    assert numbers(plain, "vrex", 1) == numbers(other, "vrex", 1)
    assert plain.to_frame().loc["vrex", "hparams"] == other.to_frame().loc["vrex", "hparams"]


def test_ties_go_to_the_later_sets_of_the_grid() -> None:
    easy = replace(DATA, features=DATA.features + 40 * np.eye(4)[DATA.targets])
    found = run_protocol(easy, ["vrex"], seeds=2, top=2, isr=False)
    assert set(found.fits["val_worst"]) == {1.0}
    assert numbers(found, "vrex", 1) == {3, 4}
    assert found.to_frame().loc["vrex", "hparams"] == {"weight": 1e4}


def test_coral_is_not_tuned_and_is_balanced_erm(result: ProtocolResult) -> None:
    frame = result.to_frame().drop(columns=["note", "published_average", "published_worst_group"])
    pd.testing.assert_series_equal(frame.loc["coral"], frame.loc["erm-balanced"], check_names=False)
    assert frame.loc["coral", "sets"] == 1
    assert "coral" not in set(result.fits["method"])


def test_the_table_in_print(result: ProtocolResult) -> None:
    title, head, *lines = str(result).splitlines()
    assert title.startswith("spurious: test accuracy in %, converged solver, ISR by class '")
    assert "published" in head
    labels = ["ERM", "ERM, balanced", "CORAL", "VREx", "GroupDRO", "Gradient matching"]
    assert [line.split("  ")[0] for line in lines[:6]] == labels
    row = result.to_frame().loc["erm-balanced"]
    for part in (f"{100 * row['worst_group']:.2f} ± {100 * row['worst_group_se']:.2f}", "89.52 / 84.58", row["note"]):
        assert part in lines[1]
    assert " / " not in lines[0]


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
    assert found.to_frame()["sets"].tolist() == [1, 3]
    assert "±" not in str(found)
    assert "published" not in str(found)


def test_features_of_each_seed() -> None:
    several = [spurious_data(classes=3, seed=seed) for seed in range(2)]
    options = {"solver": "sgd", "seeds": 2, "recipe": "multinli-released"}
    found = run_protocol(several, ["erm", "hgp-product"], **options).fits
    for seed, data in enumerate(several):
        alone = run_protocol([data, data], ["erm"], **options).fits
        mine = found[found["method"] == "erm"]
        assert mine["test_average"].iloc[seed] == alone["test_average"].iloc[seed]
    assert mine["test_average"].nunique() == 2
    with pytest.raises(ValueError, match=r"'data' .* 3 seeds"):
        run_protocol(several, ["erm"], seeds=3)


def test_all_methods_run_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    import momentalign.probing._protocol as protocol

    whole = protocol.method_grid
    monkeypatch.setattr(protocol, "method_grid", lambda *args, **kwargs: whole(*args, **kwargs)[:1])
    assert tuple(run_protocol(DATA, seeds=1, top=1).table.index) == PROTOCOL_METHODS
    found = run_protocol(DATA, solver="sgd", seeds=1, top=1)
    assert {"balanced", "groupdro-groups"} <= set(found.table.index)
    assert "dfr" not in found.table.index


def test_groups_that_are_missing_and_fits_that_stop_are_notes() -> None:
    group = np.where(DATA.splits == 1, 0, DATA.groups)
    found = run_protocol(replace(DATA, groups=group), ["irm"], seeds=1, top=1, max_iter=1, tol=1e-9)
    assert any("'val'" in note and "0, water; 1, land; 1, water" in note for note in found.notes)
    assert any("1 iterations (irm)" in note for note in found.notes)
    gone = replace(DATA, splits=np.where((DATA.splits == 0) & (DATA.groups == 1), 2, DATA.splits))
    found = run_protocol(gone, ["balanced"], seeds=1, isr_class=1)
    assert "Groups without rows in 'train', no method can weigh them: 0, water." in found.notes


@pytest.mark.parametrize(
    ("rule", "column", "phrase"),
    [
        ("worst-group", "val_worst", "worst-group validation"),
        ("worst-class", "val_worst_class", "without attributes"),
        ("train-groups", "train_worst", "training rows"),
    ],
)
def test_rules_rank_by_what_they_say(rule: str, column: str, phrase: str) -> None:
    found = run_protocol(DATA, ["gradient-matching"], seeds=1, top=3, select=rule)
    best = found.fits.sort_values([column, "hparams_seed"]).iloc[-1]
    row = found.to_frame().loc["gradient-matching"]
    assert row["hparams"] == {"gradient_weight": best["gradient_weight"]}
    assert row["validation"] == best[column]
    assert phrase in str(found).splitlines()[0]


def test_measures_are_those_of_the_report(result: ProtocolResult) -> None:
    frame = result.to_frame()
    measures = frame[["weighted_accuracy", "balanced_accuracy", "worst_group_f1", "auroc", "calibration_error"]]
    assert measures.gt(0).all(axis=None)
    assert measures.lt(1).all(axis=None)
    config = make_probe_config("spurious", "erm", data=DATA, hparams={"isr_class": int(result.isr_class or 0)})
    for name in measures:
        values = [
            record["value"]
            for seed in range(3)
            for record in run_probe(replace(config, trial=seed), None, data=DATA)
            if (record["metric"], record["split"]) == (name, "test")
        ]
        assert frame.loc["erm", name] == pytest.approx(np.mean(values), abs=1e-3)


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"solver": "adam"}, "solver"),
        ({"methods": ["cmma"]}, "cma"),
        ({"seeds": 0}, "seeds"),
        ({"top": 0}, "top"),
        ({"recipe": "celebs"}, "celeba"),
        ({"isr_class": 7}, "isr_class"),
        ({"select": "oracle"}, "select"),
        ({"methods": ["dfr"], "solver": "sgd"}, "dfr"),
    ],
)
def test_bad_arguments(options: dict[str, object], name: str) -> None:
    with pytest.raises(ValueError, match=f"'{name}'"):
        run_protocol(DATA, **options)  # type: ignore[arg-type]


def test_runs_of_a_sweep_end_where_the_protocol_ends(tmp_path: Path) -> None:
    path = write_csv(DATA, tmp_path / "features.csv")
    expected = run_protocol(path, ["vrex"], seeds=2, top=5).to_frame().loc["vrex"]
    for number, trial in itertools.product(range(5), range(2)):
        config = make_probe_config(path, "vrex", hparams_seed=number, trial=trial)
        run_probe(config, tmp_path / "runs" / config.hash())
    chosen = select(read_runs(tmp_path / "runs"), "worst-group")
    assert chosen["test"].mean() == pytest.approx(expected["worst_group"])
    assert chosen["average"].mean() == pytest.approx(expected["average"])
    (number,) = set(chosen["hparams_seed"])
    assert make_probe_config(path, "vrex", hparams_seed=number).hparams["weight"] == expected["hparams"]["weight"]

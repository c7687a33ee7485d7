import itertools
import math
from pathlib import Path

import numpy as np
import pytest

from momentalign.probing import PROTOCOL_METHODS, make_probe_config, project, run_probe, run_protocol
from momentalign.selection import read_runs, select
from tests.probing.problems import spurious_data, write_csv

pytestmark = pytest.mark.slow

DATA = spurious_data(160, 80, features=4)
METHODS = ["erm", "coral", "vrex", "groupdro", "gradient-matching"]


@pytest.fixture(scope="module")
def result():  # type: ignore[no-untyped-def]
    return run_protocol(DATA, METHODS, seeds=3, top=2, published={"erm": (89.52, 84.58)})


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
    assert len(frame) == (1 + 2) + (5 + 2 * 2) + (1 + 2) + (7 + 2 * 2)


def test_coral_is_not_tuned_and_is_erm(result) -> None:  # type: ignore[no-untyped-def]
    assert result["coral"].fits is result["erm"].fits
    assert "nothing tuned" in result["coral"].note
    assert result["coral"].sets == 1
    assert "coral" not in set(result.grid_frame()["method"])


def test_the_table_in_print(result) -> None:  # type: ignore[no-untyped-def]
    text = str(result)
    assert text.startswith("spurious: test accuracy in %, converged solver, ISR by class '")
    assert "89.52 / 84.58" in text
    assert " ± " in text
    lines = text.splitlines()
    assert [line.split("  ")[0] for line in lines[2:7]] == ["ERM", "CORAL", "VREx", "GroupDRO", "Gradient matching"]
    with pytest.raises(KeyError, match="erm, coral, vrex"):
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


def test_sgd_and_one_seed() -> None:
    # Rows enough for one batch only: fifty steps.
    found = run_protocol(DATA, ["erm", "groupdro"], solver="sgd", seeds=1, top=1, isr=False)
    assert found.isr_class is None
    assert np.isnan(found.to_frame().loc["erm", "average_se"])
    assert found["groupdro"].sets == 3
    assert "no ISR" in str(found)


def test_all_methods_run_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    few = {name: lambda *_, **__: [] for name in ()}
    assert not few
    import momentalign.probing._protocol as protocol

    whole = protocol.method_grid
    monkeypatch.setattr(protocol, "method_grid", lambda *args, **kwargs: whole(*args, **kwargs)[:1])
    found = run_protocol(DATA, seeds=1, top=1)
    assert tuple(row.method for row in found.methods) == PROTOCOL_METHODS


def test_groups_that_are_missing_and_fits_that_stop_are_said() -> None:
    group = np.where(DATA.splits == 1, 0, DATA.groups)
    from dataclasses import replace

    found = run_protocol(replace(DATA, groups=group), ["irm"], seeds=1, top=1, max_iter=1, tol=1e-9)
    assert "Groups without rows in 'val', left out there: 0, water; 1, land; 1, water." in found.notes
    assert any("did not converge within 1 iterations (irm)" in note for note in found.notes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"solver": "adam"}, "'solver' should be one of 'converged', 'sgd'"),
        ({"methods": ["cmma"]}, "Did you mean 'cma'"),
        ({"seeds": 0}, "'seeds' should be at least 1"),
        ({"top": 0}, "'top' should be at least 1"),
        ({"recipe": "celebs"}, "Did you mean 'celeba'"),
        ({"isr_class": 7}, "'isr_class' is 7"),
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

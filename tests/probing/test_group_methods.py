"""Methods for worst groups against plain scikit-learn on the rows of the bootstrap."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from momentalign._seeds import seed_hash
from momentalign.linear import LinearHead
from momentalign.probing import (
    GROUP_METHODS,
    ProbeSolver,
    find_method,
    make_probe_config,
    project,
    run_probe,
    run_protocol,
)
from momentalign.probing._fit import bootstrap_weights
from momentalign.sklearn import DFRClassifier
from momentalign.tables import TableModel
from tests.probing.problems import spurious_data, write_csv

pytestmark = pytest.mark.slow

FEATURES = project(spurious_data(), isr_class=0)
TRAIN = FEATURES.train
COUNTS = bootstrap_weights(FEATURES, seed_hash("bootstrap", 0))
UNIT = float(np.square(TRAIN.features).mean())
L2 = 0.01 * UNIT


def fit(name: str, hparams: dict[str, float] | None = None, features=FEATURES) -> LinearHead:  # type: ignore[no-untyped-def]
    method = find_method(name)
    return ProbeSolver("converged", 0.01, tol=1e-8).fit(features, method, [hparams or {}], 0)[0]


def logistic(weights: np.ndarray, l2: float = L2, rows=TRAIN) -> np.ndarray:  # type: ignore[no-untyped-def]
    """Coefficients that minimise the mean of the weighted losses plus L2."""
    used = weights > 0
    model = LogisticRegression(C=1 / (l2 * weights.sum()), fit_intercept=False, tol=1e-10, max_iter=10_000)
    return np.asarray(model.fit(rows.features[used], rows.targets[used], weights[used]).coef_)


def group_weights() -> np.ndarray:
    return COUNTS / np.bincount(TRAIN.groups, COUNTS)[TRAIN.groups]


def group_losses(head: LinearHead) -> np.ndarray:
    margins = np.where(TRAIN.targets == 1, 1, -1) * (TRAIN.features @ head.coef[0])
    return np.bincount(TRAIN.groups, group_weights() * np.logaddexp(0, -margins))


def test_balanced_counts_groups_alike() -> None:
    np.testing.assert_allclose(fit("balanced").coef, logistic(group_weights()), rtol=1e-4, atol=1e-6)


def test_cma_on_balanced_rows_without_weights_is_the_balanced_fit() -> None:
    plain = fit("cma-balanced", {"gradient_weight": 0.0, "hessian_weight": 0.0})
    np.testing.assert_allclose(plain.coef, logistic(group_weights()), rtol=1e-4, atol=1e-6)
    aligned = fit("cma-balanced", {"gradient_weight": 10.0, "hessian_weight": 0.0})

    def gap(coef: np.ndarray) -> float:
        """Squared distance of the domains' gradients, groups counting alike."""
        residuals = 1 / (1 + np.exp(-TRAIN.features @ coef[0])) - TRAIN.targets
        weights = group_weights()
        gradients = [(weights * residuals)[TRAIN.domains == e] @ TRAIN.features[TRAIN.domains == e] for e in (0, 1)]
        return float(np.square(gradients[0] - gradients[1]).sum())

    assert gap(aligned.coef) < gap(plain.coef)


def test_group_dro_lowers_the_worst_groups_loss() -> None:
    head = fit("groupdro-groups")
    assert head.converged
    worst = group_losses(head).max() + 0.5 * L2 * np.square(head.coef).sum()
    for other in (fit("balanced"), fit("erm"), fit("groupdro")):
        assert worst <= group_losses(other).max() + 0.5 * L2 * np.square(other.coef).sum() + 1e-6


def test_subsamples_are_balanced_and_averaged() -> None:
    head = fit("subsampled")
    rows = np.repeat(np.arange(len(COUNTS)), COUNTS.astype(int))
    groups, random = TRAIN.groups[rows], np.random.RandomState(seed_hash("subsampled", 0))
    size = np.bincount(groups).min()
    coefs = []
    for _ in range(10):
        drawn = np.concatenate([random.permutation(np.flatnonzero(groups == group))[:size] for group in range(4)])
        weights = np.bincount(rows[drawn], minlength=len(COUNTS)).astype(float)
        coefs.append(logistic(weights))
    np.testing.assert_allclose(head.coef, np.mean(coefs, axis=0), rtol=1e-3, atol=1e-5)


def test_dfr_is_the_estimator_on_the_validation_rows() -> None:
    val = FEATURES.splits["val"]
    X, y, g = (np.concatenate([getattr(TRAIN, name), getattr(val, name)]) for name in ("features", "targets", "groups"))
    mask = np.arange(len(y)) >= len(TRAIN.targets)
    expected = DFRClassifier(random_state=seed_hash("dfr", 0)).fit(X, y, g, validation=mask)
    head = fit("dfr")
    np.testing.assert_allclose(head.coef, expected.coef_, rtol=1e-8)
    np.testing.assert_allclose(head.intercept, expected.intercept_, rtol=1e-8)
    on_training = fit("dfr-train")
    assert np.abs(on_training.coef - head.coef).max() > 1e-3


def test_remedies_help_the_worst_group() -> None:
    data = spurious_data(400, 400, features=4, share=0.95)
    found = run_protocol(data, ["erm", *GROUP_METHODS], seeds=2, top=2, isr=False).to_frame()
    for name in GROUP_METHODS:
        assert found.loc[name, "worst_group"] > found.loc["erm", "worst_group"] + 0.1, name


@pytest.mark.parametrize("name", GROUP_METHODS)
def test_runs_are_those_of_the_protocol(name: str, tmp_path: Path) -> None:
    data = spurious_data(160, 80, features=4)
    path = write_csv(data, tmp_path / "features.csv")
    config = make_probe_config(path, name, trial=1)
    last = run_probe(config, tmp_path / "run")
    assert run_probe(config, tmp_path / "run") == last
    numbers = {(r["metric"], r["split"]): r["value"] for r in last if r["domain"] is None and "group" not in r}
    features = project(data)
    head = ProbeSolver("converged").fit(features, find_method(name), [config.hparams], 1)[0]
    scores = features.score(head, "test")
    assert numbers["worst_group_accuracy", "test"] == scores.worst
    assert numbers["worst_class_accuracy", "val"] == features.score(head, "val").worst_class
    assert {"weighted_accuracy", "auroc"} <= {metric for metric, _ in numbers}
    model = TableModel.load(tmp_path / "run")
    np.testing.assert_allclose(model.intercept, head.intercept)


def test_sgd_counts_groups_alike() -> None:
    solver = ProbeSolver("sgd", l2=0.0, epochs=400, batch_size=240, learning_rate=1.0)
    heads = {name: solver.fit(FEATURES, find_method(name), [{}], 0)[0] for name in ("balanced", "erm")}
    weights = 1 / np.bincount(TRAIN.groups)[TRAIN.groups]

    def value(coef: np.ndarray) -> float:
        return float(weights @ np.logaddexp(0, -np.where(TRAIN.targets == 1, 1, -1) * (TRAIN.features @ coef[0])))

    assert value(heads["balanced"].coef) < value(heads["erm"].coef)
    (worst,) = solver.fit(FEATURES, find_method("groupdro-groups"), [{"eta": 0.1}], 0)
    assert worst.converged


def test_groups_that_are_too_small_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    data = spurious_data(160, 80, features=4)
    gone = replace(data, splits=np.where((data.splits == 1) & (data.groups == 1), 2, data.splits))
    with pytest.raises(
        ValueError, match=r"Method 'dfr' needs 2 rows or more of every group in 'val', but '0, water' .* has 0\."
    ):
        run_protocol(gone, ["erm", "dfr"])
    with pytest.raises(ValueError, match="Method 'dfr' needs 2 rows"):
        run_probe(make_probe_config("spurious", "dfr", data=gone), None, data=gone)
    monkeypatch.setattr("momentalign.probing._protocol.PROTOCOL_METHODS", ("erm", "dfr"))
    found = run_protocol(gone, seeds=1)
    assert list(found.table.index) == ["erm"]
    assert any(note.startswith("Left out: Method 'dfr' needs 2 rows") for note in found.notes)


def test_groups_of_several_classes_or_attributes() -> None:
    data = spurious_data(160, 80, features=4)
    one = replace(data, groups=data.domains, group_names=("land", "water"))  # both classes in each group
    found = run_protocol(one, ["balanced", "dfr", "cma-balanced"], seeds=1, top=1)
    assert len(found.table) == 3
    single = replace(data, groups=data.targets, group_names=("0", "1"))
    assert run_protocol(single, ["subsampled", "cma-balanced"], seeds=1, top=1).notes == ()

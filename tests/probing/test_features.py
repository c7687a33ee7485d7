import dataclasses

import numpy as np
import pytest
from sklearn.decomposition import PCA

from momentalign.linear import LinearHead, fit_head
from momentalign.probing import project
from momentalign.probing._features import Projection
from momentalign.sklearn import ISRMean
from tests.probing.problems import spurious_data

DATA = spurious_data()


def test_the_projection_is_pca_and_isr_of_the_training_rows() -> None:
    train = DATA.rows("train")
    found = project(DATA, components=4, isr_class=1, isr_scale=0.5, unit_scale=False)
    pca = PCA(4).fit(DATA.features[train])
    reduced = pca.transform(DATA.features)
    isr = ISRMean(n_components=None, target_class=1, scale=0.5)
    expected = isr.fit(reduced[train], DATA.targets[train], domains=DATA.domains[train]).transform(reduced)
    for split in ("train", "val", "test"):
        # Up to the signs that PCA and the completed basis leave free: inner products.
        ours, theirs = found.splits[split].features, expected[DATA.rows(split)]
        np.testing.assert_allclose(ours @ ours.T, theirs @ theirs.T, atol=1e-9)
        np.testing.assert_allclose(np.abs(ours[:, 0]), np.abs(theirs[:, 0]), atol=1e-9)


def test_other_splits_do_not_move_the_projection() -> None:
    moved = dataclasses.replace(DATA, features=np.where(DATA.splits[:, None] == 0, DATA.features, 100.0))
    ours, theirs = project(DATA, isr_class=0).projection, project(moved, isr_class=0).projection
    np.testing.assert_array_equal(ours.matrix, theirs.matrix)
    np.testing.assert_array_equal(ours.mean, theirs.mean)


def test_scale_zero_leaves_a_column_of_zeros_and_unit_scale_a_mean_square_of_one() -> None:
    found = project(DATA, components=100, isr_class=0).train.features
    assert found.shape[1] == DATA.features.shape[1]
    np.testing.assert_array_equal(found[:, 0], 0)
    whole = project(DATA, isr=False)
    assert whole.projection.isr_class is None
    np.testing.assert_allclose(np.square(whole.train.features).mean(), 1)


def test_the_class_is_chosen_by_worst_group_validation_accuracy() -> None:
    data = spurious_data(classes=3, seed=3)
    worst = []
    for label in range(3):
        features = project(data, isr_class=label)
        train, val = features.train, features.splits["val"]
        unit = float(np.square(train.features).mean())
        head = fit_head(train.features, train.targets, classes=3, l2=1e-3 * unit, bias=False)
        hits = head.predict(val.features) == val.targets
        worst.append(min(hits[val.groups == group].mean() for group in np.unique(val.groups)))
    assert len(set(worst)) == 3  # so that the choice can be wrong
    assert project(data).projection.isr_class == int(np.argmax(worst))


def test_a_class_that_a_domain_lacks() -> None:
    domains = np.where((DATA.targets == 1) & (DATA.splits == 0), 0, DATA.domains)
    data = dataclasses.replace(DATA, domains=domains)
    assert project(data).projection.isr_class == 0
    with pytest.raises(ValueError, match=r"'isr_class' is 1; such classes: 0 \(0\)"):
        project(data, isr_class=1)


def test_many_rows_are_projected_in_blocks() -> None:
    rng = np.random.default_rng(0)
    rows, mean, matrix = rng.normal(size=(2 * 8192 + 3, 3)), rng.normal(size=3), rng.normal(size=(3, 2))
    np.testing.assert_allclose(Projection(mean, matrix, None)(rows), (rows - mean) @ matrix)


def test_fewer_rows_than_columns() -> None:
    wide = dataclasses.replace(DATA, features=np.random.default_rng(0).normal(size=(len(DATA.targets), 400)))
    found = project(wide, isr=False)
    assert found.train.features.shape[1] == 100
    assert np.square(found.train.features).mean() == pytest.approx(1)


@pytest.mark.parametrize("group", range(4))
def test_any_group_can_be_the_worst(group: int) -> None:
    features = project(DATA, isr=False)
    rows = features.splits["test"]
    # One column that says the right class, but for the rows of one group.
    column = np.where(rows.groups == group, 0.5 - rows.targets, rows.targets - 0.5)[:, None]
    split = dataclasses.replace(rows, features=column)
    scores = dataclasses.replace(features, splits={"test": split}).score(
        LinearHead(np.ones((1, 1)), np.zeros(1), 0.0, 0, True), "test"
    )
    assert scores.worst == 0.0
    np.testing.assert_array_equal(scores.groups, np.arange(4) != group)
    assert 0 < scores.worst_class < 1
    assert scores.worst_class == (rows.groups != group)[rows.targets == group // 2].mean()

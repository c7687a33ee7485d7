from dataclasses import replace

import numpy as np
import pytest

from momentalign.tables import ComparedRows, DomainShift, class_shares
from momentalign.tables._plain_fits import fit_plain
from momentalign.tables._shifts import _feature_shift, _score_domains, find_shifts, fit_offsets
from tests.tables.rows import make_rows, silent


def shifts_of(rows: ComparedRows) -> tuple[DomainShift, ...]:
    return find_shifts(rows, fit_plain(rows, 0, silent).outputs, 0, silent)


def found(shifts: tuple[DomainShift, ...], kind: str) -> list[int]:
    tests = [getattr(shift, kind) for shift in shifts]
    return [index for index, test in enumerate(tests) if test is not None and test.found]


def test_domains_alike_show_no_shift() -> None:
    shifts = shifts_of(make_rows())
    assert [found(shifts, kind) for kind in ("label", "features", "relation")] == [[], [], []]


def test_equal_features_are_rarely_told_apart() -> None:
    """One claim in twenty tables is allowed; scores of five folds, tested as if independent, made one in eight."""
    rows, claims = make_rows(), 0
    for seed in range(30):
        features = np.random.default_rng(seed).normal(size=rows.features.shape)
        fifths, halves = (_score_domains(replace(rows, features=features), folds, 0) for folds in (5, 2))
        claims += any(_feature_shift(fifths, halves, k, rows.domains == k, 0.05 / 4).found for k in range(4))
    assert claims <= 4


@pytest.mark.parametrize(("cause", "kind"), [("rare", "label"), ("moved", "features"), ("flipped", "relation")])
def test_each_kind_of_shift_is_found_where_it_is(cause: str, kind: str) -> None:
    shifts = shifts_of(make_rows(**{cause: 2}))
    assert 2 in found(shifts, kind)
    largest = max(range(4), key=lambda index: getattr(shifts[index], kind).size)
    assert largest == 2
    if kind != "relation":  # one domain's changed level is no changed relation
        assert found(shifts, "relation") == []


def test_numbers_shift_in_level_and_relation() -> None:
    rows = make_rows()
    numbers = rows.features[:, 0] * np.where(rows.domains == 1, -1, 1) + np.where(rows.domains == 3, 4.0, 0.0)
    shifts = shifts_of(replace(rows, targets=numbers, classes=None))
    assert 3 in found(shifts, "label")
    sizes = [shift.relation.size for shift in shifts if shift.relation is not None]
    assert sizes.index(max(sizes)) == 1
    assert 1 in found(shifts, "relation")


def test_domains_with_few_rows_are_not_tested() -> None:
    rows = make_rows()
    few = replace(rows, domains=np.where(np.arange(len(rows.domains)) < 5, 4, rows.domains), names=(*rows.names, "few"))
    assert shifts_of(few)[4] == DomainShift("few", None, None, None)


def test_offsets_recover_a_change_of_the_level() -> None:
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(4000, 3))
    true = np.array([1.0, -1.0, 0.0])
    targets = np.argmax(logits + true + rng.gumbel(size=logits.shape), axis=1)
    offsets = fit_offsets(logits, targets)
    np.testing.assert_allclose(offsets - offsets[2], true, atol=0.15)


def test_shares_of_the_classes() -> None:
    rows = make_rows(rare=1)
    shares = class_shares(rows)
    np.testing.assert_allclose(shares.sum(1), 1.0)
    assert shares[1, 1] < 0.5 * shares[0, 1]

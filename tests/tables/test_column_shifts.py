import numpy as np

from momentalign.tables import Column
from momentalign.tables._column_shifts import _domain_means, rank_columns


def test_columns_are_ranked_by_what_differs() -> None:
    rng = np.random.default_rng(0)
    domains = np.repeat(np.arange(3), 50)
    kind = rng.integers(0, 2, 150)
    kind[domains == 1] = 1
    numbers = np.column_stack([rng.normal(size=150), rng.normal(5, 2, 150) + 9 * (domains == 2), kind == 0, kind == 1])
    missing = np.zeros((150, 3), dtype=bool)
    missing[domains == 0, 0] = True
    columns = [Column("same"), Column("dose"), Column("kind", categories=("a", "b"))]
    first, second, last = rank_columns(numbers, missing, columns, domains, 3)
    assert [first.name, second.name, last.name] == ["dose", "kind", "same"]
    assert [first.found, second.found, last.found] == [True, True, False]
    assert first.share > second.share > last.share
    np.testing.assert_allclose(first.share + second.share + last.share, 1.0)
    np.testing.assert_allclose(first.means, [numbers[domains == index, 1].mean() for index in range(3)])
    assert second.what in ("a", "b")
    np.testing.assert_array_equal(last.missing, [1.0, 0.0, 0.0])


def test_squared_distances_have_their_noise_removed() -> None:
    rng = np.random.default_rng(0)
    domains = np.repeat(np.arange(2), 10)
    squares = []
    for _ in range(400):
        means, noise = _domain_means(rng.normal(size=(20, 5)) + 0.5 * domains[:, None], domains, 2)
        squares.append(((means[0] - means[1]) ** 2 - noise.sum(0)).sum())
    assert abs(np.mean(squares) - 5 * 0.25) < 4 * np.std(squares) / 20


def test_a_domain_of_one_row_has_the_noise_of_the_others() -> None:
    means, noise = _domain_means(np.random.default_rng(0).normal(size=(21, 1)), np.array([0] * 20 + [1]), 2)
    assert np.isfinite(means).all()
    assert noise[1] == 20 * noise[0]

import numpy as np
import pytest

from momentalign.sklearn import ISRCov, ISRMean


def sites(
    domains: int = 3, dimensions: int = 6, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Rows whose last `domains` − 1 latent coordinates shift and widen with the domain, in a random rotation."""
    rng = np.random.default_rng(seed)
    domain, y = np.repeat(np.arange(domains), 400), rng.integers(0, 2, domains * 400)
    latent = rng.normal(size=(len(y), dimensions))
    latent[:, 0] += 2 * y
    shift = 4 * rng.normal(size=(domains, domains - 1))
    latent[:, -(domains - 1) :] = latent[:, -(domains - 1) :] * (1 + 2 * domain[:, None]) + shift[domain]
    rotation = np.linalg.qr(rng.normal(size=(dimensions, dimensions)))[0]
    return latent @ rotation, y, domain, rotation[-(domains - 1) :]


@pytest.mark.parametrize("n_components", [None, 6])
@pytest.mark.parametrize(("isr", "domains"), [(ISRMean(), 2), (ISRMean(), 3), (ISRCov(), 2)])
def test_it_finds_what_changes(isr: ISRMean | ISRCov, domains: int, n_components: int | None) -> None:
    X, y, domain, spurious = sites(domains)
    isr = isr.set_params(n_components=n_components).fit(X, y, domains=domain)
    assert isr.n_spurious_ == domains - 1
    found = isr.basis_[:, : isr.n_spurious_]
    if isr.pca_ is not None:
        found = isr.pca_.components_.T @ found
    cosines = np.linalg.svd(spurious @ found, compute_uv=False)
    assert cosines.min() > 0.95


def test_covariances_that_shrink_count_as_those_that_grow() -> None:
    X, y, domain, spurious = sites(2)
    forward, backward = (ISRCov(n_components=None).fit(X, y, domains=order) for order in (domain, 1 - domain))
    for isr in (forward, backward):
        assert np.abs(spurious @ isr.basis_[:, 0]).min() > 0.95


def test_a_scale_of_one_is_a_rotation_and_zero_removes() -> None:
    X, y, domain, _ = sites()
    kept = ISRMean(n_components=None, scale=1.0).fit_transform(X, y, domains=domain)
    np.testing.assert_allclose(kept @ kept.T, X @ X.T, atol=1e-8)
    half, none = (ISRMean(n_components=None, scale=scale).fit_transform(X, y, domains=domain) for scale in (0.5, 0.0))
    np.testing.assert_allclose(half[:, :2], 0.5 * kept[:, :2])
    np.testing.assert_allclose(half[:, 2:], kept[:, 2:])
    assert (none[:, :2] == 0).all()


def test_the_class_is_chosen_or_named() -> None:
    X, y, domain, _ = sites()
    rare = np.where((y == 1) & (domain == 2) & (np.arange(len(y)) % 7 > 0), 0, y)
    assert ISRMean().fit(X, rare, domains=domain).class_ == 0
    named = np.array(["cat", "dog"])[y]
    assert ISRMean(target_class="dog").fit(X, named, domains=domain).class_ == "dog"


@pytest.mark.parametrize(("isr", "domains"), [(ISRMean(), 3), (ISRCov(), 2)])
def test_the_class_with_the_most_rows_in_its_rarest_domain_is_chosen(isr: ISRMean | ISRCov, domains: int) -> None:
    """Neither the first nor the last class, nor the one with the most rows in all or in any domain."""
    counts = np.array([[300, 300, 300], [90, 80, 90], [400, 30, 20], [60, 60, 60]])[:, :domains]
    counts[0, -1] = 10
    y = np.repeat(np.arange(4), counts.sum(1))
    domain = np.concatenate([np.repeat(np.arange(domains), row) for row in counts])
    X = np.random.default_rng(0).normal(size=(len(y), 3))
    assert isr.fit(X, y, domains=domain).class_ == 1


def test_pca_keeps_what_there_is() -> None:
    X, y, domain, _ = sites()
    assert ISRMean(n_components=4).fit_transform(X, y, domains=domain).shape == (1200, 4)
    assert ISRMean(n_components=100).fit_transform(X, y, domains=domain).shape == (1200, 6)


def test_without_domains_nothing_is_spurious() -> None:
    X, y, *_ = sites()
    with pytest.warns(UserWarning, match="Without 'domains' ISRMean finds no spurious direction"):
        isr = ISRMean(n_components=None).fit(X, y)
    assert isr.n_spurious_ == 0
    np.testing.assert_allclose(isr.transform(X), X)
    with pytest.warns(UserWarning, match="finds no spurious direction"):
        ISRMean().fit(X, y, domains=["a"] * len(y))


@pytest.mark.parametrize(
    ("isr", "rows", "message"),
    [
        (ISRMean(3), 1200, "'n_spurious' should be at most 2"),
        (ISRMean(target_class="cow"), 1200, "'target_class' should be one of"),
        (ISRCov(), 1200, "ISRCov compares two domains"),
        (ISRMean(), 1, r"1 sample\(s\) .* minimum of 2"),
    ],
)
def test_bad_input(isr: ISRMean | ISRCov, rows: int, message: str) -> None:
    X, y, domain, _ = sites()
    with pytest.raises(ValueError, match=message):
        isr.fit(X[:rows], y[:rows], domains=domain[:rows])


@pytest.mark.parametrize("isr", [ISRMean(), ISRCov()])
def test_rows_that_are_all_the_same(isr: ISRMean | ISRCov) -> None:
    X = np.full((4, 2), 3.0)
    np.testing.assert_array_equal(isr.fit(X, [0, 0, 0, 0], domains=["a", "a", "b", "b"]).transform(X), np.zeros((4, 2)))

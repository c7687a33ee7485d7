"""The linear-in-n form of a penalty is its definition."""

import pytest
import torch

from momentalign import CORAL, HGP, IRM, Fishr, Hutchinson, VREx
from momentalign.penalties import DomainPenalty, DomainRows

PENALTIES = [
    IRM(bias=False),
    VREx(),
    Fishr(bias=False, momentum=0.0),
    HGP(bias=False),
    HGP(bias=False, center="product"),
    Hutchinson(bias=False),
    Hutchinson(bias=False, scaling="classes"),
]


@pytest.mark.parametrize("penalty", PENALTIES, ids=lambda penalty: type(penalty).__name__)
@pytest.mark.parametrize("classes", [2, 3])
def test_terms_from_domain_vectors_are_those_of_the_call(penalty: DomainPenalty, classes: int) -> None:
    generator = torch.Generator().manual_seed(classes)
    X = torch.randn(40, 4, generator=generator, dtype=torch.float64)
    logits = torch.randn(40, classes, generator=generator, dtype=torch.float64)
    targets, domains = (torch.randint(0, high, (40,), generator=generator) for high in (classes, 3))
    rows = []
    for domain in domains.unique():
        own = domains == domain
        shares = torch.full((int(own.sum()),), 1 / int(own.sum()), dtype=X.dtype)
        rows.append(DomainRows.of(X[own], shares, targets[own], logits[own]))
    found = {name: float(vectors.term()) for name, vectors in penalty.domain_vectors(rows).items()}
    expected = {name: float(term) for name, term in penalty.terms(X, logits, targets, domains).items()}
    assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("penalty", [CORAL(), IRM(version="scale"), Hutchinson(samples=3)], ids=lambda one: str(one))
def test_other_penalties_and_versions_have_no_such_form(penalty: DomainPenalty) -> None:
    with pytest.raises(NotImplementedError, match=rf"{type(penalty).__name__}\(.* has no form that is linear"):
        penalty.domain_vectors([])

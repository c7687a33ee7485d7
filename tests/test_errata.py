"""What the paper prints and what is true, one test an erratum: the printed formula fails, ours does not."""

import torch
from torch import Tensor

from momentalign import CORAL, HGP, Fishr, HessianMatching, Hutchinson
from momentalign.closed_form import HEADS, LogisticResiduals
from momentalign.functional import alignment, derivative_gram, domain_gram
from tests.references import assert_equal, dense_derivatives, dense_spread, differentiated, make_batch, residual_tensors


def relative_error(found: Tensor, true: Tensor) -> float:
    return ((found - true).norm() / true.norm()).item()


def test_squared_norm_of_one_hessian() -> None:
    """Printed: ‖H‖² = tr(A) tr(xxᵀ). True: tr(A²) ‖x‖⁴."""
    batch = make_batch("cross_entropy", 1, bias=False)
    features, logits, targets, domains = batch.inputs
    true = dense_derivatives(2, "cross_entropy", features, batch.head, targets, domains).square().sum()
    A = residual_tensors(2, "cross_entropy", logits, targets).reshape(3, 3)
    assert relative_error(A.trace() * features.square().sum(), true) > 0.1
    assert_equal((A @ A).trace() * features.square().sum() ** 2, true)
    assert_equal(derivative_gram(2, features, logits, targets, bias=False)[0, 0], true)


def test_cross_term_of_the_distance_from_the_mean() -> None:
    """Printed: ‖H_i − H̄‖² = ‖H_i‖² + 1/K² Σ_jl ⟨H_j, H_l⟩ − 2/K² Σ_j ⟨H_i, H_j⟩. True: the last factor is 2/K."""
    batch = make_batch("cross_entropy")
    true = dense_spread(2, "cross_entropy", batch.features, batch.head, batch.targets, batch.domains)
    M = domain_gram(2, *batch.inputs)
    K = len(M)

    def expansion(cross: float) -> Tensor:
        return (M.diagonal() + M.sum() / K**2 - cross * M.sum(1)).mean()

    assert relative_error(expansion(2 / K**2), true) > 0.1
    assert_equal(expansion(2 / K), true)
    assert_equal(alignment(2, *batch.inputs), true)


def test_second_residual_is_not_a_diagonal() -> None:
    """Printed: ⟨H_i, H_j⟩ from diag(p − ppᵀ), a diagonal matrix. True: from diag(p) − ppᵀ."""
    batch = make_batch("cross_entropy", 5, bias=False)
    features, logits, targets, _ = batch.inputs
    samples = dense_derivatives(2, "cross_entropy", features, batch.head, targets, torch.arange(5))
    true, inner = samples @ samples.T, features @ features.T
    P = logits.softmax(1)
    outer = P[:, :, None] * P[:, None, :]

    def traces(A: Tensor) -> Tensor:
        return torch.einsum("iab,jba->ij", A, A) * inner**2

    printed = (P[:, :, None] - outer).diagonal(dim1=1, dim2=2).diag_embed()
    assert relative_error(traces(printed), true) > 0.1
    assert_equal(traces(P.diag_embed() - outer), true)
    assert_equal(derivative_gram(2, features, logits, targets, bias=False), true)


def test_step_of_the_logistic_polynomials() -> None:
    """Printed: ∇ⁿ⁺¹ℓ = Q_n xⁿ⁺¹, then [∇_w Q_n] p(1 − p) xⁿ⁺¹. True: Q_{n+1} = Q_n′ p(1 − p), Q_n′ = dQ_n/dp."""
    w, x = torch.tensor(0.7, dtype=torch.float64), 1.3
    residuals = LogisticResiduals((w * x).reshape(1, 1), torch.tensor([1]))
    p = (w * x).sigmoid()
    for n, Q in ((1, lambda p: p - 1), (2, lambda p: p * (1 - p)), (3, lambda p: p * (1 - p) * (1 - 2 * p))):
        true = differentiated(n + 1, lambda w: -(w * x).sigmoid().log())(w)
        in_w = differentiated(1, lambda w, Q=Q: Q((w * x).sigmoid()))(w)
        in_p = differentiated(1, Q)(p)
        power = x ** (n + 1)
        assert relative_error(Q(p) * power, true) > 0.1
        assert relative_error(in_w * p * (1 - p) * power, true) > 0.1
        assert_equal(in_p * p * (1 - p) * power, true)
        assert_equal(residuals.coefficients(n + 1)[0, 0] * power, true)


def test_hutchinson_sees_a_diagonal() -> None:
    """Printed: only CMA and Hutchinson compute full Hessian matrices. True: Hutchinson's is their diagonal."""
    # The second feature's sign tells the domains apart: all diagonals are equal, the Hessians are not.
    features = torch.tensor([[1.0, 2.0], [1.0, -2.0]], dtype=torch.float64)
    head = torch.zeros(3, 2, dtype=torch.float64)
    logits, targets, domains = features @ head.T, torch.tensor([0, 0]), torch.tensor([0, 1])
    true = dense_spread(2, "cross_entropy", features, head, targets, domains)
    hessians = dense_derivatives(2, "cross_entropy", features, head, targets, domains).reshape(2, 6, 6)
    assert torch.equal(hessians[0].diagonal(), hessians[1].diagonal())
    diagonal = Hutchinson(bias=False).terms(features, logits, targets, domains)["hessian"]
    assert diagonal.item() < 1e-15 < 0.1 < true.item()
    assert_equal(alignment(2, features, logits, targets, domains, bias=False), true)
    exact = HEADS["cross_entropy"](logits, targets).hessian_diagonal()[:, :, None] * features.square()[:, None, :]
    assert_equal(exact.flatten(1), hessians.diagonal(dim1=1, dim2=2))


def off_diagonal_domains() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Two domains whose features have the same variances and opposite correlations; all predictions are alike."""
    features = torch.tensor([[1.0, 2.0], [-1.0, -2.0], [1.0, -2.0], [-1.0, 2.0]], dtype=torch.float64)
    logits = torch.tensor([0.3, -0.2, 0.1], dtype=torch.float64).expand(4, 3)
    return features, logits, torch.tensor([0, 0, 0, 0]), torch.tensor([0, 0, 1, 1])


def test_only_fishr_looks_at_a_diagonal() -> None:
    """Printed: Fishr, CORAL and HGP rely on diagonal approximations of the Hessian. True of Fishr alone."""
    inputs = off_diagonal_domains()
    assert Fishr(bias=False, momentum=0.0).terms(*inputs)["gradient_variance"].item() < 1e-15
    assert CORAL().terms(*inputs)["covariance"].item() > 1
    # HGP multiplies whole Hessians with gradients, which are zero here: shifted features give it some.
    features, *rest = inputs
    for center in ("mean", "product"):
        assert HGP(bias=False, center=center).terms(features + 1, *rest)["hessian"].item() > 1e-2


def test_cma_is_not_the_closed_form_of_fishr_hgp_or_hutchinson() -> None:
    """Printed: α = 0 is the closed form of Fishr, CMA that of HGP and Hutchinson. No two of them agree."""
    inputs = make_batch("cross_entropy").inputs
    values = [
        HessianMatching().terms(*inputs)["hessian"],
        Fishr(momentum=0.0).terms(*inputs)["gradient_variance"],
        HGP().terms(*inputs)["hessian"],
        Hutchinson().terms(*inputs)["hessian"],
    ]
    for k, value in enumerate(values):
        for other in values[:k]:
            assert relative_error(value, other) > 0.1
    # Not even which domains are matched: Fishr and Hutchinson see nothing where the Hessians differ.
    inputs = off_diagonal_domains()
    assert HessianMatching(bias=False).terms(*inputs)["hessian"].item() > 0.1
    assert Hutchinson(bias=False).terms(*inputs)["hessian"].item() < 1e-15

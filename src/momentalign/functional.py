r"""Inner products of derivatives between samples and between domains, and the alignment of the domains.

For a linear head every derivative of order r of a sample's loss is a residual tensor times r copies of the
features, so inner products need no tensor (see :mod:`momentalign.closed_form`). All functions are differentiable in
features and logits and compute in float32 at least. They share their arguments:

- `order`: order r of the derivative, 1 to 3 for cross-entropy, any for the other losses;
- `features` (n, d): input of the linear head;
- `logits` (n, C): its output; (n, 1) for the logistic loss;
- `targets` (n,): class indices; real numbers, (n, C), for squared error;
- `domains` (n,): any integers;
- `loss`: `"cross_entropy"`, `"logistic"` or `"squared_error"`;
- `bias`: whether the head has a bias, which counts as one more feature that is always one;
- `route`: `"gram"`, `"direct"` and `"pairwise"` give the same numbers; `"auto"` takes the cheaper of the first two.
"""

import torch
from torch import Tensor

from momentalign import closed_form
from momentalign._batch import (
    LOSSES,
    HeadBatch,
    check_batch,
    check_finite,
    check_inputs,
    check_order,
    check_ranges,
    checks_values,
)
from momentalign._dispatch import ROUTES, energies, grams_by_route, resolve_route, spreads
from momentalign._validation import check_choice
from momentalign.closed_form import HEADS

__all__ = ["alignment", "derivative_gram", "domain_derivatives", "domain_gram"]


def derivative_gram(
    order: int, features: Tensor, logits: Tensor, targets: Tensor, *, loss: str = "cross_entropy", bias: bool = True
) -> Tensor:
    r"""Inner products of the samples' derivatives with respect to the head.

    :math:`G_{ij} = \langle D_r(i), D_r(j) \rangle = \langle \kappa_r(i), \kappa_r(j) \rangle (x_i \cdot x_j)^r`,
    in O(n²(d + C)).

    Returns:
        Shape (n, n), symmetric.

    Example:
        >>> features = torch.tensor([[1.0], [2.0]])
        >>> logits = torch.zeros(2, 2)
        >>> derivative_gram(1, features, logits, torch.tensor([0, 0]), bias=False)
        tensor([[0.5000, 1.0000],
                [1.0000, 2.0000]])
    """
    is_tensor = isinstance(features, Tensor)  # other types are rejected by the checks
    domains = torch.zeros(features.shape[:1], dtype=torch.long, device=features.device) if is_tensor else features
    order, batch = _checked(order, features, logits, targets, domains, loss)
    residuals = HEADS[loss](batch.logits, batch.targets)
    gram = closed_form.sample_grams([order], residuals, batch.features, bias)[order]
    check_finite("derivative_gram()", gram, batch.features)
    return (gram + gram.T) / 2


def domain_gram(
    order: int,
    features: Tensor,
    logits: Tensor,
    targets: Tensor,
    domains: Tensor,
    *,
    loss: str = "cross_entropy",
    bias: bool = True,
    route: str = "auto",
) -> Tensor:
    r"""Inner products of the derivatives of the domains' mean losses.

    :math:`M_{ef} = \langle \nabla^r L_e, \nabla^r L_f \rangle`, exactly.

    Returns:
        Shape (K, K), the domains in ascending order.

    Example:
        >>> features = torch.tensor([[1.0], [2.0], [2.0]])
        >>> logits, targets = torch.zeros(3, 2), torch.tensor([0, 0, 1])
        >>> domain_gram(1, features, logits, targets, torch.tensor([5, 7, 7]), bias=False)
        tensor([[0.5000, 0.0000],
                [0.0000, 0.0000]])
    """
    order, batch = _checked(order, features, logits, targets, domains, loss, route)
    gram = _domain_gram(order, batch, loss, bias, route)
    check_finite("domain_gram()", gram, batch.features)
    return gram


def alignment(
    order: int,
    features: Tensor,
    logits: Tensor,
    targets: Tensor,
    domains: Tensor,
    *,
    loss: str = "cross_entropy",
    bias: bool = True,
    route: str = "auto",
    unbiased: bool = False,
) -> Tensor:
    r"""Spread of the domains' derivatives: :math:`\frac1K \sum_e \|\nabla^r L_e - \overline{\nabla^r L}\|^2`.

    Args:
        unbiased: Leave out the products of a sample with itself, so that the noise within a domain does not count
            as distance between domains. For measuring: it can be negative, and as a training loss it is
            unbounded below. Every domain needs two samples.

    Returns:
        Scalar; zero for a single domain.

    Example:
        >>> features = torch.tensor([[1.0], [2.0], [2.0]])
        >>> logits, targets = torch.zeros(3, 2), torch.tensor([0, 0, 1])
        >>> alignment(1, features, logits, targets, torch.tensor([5, 7, 7]), bias=False)
        tensor(0.1250)
    """
    order, batch = _checked(order, features, logits, targets, domains, loss, route)
    if unbiased:
        value = closed_form.spread(_unbiased_domain_gram(order, batch, loss, bias, route))
    else:
        chosen = resolve_route(route, [order], batch, loss=loss, bias=bias)
        (value,), _ = spreads(chosen, [order], batch, loss=loss, bias=bias)
    check_finite("alignment()", value, batch.features)
    return value


def domain_derivatives(
    order: int,
    features: Tensor,
    logits: Tensor,
    targets: Tensor,
    domains: Tensor,
    *,
    loss: str = "cross_entropy",
    bias: bool = True,
) -> Tensor:
    r"""Derivatives of the domains' mean losses over the flattened head.

    Args:
        order: 1 and 2, any order for the logistic loss, while (Cd)^r stays small.

    Returns:
        Shape (K, Cd, …, Cd) with r axes after the first, the domains in ascending order. Entry (c, k) of the head
        has index c·d + k; with a bias d counts it, as the last k.

    Example:
        >>> features, logits = torch.tensor([[1.0], [2.0]]), torch.zeros(2, 1)
        >>> domain_derivatives(
        ...     2, features, logits, torch.tensor([0, 1]), torch.tensor([0, 1]), loss="logistic", bias=False
        ... )
        tensor([[[0.2500]],
        <BLANKLINE>
                [[1.0000]]])
    """
    order, batch = _checked(order, features, logits, targets, domains, loss)
    dimension, classes = batch.features.shape[1] + bias, batch.logits.shape[1]
    if closed_form.direct_size(order, HEADS[loss], dimension, classes) is None:
        raise ValueError(
            f"Derivatives of loss '{loss}' are built for orders 1 and 2, but 'order' is {order}. Use domain_gram() for "
            "inner products, which need none of them."
        )
    size = (classes * dimension) ** order
    if size > closed_form.DIRECT_LIMIT:
        raise ValueError(
            f"A derivative of order {order} has {size:.2g} entries here, more than the {closed_form.DIRECT_LIMIT:.2g} "
            "that are built. Use domain_gram() for inner products, which need none of them."
        )
    residuals = HEADS[loss](batch.logits, batch.targets)
    weights = closed_form.domain_weights(batch.domains, batch.domains.unique(), batch.features.dtype)
    derivatives = closed_form.domain_tensors(order, residuals, batch.features, weights, bias)
    check_finite("domain_derivatives()", derivatives, batch.features)
    return derivatives


def _checked(
    order: int, features: Tensor, logits: Tensor, targets: Tensor, domains: Tensor, loss: str, route: str = "auto"
) -> tuple[int, HeadBatch]:
    check_choice("loss", loss, LOSSES)
    check_choice("route", route, ROUTES)
    order = check_order(order, loss)
    batch = check_batch(features, logits, targets, domains, loss=loss)
    if len(batch.features) == 0:
        raise ValueError("'features' should have at least one row, but has none.")
    if checks_values(None, batch.features):
        check_ranges(batch, loss)
        check_inputs(batch, loss)
    return order, batch


def _domain_gram(order: int, batch: HeadBatch, loss: str, bias: bool, route: str) -> Tensor:
    chosen = resolve_route(route, [order], batch, loss=loss, bias=bias)
    weights = closed_form.domain_weights(batch.domains, batch.domains.unique(), batch.features.dtype)
    return grams_by_route(chosen, [order], batch, weights, loss=loss, bias=bias)[0]


def _unbiased_domain_gram(order: int, batch: HeadBatch, loss: str, bias: bool, route: str) -> Tensor:
    """Domain Gram without the products of a sample with itself on its diagonal."""
    labels, sizes = batch.domains.unique(return_counts=True)
    if int(sizes.min()) < 2:
        label = int(labels[sizes.argmin()])
        raise ValueError(f"unbiased=True needs two samples of every domain, but domain {label} has one.")
    gram = _domain_gram(order, batch, loss, bias, route)
    weights = closed_form.domain_weights(batch.domains, batch.domains.unique(), gram.dtype)
    own = weights.T @ energies([order], batch, loss=loss, bias=bias)[0]
    # Mean over pairs i ≠ j from the mean over all pairs: (n² M − n E)/(n(n − 1)).
    diagonal = (sizes * gram.diagonal() - own) / (sizes - 1)
    return torch.diagonal_scatter(gram, diagonal)

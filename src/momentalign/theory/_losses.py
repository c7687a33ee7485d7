r"""Mean losses of the domains as functions of an explicit linear head.

Layout: a head is a matrix (C, D) with D = d + 1 if there is a bias, which is the last column; C is the number of
classes for cross-entropy, 1 for the logistic loss, the number of outputs for squared error. Every domain's loss is

.. math:: L_e(\theta) = \frac1{n_e} \sum_{i \in e} \ell(\theta x_i, y_i) + \frac{l_2}2 \|\theta\|^2

with the bias inside the norm, so that each is strongly convex with modulus ν = l2.
"""

from copy import copy
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from momentalign import closed_form
from momentalign._batch import LOSSES
from momentalign._format import join_first
from momentalign._types import Array
from momentalign._validation import check_choice
from momentalign.closed_form import HEADS
from momentalign.functional import domain_gram
from momentalign.theory._inputs import (
    as_features,
    as_labels,
    as_outcomes,
    check_positive,
    index_known_labels,
    index_labels,
    index_named_domains,
)


class DomainLosses:
    """Mean losses of two or more domains and their derivatives, in float64.

    Args:
        X: Features, shape (n, d).
        y: Labels of any kind, shape (n,); real numbers, shape (n,) or (n, C), for squared error.
        domains: Domain of each row, shape (n,): any labels, strings included.
        l2: Adds ½·l2·‖θ‖² to every domain's loss, the bias included; above zero, so that every minimum exists.
        loss: `"cross_entropy"`, `"logistic"` (two classes, one logit) or `"squared_error"`.
        bias: Whether the head has a bias.

    Example:
        >>> losses = DomainLosses([[1.0], [2.0], [2.0]], ["no", "yes", "no"], ["a", "b", "b"], bias=False)
        >>> losses.names, losses.classes, losses.shape
        (('a', 'b'), ['no', 'yes'], (2, 1))
        >>> losses.values([[0.0], [0.0]]).round(4)
        array([0.6931, 0.6931])
    """

    def __init__(
        self, X: Any, y: Any, domains: Any, *, l2: float = 1e-2, loss: str = "cross_entropy", bias: bool = True
    ) -> None:
        self.loss = check_choice("loss", loss, LOSSES)
        self.l2 = check_positive("l2", l2, "Without it a domain's loss need not have a minimum.")
        self.bias = bias
        self.features = as_features("X", X)
        rows = len(self.features)
        self.classes: list[Any] = []
        if loss == "squared_error":
            self.targets = as_outcomes("y", y, rows, "X")
        else:
            self.classes, self.targets = index_labels(as_labels("y", y, rows, "X"))
            _check_classes(self.classes, loss)
        labels, self.domains = index_named_domains(domains, rows)
        plain = tuple(str(label) for label in labels)
        self.names = plain if len(set(plain)) == len(plain) else tuple(repr(label) for label in labels)
        self._prepare()

    def _prepare(self) -> None:
        _, self.weights = closed_form.index_domains(self.domains, len(self.names), torch.float64)
        self.counts = torch.bincount(self.domains, minlength=len(self.names))
        self.inputs = closed_form.with_constant(self.features, self.bias)

    def with_domain(self, name: str, X: Tensor, targets: Tensor) -> "DomainLosses":
        """The same losses with one more domain, the last; its features and encoded targets are already checked."""
        joined = copy(self)
        joined.features = torch.cat([self.features, X])
        joined.targets = torch.cat([self.targets, targets])
        joined.domains = torch.cat([self.domains, self.domains.new_full((len(X),), len(self))])
        joined.names = (*self.names, name)
        joined._prepare()
        return joined

    def encode_targets(self, name: str, y: Any, rows: int, of: str) -> Tensor:
        """Targets of another sample, encoded by the classes or outputs of this one."""
        if self.loss == "squared_error":
            return as_outcomes(name, y, rows, of, self.targets.shape[1])
        return index_known_labels(name, as_labels(name, y, rows, of), self.classes)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def shape(self) -> tuple[int, int]:
        """Shape (C, D) of a head."""
        outputs = {"cross_entropy": len(self.classes), "logistic": 1}
        return outputs.get(self.loss) or self.targets.shape[1], self.inputs.shape[1]

    def as_head(self, head: Any) -> Tensor:
        """Check a head and convert it to a float64 tensor."""
        tensor = torch.as_tensor(head, dtype=torch.float64)
        if tuple(tensor.shape) != self.shape:
            raise ValueError(
                f"'head' should have shape {self.shape} (outputs, features{' and bias' if self.bias else ''}), "
                f"but has shape {tuple(tensor.shape)}."
            )
        return tensor

    def values(self, head: Any) -> Array:
        """Losses of the domains at a head, L2 term included; shape (K,)."""
        theta = self.as_head(head)
        samples = sample_losses(self.loss, self.inputs @ theta.T, self.targets)
        values: Array = (self.weights.T @ samples + self.l2 / 2 * theta.square().sum()).numpy()
        return values

    def gradients(self, head: Any) -> Tensor:
        """Gradients of the domains' losses at a head, L2 term included; shape (K, C, D)."""
        theta = self.as_head(head)
        residual = HEADS[self.loss](self.inputs @ theta.T, self.targets).gradient
        return torch.einsum("nk,nc,nd->kcd", self.weights, residual, self.inputs) + self.l2 * theta

    def gram(self, order: int, head: Any) -> Tensor:
        """Inner products of the domains' derivatives of an order, without the L2 term; shape (K, K)."""
        logits = self.inputs @ self.as_head(head).T
        return domain_gram(order, self.features, logits, self.targets, self.domains, loss=self.loss, bias=self.bias)

    def derivative_norms(self, order: int, head: Any) -> Array:
        """Distances between the domains' derivatives of an order, where the L2 terms cancel; shape (K, K)."""
        norms: Array = closed_form.distances(self.gram(order, head)).numpy()
        return norms

    def gradient_gram(self, head: Any) -> Tensor:
        """Inner products of the domains' gradients, L2 term included; shape (K, K)."""
        gradients = self.gradients(head).flatten(1)
        return gradients @ gradients.T


def sample_losses(loss: str, logits: Tensor, targets: Tensor) -> Tensor:
    """Loss of each sample, shape (n,)."""
    if loss == "cross_entropy":
        return F.cross_entropy(logits, targets, reduction="none")
    if loss == "logistic":
        return F.binary_cross_entropy_with_logits(logits[:, 0], targets.to(logits.dtype), reduction="none")
    return (logits - targets).square().sum(1) / 2


def losses_and_residuals(loss: str, logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Loss of each sample (n,) and its gradient in the logits (n, C); cross-entropy computes one softmax for both."""
    if loss != "cross_entropy":
        return sample_losses(loss, logits, targets), HEADS[loss](logits, targets).gradient
    log_probabilities, index = logits.log_softmax(1), targets[:, None]
    ones = logits.new_ones(()).expand(index.shape)
    return -log_probabilities.gather(1, index)[:, 0], log_probabilities.exp().scatter_add(1, index, -ones)


def _check_classes(classes: list[Any], loss: str) -> None:
    if any(isinstance(label, float) and not label.is_integer() for label in classes):
        raise ValueError(
            f"'y' should hold classes for loss '{loss}', but holds real numbers. Use loss='squared_error' for these."
        )
    if len(classes) < 2:
        raise ValueError(f"'y' should hold at least two classes, but all rows are of class {classes[0]!r}.")
    if loss == "logistic" and len(classes) > 2:
        names = join_first([str(label) for label in classes])
        raise ValueError(
            f"'y' should hold two classes for loss 'logistic', but holds {len(classes)}: {names}. "
            "Use loss='cross_entropy'."
        )

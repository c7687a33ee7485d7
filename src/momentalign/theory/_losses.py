r"""Mean losses of the domains as functions of an explicit linear head.

Layout: a head is a matrix (C, D) with D = d + 1 if there is a bias, which is the last column; C is the number of
classes for cross-entropy, 1 for the logistic loss, the number of outputs for squared error. Every domain's loss is

.. math:: L_e(\theta) = \frac1{n_e} \sum_{i \in e} \ell(\theta x_i, y_i) + \frac{l_2}2 \|\theta\|^2

with the bias inside the norm, so that each is strongly convex with modulus ν = l2.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.preprocessing import LabelEncoder
from sklearn.utils import check_array
from torch import Tensor

from momentalign import closed_form
from momentalign._batch import LOSSES, check_order
from momentalign._types import Array
from momentalign._validation import check_choice, check_column, check_labels, check_number
from momentalign.closed_form import HEADS
from momentalign.functional import domain_gram


class DomainLosses:
    """Mean losses of two or more domains and their derivatives, in float64.

    Args:
        X: Features, shape (n, d).
        y: Labels of any kind, shape (n,); real numbers, shape (n,) or (n, C), for squared error.
        domains: Domain of each row, shape (n,): numbers or strings.
        l2: Adds ½·l2·‖θ‖² to every domain's loss, the bias included; above zero, so that every minimum exists.
        loss: `"cross_entropy"`, `"logistic"` (two classes, one logit) or `"squared_error"`.
        bias: Whether the head has a bias.

    Example:
        >>> losses = DomainLosses([[1.0], [2.0], [2.0]], ["no", "yes", "no"], ["a", "b", "b"], bias=False)
        >>> losses.names, losses.classes, losses.shape
        (('a', 'b'), ('no', 'yes'), (2, 1))
        >>> losses.values([[0.0], [0.0]]).round(4)
        array([0.6931, 0.6931])
    """

    def __init__(
        self, X: Any, y: Any, domains: Any, *, l2: float = 1e-2, loss: str = "cross_entropy", bias: bool = True
    ) -> None:
        self.loss = check_choice("loss", loss, LOSSES)
        self.l2 = check_positive("l2", l2)
        self.bias = bias
        self.features = as_numbers("X", X)
        rows = len(self.features)
        self.classes: tuple[Any, ...] = ()
        if loss != "squared_error":
            self._encoder = LabelEncoder().fit(_as_labels("y", y, rows, "X"))
            self.classes = tuple(self._encoder.classes_.tolist())
            expected = "two classes" if loss == "logistic" else "at least two classes"
            if any(isinstance(label, float) and not label.is_integer() for label in self.classes):
                raise ValueError(f"'y' should hold {expected}, but holds real numbers. Use loss='squared_error'.")
            if len(self.classes) < 2 or (loss == "logistic" and len(self.classes) > 2):
                raise ValueError(f"'y' should hold {expected} for loss '{loss}', but holds {len(self.classes)}.")
        self.targets = self._encode_targets("y", y, rows, "X")
        self.names, self.domains = encode_domains(domains, rows)
        self.inputs = closed_form.with_constant(self.features, bias)
        outputs = 1 if loss == "logistic" else len(self.classes) or self.targets.shape[1]
        self.shape = (outputs, self.inputs.shape[1])
        """Shape (C, D) of a head."""
        self.parts = tuple(map(self.mixture, np.eye(len(self))))
        """The losses as functions of a head, one for each domain."""

    def encode(self, target: Any, target_labels: Any = None) -> tuple[Tensor, Tensor | None]:
        """Check another sample and encode its labels, if known, by the classes of this one."""
        features = as_numbers("target", target)
        rows, columns = features.shape
        if columns != self.features.shape[1]:
            raise ValueError(f"'target' should have {self.features.shape[1]} columns like 'X', but has {columns}.")
        if target_labels is None:
            return features, None
        labels = self._encode_targets("target_labels", target_labels, rows, "target")
        if labels.shape[1:] != self.targets.shape[1:]:
            raise ValueError(f"'target_labels' should have shape {(rows, *self.targets.shape[1:])} like 'y'.")
        return features, labels

    def _encode_targets(self, name: str, labels: Any, rows: int, of: str) -> Tensor:
        if self.classes:
            return torch.tensor(self._encoder.transform(_as_labels(name, labels, rows, of)))
        matrix = check_array(labels, dtype=np.float64, ensure_2d=False, input_name=name)
        check_column(name, matrix.shape[:1], rows, of)
        return torch.tensor(matrix.reshape(rows, -1))

    def __len__(self) -> int:
        return len(self.names)

    def as_head(self, head: Any) -> Tensor:
        """Check a head and convert it to a float64 tensor."""
        tensor = torch.as_tensor(head, dtype=torch.float64)
        if tuple(tensor.shape) != self.shape:
            raise ValueError(f"'head' should have shape {self.shape}, but has shape {tuple(tensor.shape)}.")
        return tensor

    def values(self, head: Any) -> Array:
        """Losses of the domains at a head, L2 term included; shape (K,)."""
        theta = self.as_head(head)[None]
        return np.array([part.evaluate(theta)[0].item() for part in self.parts])

    def gradients(self, head: Any) -> Tensor:
        """Gradients of the domains' losses at a head, L2 term included; shape (K, C, D)."""
        theta = self.as_head(head)[None]
        return torch.cat([part.evaluate(theta)[1] for part in self.parts])

    def derivative_norms(self, head: Any, order: int) -> dict[int, Array]:
        """Distances (K, K) between the domains' derivatives of the orders 1 to `order`; the L2 terms cancel."""
        logits = self.inputs @ self.as_head(head).T
        batch = self.features, logits, self.targets, self.domains
        orders = range(1, check_order(order, self.loss) + 1)
        grams = {r: domain_gram(r, *batch, loss=self.loss, bias=self.bias) for r in orders}
        return {r: closed_form.distances(gram).numpy() for r, gram in grams.items()}

    def mixture(self, weights: Array) -> "WeightedLoss":
        """Σ_e a_e L_e for weights a (K,) of any sign; rows of weight zero are dropped."""
        a = torch.as_tensor(weights)
        v = (a / self.domains.bincount())[self.domains]
        rows = v.nonzero()[:, 0]
        return WeightedLoss(self.loss, self.inputs[rows], self.targets[rows], v[rows], self.l2 * a.sum())


class WeightedLoss(NamedTuple):
    r"""The function :math:`\sum_i v_i\,\ell(\theta x_i, y_i) + \frac12\sum_{cj} \lambda_j \theta_{cj}^2` of a head.

    Args:
        loss: Name of the loss.
        inputs: Features with the constant, shape (n, D).
        targets: As the loss takes them.
        weights: v, shape (n,).
        l2: λ, a number or of shape (D,).
    """

    loss: str
    inputs: Tensor
    targets: Tensor
    weights: Tensor
    l2: Tensor

    def evaluate(self, heads: Tensor) -> tuple[Tensor, Tensor]:
        """Values (S,) and gradients (S, C, D) at heads (S, C, D)."""
        logits = torch.einsum("nd,scd->nsc", self.inputs, heads)
        rows = HEADS[self.loss](logits.flatten(0, 1), self.targets.repeat_interleave(len(heads), 0))
        samples = rows.losses.reshape(logits.shape[:2])
        residual = rows.gradient.reshape(logits.shape) * self.weights[:, None, None]
        ridge = self.l2 * heads
        slopes = torch.einsum("nsc,nd->scd", residual, self.inputs)
        return self.weights @ samples + (ridge * heads).sum((1, 2)) / 2, slopes + ridge

    def hessian_times(self, head: Tensor, vector: Tensor) -> Tensor:
        """Product of the Hessian at a head with a matrix (C, D)."""
        products = HEADS[self.loss](self.inputs @ head.T, self.targets).hessian_times(self.inputs @ vector.T)
        return (products * self.weights[:, None]).T @ self.inputs + self.l2 * vector


def as_numbers(name: str, value: Any) -> Tensor:
    """Convert to a finite float64 matrix (n, d) with at least one row."""
    return torch.tensor(check_array(value, dtype=np.float64, input_name=name))


def encode_domains(domains: Any, rows: int) -> tuple[tuple[str, ...], Tensor]:
    """Names of at least two domains, sorted, and the domain index of each of the `rows` rows of 'X'."""
    encoder = LabelEncoder()
    index = encoder.fit_transform(_as_labels("domains", domains, rows, "X"))
    names = tuple(map(str, encoder.classes_))
    if len(names) < 2:
        raise ValueError(f"'domains' should name at least two domains, but all {rows} rows are of '{names[0]}'.")
    return names, torch.tensor(index)


def check_positive(name: str, value: object) -> float:
    """Return `value` as a float if it is finite and above zero."""
    number = check_number(name, value)
    if not math.isfinite(number) or number <= 0:
        raise ValueError(f"'{name}' should be finite and above 0, but is {value!r}.")
    return number


def _as_labels(name: str, value: Any, rows: int, of: str) -> NDArray[Any]:
    # As objects: NumPy would turn a list of strings and None into strings.
    labels = np.array(value, dtype=object) if isinstance(value, list | tuple) else np.asarray(value)
    check_labels(name, labels, rows, of)
    return labels

"""The paper's recipe: stochastic gradient descent on batches in random order, far from converged when it stops."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import cross_entropy

from momentalign.closed_form import mean_over_domains
from momentalign.linear import LinearHead
from momentalign.linear._sgd import descend, first_head, logit_difference
from momentalign.probing._features import ProbeSplit
from momentalign.probing._methods import Hparams, ProbeMethod
from momentalign.probing._objectives import one_torch_thread
from momentalign.probing._recipes import BATCH, LEARNING_RATE
from momentalign.probing._terms import domain_state

Array = NDArray[np.float64]
Loss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


class SgdSettings(NamedTuple):
    """How the steps are made.

    Args:
        epochs: Passes over the rows.
        batch_size: Rows of a batch.
        learning_rate: Of the steps.
    """

    epochs: int
    batch_size: int = BATCH
    learning_rate: float = LEARNING_RATE

    def steps(self, rows: int) -> int:
        """Number of steps on so many rows."""
        return -(-rows // self.batch_size) * self.epochs


def fit_sgd(
    method: ProbeMethod,
    train: ProbeSplit,
    hparams: Hparams,
    settings: SgdSettings,
    *,
    classes: int,
    domains: int,
    l2: float,
    seed: int,
    watch: Callable[[int, float, Array], None] | None = None,
) -> LinearHead:
    """Fit a head without bias. The seed is the order of the batches; the first head is the same for all seeds.

    A step's loss is the mean of the batch for `erm`, the mean over the batch's domains of their means for the others,
    the domains weighted by q for `groupdro`, each with half of `l2` times the squared norm and the penalty.

    Args:
        method: What to minimise.
        train: Training rows.
        hparams: Of the method, with `anneal_steps` where it has a penalty.
        settings: Epochs, batch size, learning rate.
        classes: Number of classes.
        domains: Number of domains.
        l2: Weight of half the squared norm of the coefficients.
        seed: Of the order of the batches.
        watch: Told the step, its loss and the head after it, flattened as for the converged solver.

    Returns:
        The head; not converged where a loss or the head stopped being finite, which ends the fit.
    """
    X, y = torch.from_numpy(train.features), torch.from_numpy(train.targets)
    e = torch.from_numpy(train.domains)
    W = first_head(classes, X.shape[1], torch.Generator().manual_seed(0))
    batch_loss = _loss(method, hparams, domains)

    def loss_of(batch: Tensor) -> Tensor:
        loss = batch_loss(X[batch], X[batch] @ W.T, y[batch], e[batch])
        return loss + 0.5 * l2 * logit_difference(W).square().sum()

    def tell(step: int, loss: float) -> None:
        if watch is not None:
            watch(step, loss, logit_difference(W.detach()).numpy().ravel().copy())

    order = torch.Generator().manual_seed(seed)
    with one_torch_thread():
        found = descend(loss_of, W, len(X), **settings._asdict(), order=order, watch=tell)
    coef = logit_difference(W.detach()).numpy().copy()
    return LinearHead(coef, np.zeros(len(coef)), {}, found.loss, found.steps, found.finite)


def _loss(method: ProbeMethod, hparams: Hparams, domains: int) -> Loss:
    """Loss of a batch from features, logits, targets and domains."""
    if (method.same_as or method.name) == "erm":
        return lambda X, logits, y, e: cross_entropy(logits, y)
    if method.name == "groupdro":
        return _GroupDRO(hparams["eta"], domains)
    if not method.penalised:
        return lambda X, logits, y, e: _balanced(logits, y, e)
    own = {name: value for name, value in hparams.items() if name != "anneal_steps"}
    steps = int(hparams.get("anneal_steps", 0))
    penalty: Loss = (
        method.penalty(own, steps, domains) if method.penalty is not None else _BatchPenalty(method, own, steps)
    )
    return lambda X, logits, y, e: _balanced(logits, y, e) + penalty(X, logits, y, e)


class _BatchPenalty:
    """A penalty's terms on each batch: what its class gives, without a matrix of rows by rows."""

    def __init__(self, method: ProbeMethod, hparams: Hparams, anneal_steps: int) -> None:
        assert method.terms is not None
        self.terms, self.weights = method.terms, method.weights(hparams)
        self.initial, self.anneal_steps, self.step = method.initial_weight, anneal_steps, 0

    def __call__(self, X: Tensor, logits: Tensor, y: Tensor, e: Tensor) -> Tensor:
        early = self.step < self.anneal_steps
        self.step += 1
        if early and not self.initial:
            return logits.new_zeros(())
        states = []
        for domain in e.unique():
            rows = (e == domain).nonzero()[:, 0]
            u = X.new_full((len(rows),), 1.0 / len(rows))
            states.append(domain_state(X[rows], X[rows].square(), u, y[rows], logits[rows]))
        vectors = self.terms(states)
        weights = dict.fromkeys(self.weights, self.initial) if early else self.weights
        return torch.stack([weight * vectors[name].term() for name, weight in weights.items()]).sum()


class _GroupDRO:
    """Weighted sum of the domains' losses, weights moved by exponentiated ascent before every step."""

    def __init__(self, eta: float, domains: int) -> None:
        self.eta = eta
        self.q = torch.full((domains,), 1.0 / domains, dtype=torch.float64)

    def __call__(self, X: Tensor, logits: Tensor, y: Tensor, e: Tensor) -> Tensor:
        sizes = torch.bincount(e, minlength=len(self.q))
        sums = torch.zeros_like(self.q).index_add(0, e, cross_entropy(logits, y, reduction="none"))
        losses = sums / sizes.clamp(min=1)
        # A domain that the batch lacks keeps its weight: exp(0).
        self.q = self.q * (self.eta * losses.detach()).exp()
        self.q = self.q / self.q.sum()
        return self.q @ losses


def _balanced(logits: Tensor, y: Tensor, e: Tensor) -> Tensor:
    return mean_over_domains(cross_entropy(logits, y, reduction="none"), e)

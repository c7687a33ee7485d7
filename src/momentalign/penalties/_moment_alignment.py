"""Alignment of derivatives of any orders, which CMA and its relatives are cases of."""

from collections.abc import Mapping
from typing import ClassVar, Unpack

import torch
from torch import Tensor

from momentalign import _dispatch, closed_form
from momentalign._batch import HeadBatch, check_order
from momentalign._validation import SCALINGS, check_choice, check_decay
from momentalign.closed_form import HEADS
from momentalign.penalties._bank import BankedMemory
from momentalign.penalties._base import DomainPenalty, PenaltyOptions

_NAMES = {1: "gradient", 2: "hessian"}


class AlignmentOptions(PenaltyOptions, total=False):
    """Arguments that all alignment penalties take; :class:`MomentAlignment` documents them."""

    momentum: float
    route: str
    scaling: str


class AlignmentPenalty(DomainPenalty):
    """Weighted spreads of the domains' derivatives over the orders; takes the arguments of :class:`MomentAlignment`."""

    term_labels: ClassVar = {
        "gradient": "gradient spread",
        "hessian": "Hessian spread",
        "order_3": "spread of third derivatives",
    }
    capturable = True

    def __init__(
        self,
        order_weights: Mapping[int, float],
        *,
        momentum: float = 0.0,
        route: str = "auto",
        scaling: str = "none",
        **options: Unpack[PenaltyOptions],
    ) -> None:
        if not isinstance(order_weights, Mapping):
            raise TypeError(f"'order_weights' should be a dictionary such as {{1: 1.0}}, but is {order_weights!r}.")
        if not order_weights:
            raise ValueError("'order_weights' should name at least one order, such as {1: 1.0}, but is empty.")
        super().__init__({term_name(order): weight for order, weight in order_weights.items()}, **options)
        self.orders = [check_order(order, self.loss) for order in order_weights]
        self.route = check_choice("route", route, _dispatch.ROUTES)
        self.scaling = check_choice("scaling", scaling, SCALINGS)
        self.momentum = check_decay("momentum", momentum)
        self.checks_first = bool(momentum) or self.loss == "logistic"
        if self.momentum:
            if self.route == "pairwise":
                raise ValueError("momentum has no 'pairwise' route. Use 'gram', 'direct' or 'auto'.")
            self.memory = BankedMemory([*map(term_name, self.orders)], self.num_domains, self.momentum)

    def weigh(self, batch: HeadBatch, names: list[str], *, update: bool) -> tuple[Tensor, dict[str, Tensor]]:
        """Sum of the weighted spreads, for CMA and its parts, also with momentum, in one operation."""
        orders = [order for order in self.orders if term_name(order) in names]
        own = type(self).compute_terms is not AlignmentPenalty.compute_terms
        if (
            own
            or not orders
            or self.scaling == "relative"
            or not (self.momentum or self._is_one_operation(orders, batch))
        ):
            return super().weigh(batch, names, update=update)
        divisors = {order: self._divisor(order, batch) for order in orders}
        weights = {order: self.weights[term_name(order)] / by for order, by in divisors.items()}
        if self.momentum:
            total, found = self._with_past(batch, update, [weights.get(order, 0.0) for order in self.orders])
            spreads = dict(zip(self.orders, found, strict=True))
        else:
            pair = weights.get(1, 0.0), weights.get(2, 0.0)
            total, *found = closed_form.weighted_spreads(*batch, self.bias, pair)
            spreads = dict(enumerate(found, 1))
        return total, {term_name(order): _divided(spreads[order], by) for order, by in divisors.items()}

    def _is_one_operation(self, orders: list[int], batch: HeadBatch) -> bool:
        small = max(orders) < 3 and self.loss == "cross_entropy" and len(batch.features) <= closed_form.TILE
        return small and all(self.weights[term_name(k)] for k in orders) and self._route(orders, batch) == "gram"

    def compute_terms(self, batch: HeadBatch, names: list[str], *, update: bool) -> dict[str, Tensor]:
        """Spreads of the needed orders, scaled."""
        # A moving average needs every order at every step, also those of weight 0.
        orders = [order for order in self.orders if self.momentum or term_name(order) in names]
        if not orders:
            return {}
        relative = self.scaling == "relative"
        if self.momentum:
            energies = self._past_energies(batch, update) if relative else []
            spreads = self._with_past(batch, update)[1]
        else:
            route, bias = self._route(orders, batch), self.bias
            if relative:  # features near 1e10 would overflow in products that the quotient does not depend on
                batch, bias = batch._replace(features=closed_form.unit_features(batch.features, bias)), False
            spreads, energies = _dispatch.spreads(
                route, orders, batch, loss=self.loss, bias=bias, num_domains=self.num_domains, with_energies=relative
            )
        if relative:
            spreads = _relative(orders, spreads, energies, batch.features)
        return {
            term_name(order): _divided(value, self._divisor(order, batch))
            for order, value in zip(orders, spreads, strict=True)
        }

    def _divisor(self, order: int, batch: HeadBatch) -> float:
        if self.scaling in ("none", "relative"):
            return 1.0
        return constant_divisor(self.scaling, order, batch.logits.shape[1], batch.features.shape[1] + self.bias)

    def _route(self, orders: list[int], batch: HeadBatch, past: int = 0) -> str:
        return _dispatch.resolve_route(
            self.route, orders, batch, loss=self.loss, bias=self.bias, num_domains=self.num_domains, past=past
        )

    def _with_past(
        self, batch: HeadBatch, update: bool, weights: list[float] | None = None
    ) -> tuple[Tensor, list[Tensor]]:
        """Weighted sum of the spreads of the decaying sums, and the spreads, by the route of the first batch."""
        memory, orders, loss, dtype = self.memory, self.orders, HEADS[self.loss], batch.features.dtype
        names, labels = [*map(term_name, orders)], memory.index(batch.domains)
        if memory.has("grams"):
            route = "gram"
        elif memory.has(names[0]):
            route = "direct"
        else:
            route = self._route(orders, batch, past=memory.batches * len(batch.features))
        if route == "gram":
            spreads = memory.spreads(orders, loss, batch, labels, self.bias, update=update)
            terms = (weight * spread for weight, spread in zip(weights or [1.0] * len(orders), spreads, strict=True))
            total = sum(terms, start=batch.features.new_zeros(()))
        else:
            d, C = batch.features.shape[1] + self.bias, batch.logits.shape[1]
            shapes = [closed_form.blocks_shape(order, loss, d, C) for order in orders]
            past = [memory.past(name, size, dtype, labels) for name, size in zip(names, shapes, strict=True)]
            total, spreads, sums = closed_form.decayed_spreads(
                orders, loss, *batch, labels, past, self.momentum, bias=self.bias, overwrite=update, weights=weights
            )
            if update:
                for name, value in zip(names, sums, strict=True):
                    memory.store(name, value)
        if update:
            memory.store("labels", labels)
        return total, spreads

    def _past_energies(self, batch: HeadBatch, update: bool) -> list[Tensor]:
        """Bounds of the sums' mean squared norms, (Σ γ^k) Σ γ^k E(t − k)."""
        now = _dispatch.mean_energies(self.orders, batch, loss=self.loss, bias=self.bias)
        totals = torch.stack([*now, batch.features.new_ones(())])
        if self.memory.has("energies"):
            totals = torch.add(totals, self.memory.energies.to(totals.dtype), alpha=self.momentum)
        if update:
            self.memory.store("energies", totals)
        return list((totals[-1] * totals[:-1]).unbind())


class MomentAlignment(AlignmentPenalty):
    r"""Alignment of derivatives of any orders across domains.

    :math:`\sum_r w_r\,\frac1K \sum_e \|\nabla^r L_e - \overline{\nabla^r L}\|^2` over the derivatives of the domains'
    mean losses with respect to a linear head, in closed form. Orders 1 to 3 for cross-entropy, any order for the
    logistic loss; squared error has none past 2. Terms are named `gradient`, `hessian`, `order_3`, ….

    Args:
        order_weights: Weight of each order, `{1: w1, 2: w2, 3: w3}`.
        momentum: Decay γ of the past batches' part in each domain's derivative; 0 for the current batch alone.
        route: `"gram"`, `"direct"`, `"pairwise"` give the same number; `"auto"` takes the cheaper of the first two.
        scaling: What divides a term: `"none"` nothing, `"classes"` C^r, `"parameters"` (dC)², `"relative"` the mean
            squared norm of the samples' derivatives, so that it lies between 0 and 1.
        **options: Arguments of :class:`DomainPenalty`.

    Example:
        >>> features = torch.tensor([[1.0], [2.0]])
        >>> logits, targets, domains = torch.zeros(2, 2), torch.tensor([0, 0]), torch.tensor([0, 1])
        >>> MomentAlignment({1: 1.0, 2: 2.0}, bias=False).terms(features, logits, targets, domains)
        {'gradient': tensor(0.1250), 'hessian': tensor(0.5625)}
    """


def constant_divisor(scaling: str, order: int, classes: int, dimension: int) -> float:
    """Divisor of a term with scaling `"classes"` or `"parameters"`; `dimension` counts the bias."""
    return float(classes**order if scaling == "classes" else (dimension * classes) ** 2)


def term_name(order: int) -> str:
    """Name of the term of an order."""
    return _NAMES.get(order, f"order_{order}")


def _relative(orders: list[int], spreads: list[Tensor], energies: list[Tensor], features: Tensor) -> list[Tensor]:
    """Spreads divided by energies; 0 where the residuals' part of an energy underflows, so that 0/0 is 0."""
    limits, energy = torch.finfo(features.dtype), torch.stack(energies)
    # Large features can lift the energy of residuals near 0, whose part would overflow in backward.
    length = features.detach().square().sum(1).max().clamp(min=1)
    floor = torch.stack([length**order for order in orders]) * (limits.tiny / limits.eps)
    floor = floor.clamp(max=limits.max)  # an energy that overflows is not one that vanishes: the quotient is NaN
    sound = ~(energy <= floor)  # also one that is not a number
    quotients = torch.stack(spreads) / torch.where(sound, energy, 1.0)
    return list(torch.where(sound, quotients, 0.0).unbind())


def _divided(value: Tensor, by: float) -> Tensor:
    return value if by == 1 else value / by

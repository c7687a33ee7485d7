"""Alignment of derivatives of any orders, which CMA and its relatives are cases of."""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Unpack

import torch
from torch import Tensor

from momentalign import _dispatch, closed_form
from momentalign._batch import HeadBatch, check_order
from momentalign._validation import SCALINGS, check_choice, check_decay
from momentalign.closed_form import HEADS
from momentalign.penalties._base import DomainPenalty, PenaltyOptions
from momentalign.penalties._memory import DecayedSums, GramBank

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
        "order_4": "spread of fourth derivatives",
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
        if self.momentum:
            if self.route == "pairwise":
                raise ValueError("momentum has no 'pairwise' route. Use 'gram', 'direct' or 'auto'.")
            self.sums = DecayedSums([term_name(order) for order in self.orders], self.num_domains, self.momentum)
            self.bank = GramBank(self.orders, self.loss, self.bias, self.num_domains, self.momentum)
            self.energies = DecayedSums(["totals"], 1, self.momentum)  # of the whole batch: one "domain"

    def compute_terms(self, batch: HeadBatch, names: list[str], *, update: bool) -> dict[str, Tensor]:
        """Spreads of the needed orders, scaled."""
        # A moving average needs every order at every step, also those of weight 0.
        orders = [order for order in self.orders if self.momentum or term_name(order) in names]
        if not orders:
            return {}
        relative = self.scaling == "relative"
        constant = self.scaling in ("classes", "parameters")
        size = batch.logits.shape[1], batch.features.shape[1] + self.bias
        divisors = [constant_divisor(self.scaling, order, *size) for order in orders] if constant else None
        if self.momentum:
            spreads = self._spreads_with_past(batch, divisors, update)
            energies = self._energies_with_past(batch, update) if relative else []
        else:
            route, bias = self._route(orders, batch), self.bias
            if relative:  # features near 1e10 would overflow in products that the quotient does not depend on
                batch, bias = batch._replace(features=closed_form.unit_features(batch.features, bias)), False
            spreads, energies = _dispatch.spreads(
                route,
                orders,
                batch,
                loss=self.loss,
                bias=bias,
                num_domains=self.num_domains,
                with_energies=relative,
                divisors=divisors,
            )
        if relative:
            spreads = _relative(orders, spreads, energies, batch.features)
        return dict(zip(map(term_name, orders), spreads, strict=True))

    def _route(self, orders: list[int], batch: HeadBatch, past: int = 0) -> str:
        return _dispatch.resolve_route(
            self.route, orders, batch, loss=self.loss, bias=self.bias, num_domains=self.num_domains, past=past
        )

    def _spreads_with_past(self, batch: HeadBatch, divisors: Sequence[float] | None, update: bool) -> list[Tensor]:
        """Spreads of the decaying sums, divided, by the route of the first batch."""
        (rows, width), classes = batch.features.shape, batch.logits.shape[1]
        if self.bank.grams.numel():
            route = "gram"
        elif self.sums.get_buffer(term_name(self.orders[0])).numel():
            route = "direct"
        else:
            route = self._route(self.orders, batch, past=self.bank.batches * rows)
        if route == "gram":
            self.bank.check_widths(batch, {"features": width, "logits": classes}, update=update)
            labels, weights = self.bank.index(batch.domains, batch.features.dtype)
            grams = self.bank(batch, labels, weights, update=update)
            present = weights.sum(0) > 0
            return _dispatch.divided([closed_form.present_spread(gram, present) for gram in grams], divisors)
        dimension = width + self.bias
        sizes = {
            term_name(order): closed_form.direct_size(order, HEADS[self.loss], dimension, classes) or 0
            for order in self.orders
        }
        self.sums.check_widths(batch, sizes, update=update)
        labels = self.sums.extended_labels(batch.domains)
        past = self.sums.past(labels, batch.features.dtype)
        spreads, sums = closed_form.decayed_spreads(
            self.orders,
            HEADS[self.loss],
            *batch,
            labels,
            list(past.values()) or None,
            self.momentum,
            bias=self.bias,
            divisors=divisors,
            overwrite=update,
        )
        if update:
            self.sums.remember(dict(zip(map(term_name, self.orders), sums, strict=True)), labels)
        return spreads

    def _energies_with_past(self, batch: HeadBatch, update: bool) -> list[Tensor]:
        """Bounds of the decaying sums' squared norms: (Σ γ^k) Σ γ^k E(t − k), the past detached."""
        now = torch.stack(_dispatch.mean_energies(self.orders, batch, loss=self.loss, bias=self.bias))
        with_one = torch.cat([now, now.new_ones(1)])[None]
        totals = self.energies({"totals": with_one}, self.energies.labels, update=update)["totals"][0]
        return list((totals[-1] * totals[:-1]).unbind())


class MomentAlignment(AlignmentPenalty):
    r"""Alignment of derivatives of any orders across domains.

    :math:`\sum_r w_r\,\frac1K \sum_e \|\nabla^r L_e - \overline{\nabla^r L}\|^2` over the derivatives of the domains'
    mean losses with respect to a linear head, in closed form. Orders 1 to 4 for cross-entropy, any order for the
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
    sound = energy > floor
    quotients = torch.stack(spreads) / torch.where(sound, energy, 1.0)
    return list(torch.where(sound, quotients, 0.0).unbind())

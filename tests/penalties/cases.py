"""All penalties in all their forms, and the properties that each does not have."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from momentalign import (
    CMA,
    CORAL,
    HGP,
    IRM,
    MMD,
    Fishr,
    GradientMatching,
    HessianMatching,
    Hutchinson,
    MomentAlignment,
    VREx,
)
from momentalign.penalties import DomainPenalty
from tests.references import make_batch

Inputs = tuple[Tensor, Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class Case:
    """A penalty, and by name every property that it does not have."""

    name: str
    make: Callable[..., DomainPenalty]
    loss: str = "cross_entropy"
    reaches: tuple[str, ...] = ("features", "logits")
    zero_for_identical_domains: bool = True
    invariant_to_row_order: bool = True
    never_negative: bool = True
    compares_domains: bool = True
    initial_weight: float = 0.0
    remembers: bool = False
    random: bool = False
    needs_number: bool = False
    """Whether it builds a tensor for each domain, and so has to know their number where nothing may be read."""

    def __str__(self) -> str:
        return self.name

    def batch(self, seed: int = 0, dtype: torch.dtype = torch.float64, **options: Any) -> Inputs:
        """A batch of domains 0, 1, 2 that suits the loss."""
        options = {"n": 21, "d": 4, "domains": (0, 1, 2)} | options
        return self.cast(make_batch(self.loss, seed=seed, **options).inputs, dtype)

    def cast(self, inputs: Inputs, dtype: torch.dtype) -> Inputs:
        """The same batch in another precision; class indices stay."""
        features, logits, targets, domains = inputs
        targets = targets.to(dtype) if self.loss == "squared_error" else targets
        return features.to(dtype), logits.to(dtype), targets, domains

    def value(self, *inputs: Tensor, **options: Any) -> Tensor:
        """What a new penalty says; one that remembers is called three times. Random ones draw the same numbers."""
        penalty = self.make(**options)
        for _ in range(2 if self.remembers else 0):
            seeded(penalty, *inputs)
        return seeded(penalty, *inputs)


def seeded(penalty: Callable[..., Any], *inputs: Tensor) -> Any:
    """Call with torch's generator in one state."""
    torch.manual_seed(0)
    return penalty(*inputs)


def value_and_gradients(function: Callable[..., Tensor], *inputs: Tensor) -> list[Tensor]:
    """The value and its gradients in features and logits, zero where it does not depend on them."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in inputs[:2]]
    value = seeded(function, *leaves, *inputs[2:])
    return [value.detach(), *torch.autograd.grad(value, leaves, allow_unused=True, materialize_grads=True)]


_orders = partial(MomentAlignment, {1: 0.3, 2: 2.1, 3: 0.7})
_cma = partial(CMA, 0.3, 2.1)
_remembering = {"remembers": True, "needs_number": True}
_extrapolation = {"initial_weight": 1.0, "reaches": ("logits",), "needs_number": True}

CASES = [
    Case("orders", _orders),
    Case("orders-logistic", partial(MomentAlignment, {1: 1.0, 4: 2.1}, loss="logistic"), "logistic"),
    Case("orders-squared", partial(_orders, loss="squared_error"), "squared_error"),
    Case("orders-momentum", partial(_orders, momentum=0.5, route="gram"), **_remembering),
    Case("cma-auto", _cma),
    Case("cma-gram", partial(_cma, route="gram")),
    Case("cma-direct", partial(_cma, route="direct"), needs_number=True),
    Case("cma-pairwise", partial(_cma, route="pairwise"), needs_number=True),
    Case("cma-plain", partial(_cma, bias=False)),
    Case("cma-classes", partial(_cma, scaling="classes")),
    Case("cma-parameters", partial(_cma, scaling="parameters")),
    Case("cma-relative", partial(_cma, scaling="relative")),
    Case("cma-relative-direct", partial(_cma, scaling="relative", route="direct"), needs_number=True),
    Case("cma-momentum-gram", partial(_cma, momentum=0.5, route="gram"), **_remembering),
    Case("cma-momentum-direct", partial(_cma, momentum=0.9, route="direct"), **_remembering),
    Case("cma-momentum-relative", partial(_cma, momentum=0.5, scaling="relative"), **_remembering),
    Case("gradient", partial(GradientMatching, 2.1)),
    Case("hessian", partial(HessianMatching, 2.1)),
    # The Hessian of a squared error does not depend on the head.
    Case("hessian-squared", partial(HessianMatching, loss="squared_error"), "squared_error", reaches=("features",)),
    # A norm, not a difference between domains.
    Case(
        "irm-head",
        partial(IRM, 2.1),
        zero_for_identical_domains=False,
        compares_domains=False,
        initial_weight=1.0,
        needs_number=True,
    ),
    Case(
        "irm-scale",  # a product of a domain's even and odd rows; the scale multiplies the logits
        partial(IRM, 2.1, version="scale"),
        reaches=("logits",),
        zero_for_identical_domains=False,
        invariant_to_row_order=False,
        never_negative=False,
        compares_domains=False,
        initial_weight=1.0,
    ),
    Case("fishr", partial(Fishr, 2.1), **_remembering),
    Case("fishr-logistic", partial(Fishr, 2.1, momentum=0.0, loss="logistic"), "logistic", **_remembering),
    Case("coral", partial(CORAL, 2.1), reaches=("features",)),
    Case("mmd", partial(MMD, 2.1), reaches=("features",)),
    Case("hgp-mean", partial(HGP, 0.3, 2.1), needs_number=True),
    Case("hgp-product", partial(HGP, 0.3, 2.1, center="product"), needs_number=True),
    Case("hutchinson-exact", partial(Hutchinson, 0.3, 2.1), needs_number=True),
    Case("hutchinson-sampled", partial(Hutchinson, 0.3, 2.1, samples=3), random=True, needs_number=True),
    Case("hutchinson-classes", partial(Hutchinson, 0.3, 2.1, scaling="classes"), needs_number=True),
    Case("vrex", partial(VREx, 2.1), **_extrapolation),
    Case("vrex-logistic", partial(VREx, 2.1, loss="logistic"), "logistic", **_extrapolation),
]

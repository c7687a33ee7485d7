"""Candidates of the search, and how they and the choice among them are described."""

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from momentalign.sklearn._rule import Choice


class Setting(TypedDict):
    """A candidate: the weights, L2 in units of scikit-learn's default, and whether the loss weights domains equally.

    `domain_intercepts` is true for a model fitted with an intercept for each domain; other candidates have none.
    """

    gradient_weight: float
    hessian_weight: float
    l2_factor: float
    balanced: bool
    domain_intercepts: NotRequired[bool]


def explain_steps(
    incumbent: str, taken: Sequence[tuple[Setting, Choice]], metric: str, where: str, *, relative: bool
) -> str:
    """Describe the steps away from the incumbent with their gains in points, or in % of its error if `relative`."""
    parts = []
    for setting, step in taken:
        gain, error = step.gains[step.candidate], step.errors[step.candidate]
        amount = f"{gain:.2%} ± {error:.2%}" if relative else f"{100 * gain:.2f} ± {100 * error:.2f} points"
        parts.append(f"{_describe(setting)} gained {amount}")
    return f"Changed from {incumbent}'s defaults: {', then '.join(parts)}, in {metric} on {where}."


def _describe(setting: Setting) -> str:
    """What distinguishes a setting from a plain model of the same L2, or its L2."""
    named = (("gradient", setting["gradient_weight"]), ("Hessian", setting["hessian_weight"]))
    changes = [f"{name} weight {weight:g}" for name, weight in named if weight]
    if setting.get("domain_intercepts"):
        changes.append("an intercept for each domain")
    elif setting["balanced"] and not changes:
        changes.append("domains weighted equally")
    return ", ".join(changes) or f"L2 {setting['l2_factor']:g}/n"

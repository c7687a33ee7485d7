"""Candidates of the search, and how they and the choice among them are described."""

from collections.abc import Sequence
from typing import NotRequired, TypedDict

from momentalign._types import Array
from momentalign.sklearn._rule import Choice


class Setting(TypedDict):
    """A candidate: the weights, L2 in units of scikit-learn's default, and whether the loss weights domains equally.

    `domain_intercepts` is true for a model fitted with an intercept for each domain, `method` is that of a
    :class:`GroupRobustClassifier`; other candidates have neither.
    """

    gradient_weight: float
    hessian_weight: float
    l2_factor: float
    balanced: bool
    domain_intercepts: NotRequired[bool]
    method: NotRequired[str]


def explain_steps(
    incumbent: str, taken: Sequence[tuple[Setting, Choice]], metric: str, where: str, *, relative: bool
) -> str:
    """Describe the steps away from the incumbent with their gains in points, or in % of its error if `relative`."""
    parts = []
    for setting, step in taken:
        gain, error = step.gains[step.candidate], step.errors[step.candidate]
        amount = f"{gain:.2%} ± {error:.2%}" if relative else f"{100 * gain:.2f} ± {100 * error:.2f} points"
        parts.append(f"{', '.join(_changes(setting)) or _describe(setting)} gained {amount}")
    return f"Changed from {incumbent}'s defaults: {', then '.join(parts)}, in {metric} on {where}."


def format_candidates(
    candidates: Sequence[Setting], scores: Array, standard_errors: Array, outcomes: Sequence[str]
) -> str:
    """Table of the candidates, one a line: score, standard error of the gain, setting, outcome."""
    lines = [f"{'score':>9} {'gain ±':>9}  candidate"]
    for setting, score, error, outcome in zip(candidates, scores, standard_errors, outcomes, strict=True):
        lines.append(f"{_number(score):>9} {_number(error):>9}  {_describe(setting)}: {outcome}")
    return "\n".join(lines)


def _describe(setting: Setting) -> str:
    return ", ".join([*_changes(setting), f"L2 {setting['l2_factor']:g}/n"])


def _changes(setting: Setting) -> list[str]:
    """What distinguishes a setting from a plain model of the same L2."""
    changes = [f"method {setting['method']}"] if "method" in setting else []
    changes += [
        f"{name} weight {setting[key]:g}"  # type: ignore[literal-required]
        for name, key in (("gradient", "gradient_weight"), ("Hessian", "hessian_weight"))
        if setting[key]  # type: ignore[literal-required]
    ]
    if setting.get("domain_intercepts"):
        changes.append("an intercept for each domain")
    elif setting["balanced"] and not changes:
        changes.append("domains weighted equally")
    return changes


def _number(value: float) -> str:
    return "–" if value != value else f"{value:.4g}"

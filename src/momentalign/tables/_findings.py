"""The findings of a diagnosis in plain words. A difference is stated if a test or an interval finds it."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from momentalign._format import join_first, join_names
from momentalign.tables._column_shifts import ColumnShift
from momentalign.tables._plain_fits import Estimate, LeftOutScore, RemedyScore
from momentalign.tables._shifts import DomainShift, ShiftTest

if TYPE_CHECKING:
    from momentalign.tables._diagnosis import DomainDiagnosis

_NAMED = 3
"""Domains or columns named in a sentence."""
_REMEDIES = {"balanced": "Domains weighted equally (balanced rows)", "aligned": "Aligned gradients (moment alignment)"}


def describe_findings(diagnosis: "DomainDiagnosis") -> list[str]:
    """Findings as sentences: scores, differences, columns, hull."""
    numbers = diagnosis.rows.classes is None
    return [
        *_score_sentences(diagnosis.fits.scores, numbers),
        *_shift_sentences(diagnosis.shifts, numbers),
        *_column_sentences(diagnosis.columns, diagnosis.rows.names),
        *_hull_sentences(diagnosis),
    ]


def advise(diagnosis: "DomainDiagnosis") -> list[str]:
    """Recommendations, each with its evidence."""
    numbers = diagnosis.rows.classes is None
    losing = _losing(diagnosis.fits.scores)
    other = _largest(diagnosis.shifts, [shift.relation for shift in diagnosis.shifts])
    advice = []
    if not losing and not other and not _unbeaten(diagnosis.fits.scores, numbers):
        advice.append("Nothing special: a plain model. Leaving a domain out was not found to cost anything.")
    for score in losing[:_NAMED]:
        assert score.loss is not None
        advice.append(
            f"Rows of '{score.domain}' in training: rows of its own were worth {_amount(score.loss, numbers)} there."
        )
    if len(losing) > _NAMED:
        advice.append(f"The same holds for {join_first(_quoted(losing[_NAMED:]), 5)}.")
    alone = [f"'{name}'" for name, _ in other if name not in {score.domain for score in losing}]
    if alone:
        whose = "its" if len(alone) == 1 else "their"
        advice.append(
            f"A model of {whose} own for {join_first(alone, 5)}: {whose} own rows improved on the others' model."
        )
    if diagnosis.transfer.hull is not None and not diagnosis.transfer.hull.tenable:
        advice.append(
            f"Labelled rows of '{diagnosis.target}', or of domains like it: no mixture of the others looks like it."
        )
    advice += [_remedy_sentence(remedy, numbers) for remedy in diagnosis.remedies]
    if not diagnosis.remedies:
        advice.append("Balanced rows and alignment were not tried: that takes at least three domains.")
    if small := [score for score in diagnosis.fits.scores if score.loss is None]:
        advice.append(f"More rows, before anything can be said about them: {join_first(_quoted(small), 5)}.")
    return advice


def _score_sentences(scores: Sequence[LeftOutScore], numbers: bool) -> list[str]:
    ordered = sorted(scores, key=lambda score: score.left_out.value, reverse=numbers)
    worst, best = ordered[0], ordered[-1]
    form = (".3g",) if numbers else (".0f", 100, "%")
    low, high = (score.left_out.format(*form) for score in (worst, best))
    scored = (
        f"ridge regression that has not seen a domain is off on average by {low} on '{worst.domain}' and {high} on"
        if numbers
        else f"logistic regression that has not seen a domain predicts {low} of the rows of '{worst.domain}' correctly "
        f"and {high} of"
    )
    first = f"A plain {scored} '{best.domain}'" + (", the others in between." if len(scores) > 2 else ".")
    losing = _losing(scores)
    if losing:
        parts = [f"{_amount(score.loss, numbers)} on '{score.domain}'" for score in losing[:_NAMED] if score.loss]
        more = f" and something on {len(losing) - _NAMED} more" if len(losing) > _NAMED else ""
        lost = f"Not having seen the domain costs {join_names(parts) if not more else ', '.join(parts) + more}."
        if len(losing) < len(scores):
            lost += " No loss was found on the others."
    else:
        lost = "No domain was found to lose by being left out."
    weak = _unbeaten(scores, numbers)
    guess = "the other domains' mean" if numbers else "the other domains' most frequent class"
    beaten = f"It was not found to beat guessing {guess} on {join_first(_quoted(weak), _NAMED)}." if weak else ""
    return [sentence for sentence in (first, lost, beaten) if sentence]


def _shift_sentences(shifts: Sequence[DomainShift], numbers: bool) -> list[str]:
    label = (
        "The level of the numbers differs (label shift): '{}' is {:.1f} standard deviations from the others{}."
        if numbers
        else "The shares of the classes differ (label shift): {1:.0%} of the rows of '{0}' would need another class to "
        "match the others{2}."
    )
    kinds = (
        ("label shift", label, [shift.label for shift in shifts]),
        (
            "diversity shift",
            "The columns differ (diversity shift): rows of '{}' are told from the others with an AUC of {:.2f}{}.",
            [shift.features for shift in shifts],
        ),
        (
            "correlation shift",
            "What the columns say about the label differs (correlation shift): for '{}' a correction by its own rows "
            "removes {:.0%} of the loss of the others' model{}.",
            [shift.relation for shift in shifts],
        ),
    )
    sentences, none = [], []
    for name, pattern, tests in kinds:
        if not (found := _largest(shifts, tests)):
            none.append(name)
            continue
        (first, size), *others = found
        quoted = [f"'{one}'" for one, _ in others]
        more = f" (also found for {join_first(quoted, _NAMED)})" if others else ""
        sentences.append(pattern.format(first, size, more))
    if none:
        sentences.append(f"No {join_names([none[0], *(f'no {kind}' for kind in none[1:])])} was found.")
    return sentences


def _largest(shifts: Sequence[DomainShift], tests: Sequence[ShiftTest | None]) -> list[tuple[str, float]]:
    """Domains for which a difference was found, the largest first."""
    found = [(one.domain, test.size) for one, test in zip(shifts, tests, strict=True) if test and test.found]
    return sorted(found, key=lambda pair: -pair[1])


def _column_sentences(columns: Sequence[ColumnShift], names: Sequence[str]) -> list[str]:
    found = [column for column in columns if column.found and column.share > 0]
    if not found:
        return ["No column was found to differ between the domains."]
    parts = [f"'{column.name}' ({column.share:.0%} of the difference)" for column in found[:_NAMED]]
    sentences = [f"The column{'s that differ' if len(parts) > 1 else ' that differs'} most: {join_names(parts)}."]
    gaps = [(float(np.ptp(column.missing)), column) for column in columns]
    gap, column = max(gaps, key=lambda pair: pair[0])
    if gap >= 0.2:
        high, low = names[int(column.missing.argmax())], names[int(column.missing.argmin())]
        others = sum(other >= 0.2 for other, _ in gaps) - 1
        more = f"; {others} more column{'s' if others > 1 else ''} differ like that" if others else ""
        sentences.append(
            f"'{column.name}' is missing in {column.missing.max():.0%} of the rows of '{high}' and in "
            f"{column.missing.min():.0%} of those of '{low}'{more}."
        )
    return sentences


def _hull_sentences(diagnosis: "DomainDiagnosis") -> list[str]:
    hull = diagnosis.transfer.hull
    if hull is None:
        return []
    if hull.tenable:
        order = np.argsort(-hull.weights)[:_NAMED]
        mixture = join_names([f"{hull.weights[i]:.0%} '{hull.names[i]}'" for i in order if hull.weights[i] >= 0.005])
        return [
            f"'{diagnosis.target}' was not found to lie outside the hull of the others: its averages and spreads could "
            f"be those of a mixture ({mixture})."
        ]
    return [
        f"'{diagnosis.target}' lies outside the hull of the others: its averages and spreads differ from those of "
        f"every mixture of them by more than noise (p = {hull.p_value:.2g})."
    ]


def _remedy_sentence(remedy: RemedyScore, numbers: bool) -> str:
    name, gain = _REMEDIES[remedy.name], remedy.gain
    if not gain.excludes_zero:
        unit = "" if numbers else " points"
        return f"{name}: no difference from a plain model found on left-out domains ({_range(gain, numbers)}{unit})."
    if gain.value < 0:
        flipped = Estimate(-gain.value, -gain.high, -gain.low)
        return f"{name}: not here, {_amount(flipped, numbers)} worse than a plain model on left-out domains."
    return f"{name}: {_amount(gain, numbers)} better than a plain model on left-out domains."


def _losing(scores: Sequence[LeftOutScore]) -> list[LeftOutScore]:
    """Domains for which leaving out costs something, the largest loss first."""
    found = [score for score in scores if score.loss is not None and score.loss.low > 0]
    return sorted(found, key=lambda score: -score.loss.value if score.loss else 0.0)


def _unbeaten(scores: Sequence[LeftOutScore], numbers: bool) -> list[LeftOutScore]:
    """Domains on which the model was not found to beat a guess."""
    return [s for s in scores if not (s.left_out.high < s.guess if numbers else s.left_out.low > s.guess)]


def _quoted(scores: Sequence[LeftOutScore]) -> list[str]:
    return [f"'{score.domain}'" for score in scores]


def _amount(estimate: Estimate, numbers: bool) -> str:
    """A positive amount with its interval."""
    if numbers:
        return f"{estimate.value:.3g} ({_range(estimate, numbers)})"
    return estimate.format(f".{_decimals(estimate)}f", 100, " points")


def _range(estimate: Estimate, numbers: bool) -> str:
    if numbers:
        return f"{estimate.low:.2g} to {estimate.high:.2g}"
    digits = _decimals(estimate)
    return f"{100 * estimate.low:.{digits}f} to {100 * estimate.high:.{digits}f}"


def _decimals(estimate: Estimate) -> int:
    """Decimals of points: one, or two where an end of the interval would read as zero."""
    return 1 if min(abs(estimate.low), abs(estimate.high)) >= 0.001 else 2

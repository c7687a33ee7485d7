"""The findings of a diagnosis in plain words. A difference is stated if a test or an interval finds it."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from momentalign._format import join_first
from momentalign.tables._plain_fits import Estimate, LeftOutScore
from momentalign.tables._shifts import ShiftTest

if TYPE_CHECKING:
    from momentalign.tables._diagnosis import DomainDiagnosis

_NAMED = 3
"""Domains or columns named in a sentence."""
_REMEDIES = {"balanced": "Domains weighted equally (balanced rows)", "aligned": "Aligned gradients (moment alignment)"}


class ShiftKind(NamedTuple):
    """A kind of difference: its name, what its size is, how that is written, and the test of each domain."""

    name: str
    meaning: str
    form: str
    tests: list[ShiftTest | None]


def shift_kinds(diagnosis: "DomainDiagnosis") -> list[ShiftKind]:
    """The three kinds of difference between a domain and the others."""
    numbers, shifts = diagnosis.rows.classes is None, diagnosis.shifts
    label = (
        ("distance of its mean label from the others', in standard deviations", "{:.1f}")
        if numbers
        else ("share of its rows that would need another class to match the others", "{:.0%}")
    )
    features = "how well its rows are told from the others' by the columns (AUC, 0.5 is chance)"
    relation = "share of the loss of the others' model that a correction by its own rows removes"
    return [
        ShiftKind("label shift", *label, [shift.label for shift in shifts]),
        ShiftKind("diversity shift", features, "{:.2f}", [shift.features for shift in shifts]),
        ShiftKind("correlation shift", relation, "{:.0%}", [shift.relation for shift in shifts]),
    ]


def describe_findings(diagnosis: "DomainDiagnosis") -> list[str]:
    """Findings as sentences: scores, differences, columns, hull."""
    numbers = diagnosis.rows.classes is None
    worst, *_, best = sorted(diagnosis.fits.scores, key=lambda score: score.left_out.value, reverse=numbers)
    model = "ridge regression" if numbers else "logistic regression"
    measure = "a mean absolute error" if numbers else "an accuracy"
    said = [
        f"A plain {model} that has not seen a domain has {measure} of {_amount(worst.left_out, numbers, '%')} on "
        f"'{worst.domain}' and {_amount(best.left_out, numbers, '%')} on '{best.domain}'."
    ]
    costs = [f"{_amount(loss, numbers)} on '{score.domain}'" for score, loss in _losing(diagnosis)]
    if costs:
        said.append(f"Not having seen the domain costs {join_first(costs, _NAMED)}.")
    else:
        said.append("No domain was found to lose by being left out.")
    if weak := _unbeaten(diagnosis):
        guess = "the other domains' mean" if numbers else "the other domains' most frequent class"
        said.append(f"It was not found to beat guessing {guess} on {_quoted(weak)}.")
    for kind in shift_kinds(diagnosis):
        sizes = [f"'{name}' {kind.form.format(size)}" for name, size in _found(diagnosis, kind)]
        said.append(
            f"{kind.name.capitalize()}, {kind.meaning}: {join_first(sizes, _NAMED)}."
            if sizes
            else f"No {kind.name} was found."
        )
    return [*said, *_column_sentences(diagnosis), *([str(hull)] if (hull := diagnosis.transfer.hull) else [])]


def advise(diagnosis: "DomainDiagnosis") -> list[str]:
    """Recommendations, each with its evidence."""
    numbers = diagnosis.rows.classes is None
    losing = _losing(diagnosis)
    other = [name for name, _ in _found(diagnosis, shift_kinds(diagnosis)[-1])]
    advice = []
    if not losing and not other and not _unbeaten(diagnosis):
        advice.append("Nothing special: a plain model. Leaving a domain out was not found to cost anything.")
    for score, loss in losing[:_NAMED]:
        advice.append(
            f"Rows of '{score.domain}' in training: rows of its own were worth {_amount(loss, numbers)} there."
        )
    if len(losing) > _NAMED:
        advice.append(f"The same holds for {_quoted(score.domain for score, _ in losing[_NAMED:])}.")
    if alone := [name for name in other if name not in [score.domain for score, _ in losing]]:
        advice.append(f"A model of its own for {_quoted(alone)}: its own rows improved on the others' model.")
    if diagnosis.transfer.hull is not None and not diagnosis.transfer.hull.tenable:
        advice.append(f"Labelled rows of '{diagnosis.target}', or of domains like it: no mixture looks like it.")
    for remedy in diagnosis.remedies:
        gain, name = remedy.gain, _REMEDIES[remedy.name]
        amount = f"{_amount(gain, numbers)} against a plain model on left-out domains"
        verdict = "no gain or loss found" if not gain.excludes_zero else "better" if gain.value > 0 else "worse"
        advice.append(f"{name}: {verdict}, {amount}.")
    if not diagnosis.remedies:
        advice.append("Balanced rows and alignment were not tried: that takes at least three domains.")
    if small := [score.domain for score in diagnosis.fits.scores if score.loss is None]:
        advice.append(f"More rows, before anything can be said about them: {_quoted(small)}.")
    return advice


def _column_sentences(diagnosis: "DomainDiagnosis") -> list[str]:
    columns, names = diagnosis.columns, diagnosis.rows.names
    found = [f"'{one.name}' ({one.share:.0%} of the difference)" for one in columns if one.found and one.share > 0]
    if not found:
        return ["No column was found to differ between the domains."]
    sentences = [f"What differs most: {', '.join(found[:_NAMED])}."]
    column = max(columns, key=lambda one: float(np.ptp(one.missing)))
    if np.ptp(column.missing) >= 0.2:
        high, low = int(column.missing.argmax()), int(column.missing.argmin())
        sentences.append(
            f"'{column.name}' is missing in {column.missing[high]:.0%} of the rows of '{names[high]}' and in "
            f"{column.missing[low]:.0%} of those of '{names[low]}'."
        )
    return sentences


def _found(diagnosis: "DomainDiagnosis", kind: ShiftKind) -> list[tuple[str, float]]:
    """Domains for which a difference was found and its size, the largest first."""
    pairs = zip(diagnosis.shifts, kind.tests, strict=True)
    found = [(shift.domain, test.size) for shift, test in pairs if test and test.found]
    return sorted(found, key=lambda pair: -pair[1])


def _losing(diagnosis: "DomainDiagnosis") -> list[tuple[LeftOutScore, Estimate]]:
    """Domains for which leaving out costs something, the largest loss first."""
    found = [(score, score.loss) for score in diagnosis.fits.scores if score.loss is not None and score.loss.low > 0]
    return sorted(found, key=lambda pair: -pair[1].value)


def _unbeaten(diagnosis: "DomainDiagnosis") -> list[str]:
    """Domains on which the model was not found to beat a guess."""
    return [
        score.domain
        for score in diagnosis.fits.scores
        if (score.left_out.high >= score.guess if diagnosis.rows.classes is None else score.left_out.low <= score.guess)
    ]


def _quoted(names: Iterable[str]) -> str:
    return join_first([f"'{name}'" for name in names], 5)


def _amount(estimate: Estimate, numbers: bool, unit: str = " points") -> str:
    """An amount with its interval."""
    return estimate.format(".3g") if numbers else estimate.format(".1f", 100, unit)

"""Sentences state a difference only where a test or an interval finds it."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from momentalign.tables import ColumnShift, DomainShift, Estimate, LeftOutScore, RemedyScore, ShiftTest
from momentalign.tables._findings import advise, describe_findings

ACCURACY = Estimate(0.8, 0.7, 0.9)
LOSING, LEVEL = Estimate(0.1, 0.02, 0.18), Estimate(0.1, -0.02, 0.22)


def score(domain: str, loss: Estimate | None, guess: float = 0.5) -> LeftOutScore:
    return LeftOutScore(domain, 50, ACCURACY, guess, None if loss is None else ACCURACY, loss)


def diagnosis(**changes: Any) -> Any:
    """A diagnosis in which nothing was found, with some parts changed."""
    none = ShiftTest(0.3, False)
    column = ColumnShift("age", 0.6, False, "", np.arange(2.0), np.arange(2.0), np.zeros(2))
    parts = {
        "rows": SimpleNamespace(classes=("no", "yes"), names=("north", "south")),
        "fits": SimpleNamespace(scores=(score("north", LEVEL), score("south", LEVEL))),
        "shifts": tuple(DomainShift(name, none, none, none) for name in ("north", "south")),
        "columns": (column,),
        "remedies": (RemedyScore("balanced", LEVEL), RemedyScore("aligned", LEVEL)),
        "target": None,
        "transfer": SimpleNamespace(hull=None),
    }
    return SimpleNamespace(**{**parts, **changes})


def test_nothing_found_is_said_so() -> None:
    said = " ".join(describe_findings(diagnosis()))
    assert "No domain was found to lose by being left out." in said
    assert "No label shift, no diversity shift and no correlation shift was found." in said
    assert "No column was found to differ" in said
    assert "guessing" not in said
    first, *others = advise(diagnosis())
    assert first.startswith("Nothing special")
    assert all("no difference from a plain model found" in line for line in others)


def test_findings_carry_their_intervals() -> None:
    found = ShiftTest(0.3, True)
    base = diagnosis()
    case = diagnosis(
        fits=SimpleNamespace(scores=(score("north", LOSING), score("south", LEVEL, guess=0.75), score("tiny", None))),
        shifts=(DomainShift("north", found, ShiftTest(0.9, True), None), base.shifts[1]),
        columns=(replace(base.columns[0], found=True, missing=np.array([0.0, 0.9])),),
        remedies=(RemedyScore("balanced", LOSING), RemedyScore("aligned", Estimate(-0.1, -0.15, -0.05))),
    )
    said = " ".join(describe_findings(case))
    assert "costs 10.0 points (2.0 to 18.0) on 'north'. No loss was found on the others." in said
    assert "not found to beat guessing the other domains' most frequent class on 'south'." in said
    assert "30% of the rows of 'north' would need another class" in said
    assert "rows of 'north' are told from the others with an AUC of 0.90." in said
    assert "No correlation shift was found." in said
    assert "'age' (60% of the difference)" in said
    assert "'age' is missing in 90% of the rows of 'south' and in 0% of those of 'north'." in said
    tried = " ".join(advise(case))
    assert "Nothing special" not in tried
    assert "Domains weighted equally (balanced rows): 10.0 points (2.0 to 18.0) better" in tried
    assert "Aligned gradients (moment alignment): not here, 10.0 points (5.0 to 15.0) worse" in tried
    assert "More rows, before anything can be said about them: 'tiny'." in tried


def test_domains_that_need_models_of_their_own() -> None:
    none, found = ShiftTest(0.3, False), ShiftTest(0.3, True)
    north, south = (DomainShift(name, none, none, found) for name in ("north", "south"))
    one = advise(diagnosis(shifts=(north, diagnosis().shifts[1])))
    assert one[0] == "A model of its own for 'north': its own rows improved on the others' model."
    both = advise(diagnosis(shifts=(north, south)))
    assert both[0] == "A model of their own for 'north', 'south': their own rows improved on the others' model."


def test_the_hull_of_a_target() -> None:
    hull = SimpleNamespace(tenable=True, weights=np.array([0.25, 0.75]), names=("north", "south"), p_value=0.4)
    inside = diagnosis(target="new", transfer=SimpleNamespace(hull=hull))
    assert "'new' was not found to lie outside the hull" in describe_findings(inside)[-1]
    assert "(75% 'south' and 25% 'north')" in describe_findings(inside)[-1]
    outside = diagnosis(target="new", transfer=SimpleNamespace(hull=SimpleNamespace(tenable=False, p_value=0.005)))
    assert "'new' lies outside the hull of the others" in describe_findings(outside)[-1]
    assert any("Labelled rows of 'new'" in line for line in advise(outside))


def test_errors_of_numbers_are_in_their_own_units() -> None:
    rows = SimpleNamespace(classes=None, names=("north", "south"))
    low, high = Estimate(1.5, 1.0, 2.0), Estimate(3.0, 2.5, 3.5)
    scores = (LeftOutScore("north", 50, low, 4.0, low, LEVEL), LeftOutScore("south", 50, high, 3.2, low, LEVEL))
    said = " ".join(describe_findings(diagnosis(rows=rows, fits=SimpleNamespace(scores=scores))))
    assert "off on average by 3 (2.5 to 3.5) on 'south' and 1.5 (1 to 2) on 'north'." in said
    assert "not found to beat guessing the other domains' mean on 'south'." in said

"""Sentences state a difference only where a test or an interval finds it."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from momentalign.tables import ColumnShift, DomainShift, Estimate, LeftOutScore, RemedyScore, ShiftTest
from momentalign.tables._findings import advise, describe_findings
from momentalign.theory import HullCheck

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
    assert "No domain was found to lose" in said
    for kind in ("label", "diversity", "correlation"):
        assert f"No {kind} shift was found" in said
    assert "No column was found to differ" in said
    assert "guessing" not in said
    first, *others = advise(diagnosis())
    assert first.startswith("Nothing special")
    assert all("no gain or loss found" in line for line in others)


def test_findings_carry_their_intervals() -> None:
    found = ShiftTest(0.3, True)
    base = diagnosis()
    case = diagnosis(
        fits=SimpleNamespace(scores=(score("north", LOSING), score("south", LEVEL, guess=0.75), score("tiny", None))),
        shifts=(DomainShift("north", found, ShiftTest(0.9, True), None), base.shifts[1]),
        columns=(replace(base.columns[0], found=True, missing=np.array([0.0, 0.9])),),
        remedies=(RemedyScore("balanced", LOSING), RemedyScore("aligned", Estimate(-0.1, -0.15, -0.05))),
    )
    case.shifts = (*case.shifts, DomainShift("tiny", None, None, None))
    said = " ".join(describe_findings(case))
    for part in (
        "costs 10.0 points (2.0 to 18.0) on 'north'.",
        "most frequent class on 'south'.",
        "'north' 30%.",
        "'north' 0.90.",
        "No correlation shift",
        "'age' (60% of the difference)",
        "'age' is missing in 90% of the rows of 'south' and in 0% of those of 'north'",
    ):
        assert part in said
    tried = " ".join(advise(case))
    assert "Nothing special" not in tried
    assert "(balanced rows): better, 10.0 points (2.0 to 18.0)" in tried
    assert "(moment alignment): worse, -10.0 points (-15.0 to -5.0)" in tried
    assert "More rows" in tried
    assert "'tiny'" in tried


def test_domains_that_need_models_of_their_own() -> None:
    none, found = ShiftTest(0.3, False), ShiftTest(0.3, True)
    north, south = (DomainShift(name, none, none, found) for name in ("north", "south"))
    assert "own for 'north', 'south'" in advise(diagnosis(shifts=(north, south)))[0]


def test_the_hull_of_a_target() -> None:
    for noise in (1.0, 0.1):
        hull = HullCheck(("north", "south"), np.array([0.25, 0.75]), 0.5, noise, 0.4, False)
        case = diagnosis(target="new", transfer=SimpleNamespace(hull=hull))
        assert "north 0.25 and south 0.75" in describe_findings(case)[-1]
        assert any("'new'" in line for line in advise(case)) == (not hull.tenable)


def test_errors_of_numbers_are_in_their_own_units() -> None:
    rows = SimpleNamespace(classes=None, names=("north", "south"))
    low, high = Estimate(1.5, 1.0, 2.0), Estimate(3.0, 2.5, 3.5)
    scores = (LeftOutScore("north", 50, low, 4.0, low, LEVEL), LeftOutScore("south", 50, high, 3.2, low, LEVEL))
    said = " ".join(describe_findings(diagnosis(rows=rows, fits=SimpleNamespace(scores=scores))))
    assert "3 (2.5 to 3.5) on 'south' and 1.5 (1 to 2) on 'north'." in said
    assert "mean on 'south'." in said

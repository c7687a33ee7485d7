"""Theory over generated tables: numbers for numbers, and anything else is an error in words."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from momentalign.theory import (
    DomainLosses,
    moment_distances,
    moment_gaps,
    pareto_point,
    transfer_measures,
    transfer_report,
)
from tests.generated.cases import answer, cases
from tests.generated.strategies.arrays import GeneratedRows, tables

losses_of = st.sampled_from(["cross_entropy", "logistic", "squared_error"])
strengths = st.sampled_from([1e-4, 1e-2, 1.0])


def targets(rows: GeneratedRows, loss: str) -> Any:
    return rows.numbers if loss == "squared_error" else rows.y


@cases(rows=tables(exponents=(-3, 3), least=9, rows=16), loss=losses_of, l2=strengths, bias=st.booleans())
def test_measures(rows: GeneratedRows, loss: str, l2: float, bias: bool) -> None:
    def measured() -> Any:
        losses = DomainLosses(rows.X, targets(rows, loss), rows.domains, l2=l2, loss=loss, bias=bias)
        point = pareto_point(losses)
        return transfer_measures(losses, point.head, 1.0)

    found = answer(measured)
    if found is not None:
        for matrix in (found.one_sided, found.symmetric, found.realizable, found.minima):
            assert np.isfinite(matrix).all()
        assert (found.symmetric >= found.one_sided).all()
        assert (np.diag(found.one_sided) == 0).all()


@cases(rows=tables(exponents=(-3, 3), least=9, rows=12), loss=losses_of, order=st.integers(1, 2))
def test_report(rows: GeneratedRows, loss: str, order: int) -> None:
    report = answer(
        lambda: transfer_report(
            rows.X,
            targets(rows, loss),
            rows.domains,
            loss=loss,
            order=order,
            target=rows.X[:2],
        )
    )
    if report is not None:
        assert str(report)
        assert len(report.to_frame()) == len(report.names) * (len(report.names) - 1)
        assert np.isfinite(report.pareto.values).all()


@cases(rows=tables(exponents=(-20, 20)), order=st.integers(1, 3))
def test_moments(rows: GeneratedRows, order: int) -> None:
    gaps = answer(lambda: moment_gaps(rows.X, rows.domains))
    if gaps is not None:
        found = moment_distances(order, rows.X, rows.domains)
        assert np.isfinite(found).all()
        assert (found >= 0).all()

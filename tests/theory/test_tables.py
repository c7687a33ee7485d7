"""Numbers and sentences of a transfer report, from invented measures that can be checked by eye."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from momentalign.theory import HullCheck, TargetErrors
from momentalign.theory._distances import rows_by_domain, rows_per_domain
from momentalign.theory._render import report_sections, report_text
from momentalign.theory._report import _notes, _part_begins
from momentalign.theory._tables import (
    bound_rows,
    domain_matrices,
    domain_rows,
    headline,
    pair_columns,
    subtitle,
    target_rows,
)
from momentalign.theory._taylor import TaylorBound

NAMES = ("north", "south", "west")


def matrix(start: float) -> np.ndarray:
    """Different numbers off the diagonal, the largest from west to south."""
    values = start + np.arange(9.0).reshape(3, 3)
    np.fill_diagonal(values, 0.0)
    return values


def make_report(**changes: Any) -> Any:
    bounds = ("mixture_one_sided", "mixture_symmetric", "mixture_realizable")
    bounds += ("midpoint_one_sided", "midpoint_symmetric", "midpoint_realizable")
    distances = {
        r: SimpleNamespace(
            plain=matrix(10 * r), unbiased=matrix(10 * r + 1), unbiased_squares=matrix(10 * r + 2), level=0.9,
            low=matrix(10 * r + 3), high=matrix(10 * r + 4), intervals=(matrix(10 * r + 5), matrix(10 * r + 6)),
        )
        for r in (1, 2)
    }  # fmt: skip
    losses = SimpleNamespace(
        counts=torch.tensor([4, 5, 1]), loss="cross_entropy", l2=0.25, classes=["no", "yes"], names=NAMES,
        features=torch.zeros(10, 7), domains=torch.tensor([0] * 4 + [1] * 5 + [2]),
        targets=torch.tensor([0, 1, 0, 1, 1, 1, 1, 1, 1, 0]),
    )  # fmt: skip
    report = {
        "names": NAMES,
        "losses": losses,
        "values": np.array([0.5, 0.25, 0.125]),
        "pareto": SimpleNamespace(
            gradient_norms=np.array([1.0, 2.0, 3.0]),
            weights=np.array([0.5, 0.375, 0.125]),
            largest_gradient_norm=3.0,
            check=SimpleNamespace(norm=1e-9),
        ),
        "measures": SimpleNamespace(
            one_sided=matrix(0.5), symmetric=matrix(0.25), realizable=matrix(0.75), minima=np.array([0.0625, 0.5, 1.0]),
            exact=False, radius=1.5,
        ),
        "bounds": SimpleNamespace(**{name: float(k) for k, name in enumerate(bounds, 1)}, gap=0.375),
        "distances": distances,
        "taylor": {
            (r, form): TaylorBound(r, form, matrix(100 * r + k), matrix(1000.0))
            for r in (1, 2)
            for k, form in enumerate(("full", "g", "irm"))
        },
        "moments": SimpleNamespace(
            mean=matrix(3.0), covariance=matrix(4.0), average_mean=3.5, average_covariance=4.5
        ),
        "worst_pair": ("west", "south"),
        "order": 2,
        "hull": None,
        "target": None,
        "notes": (),
    }  # fmt: skip
    return SimpleNamespace(**{**report, **changes})


def test_rows_of_the_domains() -> None:
    assert domain_rows(make_report())[1] == ["south", "5", "0.25", "0.5", "2", "0.375"]


def test_bounds_are_under_their_own_names() -> None:
    found = {row.name: row for row in bound_rows(make_report())}
    values = [row.value for row in found.values()]
    assert values[:6] == [1, 2, 3, 4, 5, 6]
    assert found["balanced mixture, one-sided"].remark == "2/3 max T + 0.375 (gap of the optima)"
    # The largest entry off the diagonal of matrix(start) is start + 7; three domains: two thirds of it, and the gap.
    for r in (1, 2):
        start = 100 * r + 7
        assert found[f"Taylor, order {r}"].value == pytest.approx(start * 2 / 3 + 0.375)
        assert found[f"Taylor, order {r}"].remark.endswith(f"{(start + 1007) * 2 / 3 + 0.375:.4g}")
        assert found[f"Taylor, order {r}, midpoint"].value == start / 2
        assert found[f"Taylor, order {r}, g-form"].value == pytest.approx((start + 1) * 2 / 3 + 0.375)
    assert "Taylor, order 1, under IRM" not in found  # nothing is left of the first order
    assert found["Taylor, order 2, under IRM"].value == pytest.approx(209 * 2 / 3)


def test_matrices_are_under_their_own_titles() -> None:
    found = {shown.title: shown for shown in domain_matrices(make_report())}
    starts = {
        "One-sided transfer measure": 0.5,
        "Symmetric transfer measure": 0.25,
        "Realizable transfer measure": 0.75,
        "Distance of gradients": 10,
        "Distance of gradients, unbiased": 11,
        "Distance of Hessians": 20,
        "Distance of Hessians, unbiased": 21,
        "Taylor bound of order 2": 200,
        "Gap of feature means": 3,
        "Gap of covariances": 4,
    }
    assert list(found) == list(starts)
    for title, start in starts.items():
        np.testing.assert_array_equal(found[title].values, matrix(start))
    assert "lower estimates" in found["One-sided transfer measure"].remark
    intervals = found["Distance of Hessians, unbiased"].intervals
    assert intervals is not None
    np.testing.assert_array_equal(intervals[1], matrix(26))


def test_columns_have_a_row_for_each_ordered_pair() -> None:
    columns = pair_columns(make_report())
    row = list(zip(columns["source"], columns["target"], strict=True)).index(("west", "north"))
    assert len(columns["source"]) == 6
    found = {name: values[row] for name, values in columns.items()}
    # Entry (2, 0) of matrix(start) is start + 6.
    assert {name: value - 6 for name, value in found.items() if name not in ("source", "target")} == {
        "one_sided": 0.5,
        "symmetric": 0.25,
        "realizable": 0.75,
        "gradient_distance": 10,
        "gradient_unbiased_square": 12,
        "gradient_square_low": 13,
        "gradient_square_high": 14,
        "hessian_distance": 20,
        "hessian_unbiased_square": 22,
        "hessian_square_low": 23,
        "hessian_square_high": 24,
        "taylor_1": 100,
        "taylor_1_remainder": 1000,
        "taylor_2": 200,
        "taylor_2_remainder": 1000,
        "mean_gap": 3,
        "covariance_gap": 4,
    }


def test_sentences() -> None:
    assert "from 'west' to 'south' (one-sided measure 7.5)" in headline(make_report())
    level = SimpleNamespace(**{**vars(make_report().measures), "one_sided": np.full((3, 3), -1e-15)})
    assert headline(make_report(measures=level)).startswith("No pair of domains differs")
    assert subtitle(make_report()) == (
        "3 domains, 10 rows, 7 features, 2 classes; loss cross_entropy, l2 = 0.25, radius = 1.5."
    )


@pytest.mark.parametrize(("loss", "verdict"), [(2.0, "holds"), (2.5, "fails")])
def test_the_bound_of_a_target_holds_up_to_equality(loss: float, verdict: str) -> None:
    rows = target_rows(TargetErrors(loss, 0.1, 0.2, 0.3, 0.4, np.zeros(3), 1.5, 2.0, False))
    assert [row.value for row in rows] == [loss, 0.2, 0.4, 1.5, 2.0]
    assert verdict in rows[-1].remark
    assert "its best 0.1" in rows[0].remark
    assert "its best 0.3" in rows[1].remark


def test_text_and_page_show_hull_target_and_notes_where_there_are_any() -> None:
    hull = HullCheck(NAMES, np.array([0.625, 0.25, 0.125]), 0.5, 0.25, 0.01, 1.0, 40, True, 0.95)
    target = TargetErrors(2.5, 0.1, 0.2, 0.3, 0.4, np.zeros(3), 1.5, 2.0, False)
    full = make_report(hull=hull, target=target, notes=("Be careful.",))
    for render in (report_text, report_sections):
        bare, whole = render(make_report()), render(full)
        for part in ("Hull check", "The labelled target", "Notes"):
            assert (part in bare, part in whole) == (False, True)
        assert "Be careful." in whole
        assert "95% of samples of 40 rows" in whole
    text = report_text(full)
    assert "Closest mixture: north 0.62, south 0.25, west 0.12." in text.replace("\n", " ")
    assert "largest gradient norm, 3 (" in text.replace("\n", " ")
    assert max(map(len, report_text(full).partition("The domains at")[0].splitlines())) <= 100


def test_notes_name_single_rows_single_classes_and_draws() -> None:
    report = make_report()

    def notes(max_rows: int = 10, **measures: Any) -> str:
        own = SimpleNamespace(**{**vars(report.measures), **measures})
        return " ".join(_notes(report.losses, own, report.taylor, max_rows))

    assert "'west' has one row" in notes()
    assert "'south' has a single class" in notes()
    assert "'north'" not in notes()
    assert "seeded draw" not in notes()
    assert "seeded draw of about 9 rows" in notes(9)
    assert "Taylor" not in notes()
    # Above the bound of the first order for one pair, below that of the second.
    assert "Taylor bound of order 1 lies below" in notes(one_sided=matrix(100.5))
    assert "exact" in notes(exact=True)


def test_parts_of_a_report_add_up_to_all_of_it() -> None:
    begins = _part_begins(3, True, True)
    parts = ("hull check", "Pareto point", "transfer measures", "bounds", "distances of derivatives", "target")
    assert tuple(begins) == parts
    lengths = np.diff([*begins.values(), 1.0])
    np.testing.assert_allclose(lengths * 62, [10, 18, 15, 6, 8, 5])
    assert begins["hull check"] == 0
    without = _part_begins(3, False, False)
    assert (without["Pareto point"], without["target"]) == (0, 1)


def test_rows_are_drawn_in_equal_shares_but_never_too_few() -> None:
    assert [rows_per_domain(n, 3) for n in (1, 150, 153, 299)] == [50, 50, 51, 99]
    domains = torch.tensor([0] * 5 + [1] * 8)
    first, second = rows_by_domain(domains, 2, 5, np.random.default_rng(0))
    assert first.tolist() == [0, 1, 2, 3, 4]
    assert len(set(second.tolist())) == 5
    assert set(second.tolist()) <= set(range(5, 13))
    assert second.tolist() == sorted(second.tolist())

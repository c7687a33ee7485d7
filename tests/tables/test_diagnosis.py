import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from momentalign.tables import plan_diagnosis

pytestmark = pytest.mark.slow

PROGRAM = Path(sys.executable).with_name("momentalign")


def run(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    words = [str(PROGRAM), "diagnose", *map(str, arguments)]
    return subprocess.run(words, capture_output=True, text=True, cwd=folder, env=os.environ | {"COLUMNS": "100"})


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    site = np.repeat(["Basel", "<script>alert(1)</script>", "Zurich", "Bern"], 40)
    frame = pd.DataFrame(rng.normal(size=(160, 3)), columns=["a", "b", "c"])
    frame["kind"] = rng.choice(["x", "y"], 160)
    frame.loc[3, "a"] = np.nan
    frame["label"] = np.where(frame["b"] + rng.normal(size=160) > 0, "yes", "no")
    frame["site"] = site
    frame["dose"] = frame["b"] + rng.normal(size=160)
    path = tmp_path / "table.csv"
    frame.to_csv(path, index=False)
    return path


def test_report_and_page(table: Path, tmp_path: Path) -> None:
    done = run(table, "--target", "label", "--domain", "site", "-o", "deep/page.html", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    for part in (
        "160 rows, 5 columns, 'label' taken as 2 classes.",
        "Zurich (40)",
        "a (1)",
        "A plain logistic regression",
        "What to try:",
        "deep/page.html",
    ):
        assert part in done.stdout
    page = tmp_path / "deep" / "page.html"
    assert done.stdout.index("A plain logistic") < done.stdout.index("What to try:")
    assert "Worst pair" in page.read_text()
    assert "&lt;script&gt;alert(1)" in page.read_text()
    assert "<script>alert(1)" not in page.read_text()
    assert [path.name for path in page.parent.iterdir()] == ["page.html"]


def test_a_held_out_domain_is_the_target(table: Path, tmp_path: Path) -> None:
    options = ("--target", "label", "--domain", "site", "--order", 1, "--test-domain")
    done = run(table, *options, "Bern", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "'Bern' is the target" in done.stdout
    page = (tmp_path / "transfer.html").read_text()
    assert "3 domains, 120 rows" in page
    assert "Closest mixture" in page
    assert "Closest mixture" in done.stdout
    refused = run(table, *options, "Genf", folder=tmp_path)
    assert refused.returncode == 2
    assert "'--test-domain' should be one of" in refused.stderr


def test_real_numbers_and_dry_run(table: Path, tmp_path: Path) -> None:
    done = run(table, "--target", "dose", "--domain", "site", "--dry-run", folder=tmp_path)
    assert done.returncode == 0
    assert "'dose' taken as real numbers" in done.stdout
    assert not (tmp_path / "transfer.html").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--target", "lable", "--domain", "site"], "Did you mean 'label'?"),
        (["--target", "label", "--domain", "site", "--loss", "hinge"], "'--loss' should be one of"),
        (["--target", "label", "--domain", "site", "--radius", "0"], "radius"),
        (["--target", "label", "--domain", "site", "--components", "0"], "'--components' should be at least 1"),
        (["--target", "label", "--domain", "site", "--out", "."], "'--out' should name a file"),
        (["--target", "label", "--domain", "site", "--seed", "-1"], "'--seed' should be at least 0, but is -1."),
        (
            ["--target", "label", "--domain", "kind", "--test-domain", "x"],
            "There should be at least two domains to compare besides 'x', but there is 1. Add rows of other domains",
        ),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(
    arguments: list[str], message: str, table: Path, tmp_path: Path
) -> None:
    done = run(table, *arguments, folder=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["table.csv"]


def test_a_small_table_is_compared_in_one_thread(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[int] = []

    def stop(*_: object, **__: object) -> None:
        threads.extend(pool["num_threads"] for pool in threadpool_info())
        raise InterruptedError

    monkeypatch.setattr("momentalign.tables._diagnosis.transfer_report", stop)
    plan = plan_diagnosis(table, target="label", domain="site")
    with threadpool_limits(2), pytest.raises(InterruptedError):
        plan.run(l2=0.01, radius=1.0, order=2, seed=0)
    assert set(threads) == {1}


def test_training_rows_are_compared_and_groups_are_no_features(table: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(table).assign(part=["train", "test"] * 80, team=[0, 1, 2, 3] * 40)
    frame.to_csv(tmp_path / "parts.csv", index=False)
    options = ("--target", "label", "--domain", "site", "--split", "part", "--group", "team", "--order", 1)
    done = run(tmp_path / "parts.csv", *options, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "160 rows, 5 columns" in done.stdout
    assert "80 rows of the training split are compared" in done.stdout
    assert "4 domains, 80 rows" in (tmp_path / "transfer.html").read_text()
    frame.assign(part="test").to_csv(tmp_path / "none.csv", index=False)
    refused = run(tmp_path / "none.csv", *options, folder=tmp_path)
    assert refused.returncode == 2
    assert "should have training rows" in refused.stderr


def test_columns_are_measured_by_the_sources(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=60), "kind": ["x", "y", "z"] * 20, "y": [0, 1] * 30})
    frame["id"] = [f"row {number}" for number in range(60)]
    frame["domain"] = np.repeat(["one", "two", "far"], 20)
    frame.loc[frame["domain"] == "far", "a"] += 100
    frame.to_csv(tmp_path / "t.csv", index=False)
    found = plan_diagnosis(tmp_path / "t.csv", test_domain="far")
    said = " ".join(found.lines)
    assert "a different value in most rows were dropped: id" in said
    assert "0/1 column a category: kind" in said
    report = found.run(l2=0.1, radius=1.0, order=1, seed=0)
    moved = tmp_path / "moved.csv"
    frame.loc[frame["domain"] == "far", "a"] += 1000
    frame.to_csv(moved, index=False)
    further = plan_diagnosis(moved, test_domain="far").run(l2=0.1, radius=1.0, order=1, seed=0)
    # What the target is changes no source.
    np.testing.assert_array_equal(further.transfer.measures.one_sided, report.transfer.measures.one_sided)


def test_a_domain_without_a_name_is_compared(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    site = np.repeat(["", "north", "south"], 20)
    np.savez(tmp_path / "t.npz", X=rng.normal(size=(60, 2)), y=np.arange(60) % 2, domain=site)
    run_options = {"l2": 0.1, "radius": 1.0, "order": 1, "seed": 0}
    assert plan_diagnosis(tmp_path / "t.npz").run(**run_options).transfer.names == ("", "north", "south")


def test_wide_features_are_reduced(tmp_path: Path) -> None:
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(30, 8))).rename(columns=str)
    frame.assign(y=[0, 1] * 15, domain=["a", "a", "b"] * 10).to_csv(tmp_path / "t.csv", index=False)
    lines = plan_diagnosis(tmp_path / "t.csv", components=3).lines
    assert any("8 columns were reduced to 3 principal components" in line for line in lines)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a"] * 60, "Column 'label' should hold at least two classes, but all rows are of 'a'"),
        ([f"text {k}" for k in range(60)], "Column 'label' should hold classes, but has 60 different texts in 60 rows"),
    ],
)
def test_targets_that_are_no_classes(labels: list[str], message: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": np.arange(60.0), "label": labels, "domain": ["s", "t", "u"] * 20})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match=message):
        plan_diagnosis(tmp_path / "t.csv", target="label")


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["a", "b"] * 30, "The target of a regression should hold numbers, but 'label' holds 'a'."),
        ([1.0, np.inf] * 30, "The target of a regression should be finite, but 'label' has infinite values."),
    ],
)
def test_targets_that_are_no_numbers(labels: list[object], message: str, tmp_path: Path) -> None:
    frame = pd.DataFrame({"x": np.arange(60.0), "label": labels, "domain": ["s", "t", "u"] * 20})
    frame.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(ValueError, match=message):
        plan_diagnosis(tmp_path / "t.csv", target="label", loss="squared_error")

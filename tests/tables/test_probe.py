import csv
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import roc_auc_score

from momentalign.tables import TableModel, plan_probe, write_probe
from momentalign.tables._held_out import score_predictions

pytestmark = pytest.mark.slow


def table(number: int = 4, rows: int = 40, seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(rng.normal(size=(number * rows, 3)), columns=["a", "b", "c"])
    frame["kind"] = rng.choice(["u", "v"], len(frame))
    frame["site"] = np.repeat(["Basel", "Bern", "Genf", "Zurich"][:number], rows)
    frame["label"] = np.where(frame["a"] + rng.normal(size=len(frame)) > 0, "yes", "no")
    frame["dose"] = 2 * frame["a"] + (frame["kind"] == "u") + 0.1 * rng.normal(size=len(frame))
    return frame


def written(frame: pd.DataFrame, tmp_path: Path) -> Path:
    frame.to_csv(tmp_path / "t.csv", index=False)
    return tmp_path / "t.csv"


def test_a_held_out_domain_is_scored_by_fits_on_the_others(tmp_path: Path) -> None:
    frame = table()
    frame.loc[frame["site"] == "Zurich", "kind"] = "w"
    probe = plan_probe(
        written(frame.drop(columns="dose"), tmp_path), target="label", domain="site", test_domain="Zurich"
    )
    shares: list[float] = []
    result = probe.run(lambda part, share: shares.append(share))
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert len(shares) == 7  # L2, then weights, on three domains; and the end
    assert result.scores.rows == (("domain", "Zurich", 40),)
    train, test = frame[frame["site"] != "Zurich"], frame[frame["site"] == "Zurich"]
    numbers = train[["a", "b", "c"]].assign(u=train["kind"] == "u", v=train["kind"] == "v").astype(float)
    mean, scale = numbers.mean(), numbers.std(ddof=0)
    theirs = LogisticRegression(max_iter=1000).fit((numbers - mean) / scale, train["label"])
    unseen = test[["a", "b", "c"]].assign(u=0.0, v=0.0)
    assert result.scores.values[0, 0, 0] == theirs.score((unseen - mean) / scale, test["label"])
    assert result.notes == ("Categories of test rows that no training row has were ignored: kind (40).",)
    logits, _ = result.model.logits(test)
    answers = np.array(["no", "yes"])[result.model.probabilities(logits).argmax(1)]
    assert result.scores.values[0, 1, 0] == (answers == test["label"]).mean()
    assert probe.seconds() > 0


def test_without_a_test_domain_each_is_left_out_and_all_rows_are_kept(tmp_path: Path) -> None:
    probe = plan_probe(written(table().drop(columns="dose"), tmp_path), target="label", domain="site")
    assert len(probe.folds) == 4
    result = probe.run()
    kinds = [kind for kind, _, _ in result.scores.rows]
    assert kinds == ["domain"] * 4 + ["mean", "worst"]
    each = result.scores.values[:4]
    np.testing.assert_allclose(result.scores.values[4], each.mean(0))
    np.testing.assert_allclose(result.scores.values[5], each.min(0))
    assert "each domain is left out in turn, then 160 rows of all are fitted." in " ".join(probe.lines)


def test_two_domains_hold_a_fifth_of_each_out(tmp_path: Path) -> None:
    probe = plan_probe(written(table(2).drop(columns="dose"), tmp_path), target="label", domain="site")
    (fold,) = probe.folds
    assert len(fold.test) == 16
    assert not set(fold.test) & set(fold.train)
    assert probe.table.domains[fold.test].tolist().count("Bern") == 8


def test_regression_against_ridge(tmp_path: Path) -> None:
    frame = table().drop(columns="label")
    probe = plan_probe(written(frame, tmp_path), target="dose", domain="site", test_domain="Bern")
    assert probe.classes is None
    result = probe.run()
    assert result.scores.metrics == ("r2", "rmse")
    train, test = frame[frame["site"] != "Bern"], frame[frame["site"] == "Bern"]
    numbers = frame[["a", "b", "c"]].assign(u=frame["kind"] == "u", v=frame["kind"] == "v").astype(float)
    known = numbers.loc[train.index]
    ridge = Ridge().fit((known - known.mean()) / known.std(ddof=0), train["dose"])
    inputs = (numbers.loc[test.index] - known.mean()) / known.std(ddof=0)
    assert result.scores.values[0, 0, 0] == pytest.approx(ridge.score(inputs, test["dose"]))
    assert result.scores.values[0, 1, 0] > 0.9
    write_probe(result, tmp_path / "out")
    loaded = TableModel.load(tmp_path / "out")
    assert loaded.classes is None
    np.testing.assert_allclose(loaded.logits(test)[0], result.model.logits(test)[0])
    lines = (tmp_path / "out" / "scores.csv").read_text().splitlines()
    assert lines[0] == "kind,name,rows,model,metric,value"
    assert len(lines) == 5


def test_groups_decide_by_their_worst(tmp_path: Path) -> None:
    frame = table(2, 80).drop(columns="dose")
    frame["split"] = np.tile(["train", "train", "val", "test"], 40)
    frame["group"] = frame["label"] + frame["site"]
    probe = plan_probe(written(frame, tmp_path), target="label", domain="site")
    said = " ".join(probe.lines)
    assert "as many rows of every group" in said
    assert "Splits: test 40, train 80, val 40; fitted on 'train' only." in said
    result = probe.run()
    assert result.chosen == {"method": "subsampled"}
    assert [kind for kind, _, _ in result.scores.rows] == ["domain", "domain", "mean", "worst"]
    assert list(result.scores.groups) == ["logistic regression", "chosen model"]
    train, test = frame[frame["split"] == "train"], frame[frame["split"] == "test"]
    report = result.scores.groups["chosen model"]
    assert {group.name: group.rows for group in report.groups} == dict(test["group"].value_counts())
    shares = {group.name: group.training_share for group in report.groups}
    assert shares == pytest.approx(dict(train["group"].value_counts() / len(train)))
    predicted = np.where(result.model.logits(test)[0][:, 0] > 0, "yes", "no")
    assert report.average == (predicted == test["label"]).mean()
    assert report.auroc == pytest.approx(roc_auc_score(test["label"] == "yes", result.model.logits(test)[0][:, 0]))
    lines = list(csv.DictReader(io.StringIO(result.scores.to_csv())))
    worst = [line for line in lines if line["metric"] == "worst_group_accuracy"]
    assert [float(line["value"]) for line in worst] == [r.worst_group.accuracy for r in result.scores.groups.values()]
    assert {line["name"] for line in lines if line["kind"] == "group"} == set(test["group"])


def test_groups_that_differ_by_blanks_only_are_named_before_the_fit(tmp_path: Path) -> None:
    frame = table(2, 80).drop(columns="dose")
    frame["class and site"] = frame["label"] + " " + frame["site"]
    frame.loc[0, "class and site"] += " "
    with pytest.raises(ValueError, match="'class and site' should be spelled alike"):
        plan_probe(written(frame, tmp_path), target="label", domain="site", group="class and site")


def test_scores_of_targets_that_do_not_vary() -> None:
    scores = score_predictions(
        np.array([1.0, 1.0, 1.0, 3.0]), {"m": np.ones(4)}, np.array(["a", "a", "b", "b"]), {}, classify=False
    )
    assert np.isnan(scores.values[0, 0, 0])
    np.testing.assert_allclose(scores.values[2, 0], [-1.0, 2**0.5 / 2])
    np.testing.assert_allclose(scores.values[3, 0], [-1.0, 2**0.5])


def test_a_class_that_training_rows_lack_counts_as_wrong(tmp_path: Path) -> None:
    frame = table().drop(columns="dose")
    frame.loc[frame["site"] == "Genf", "label"] = "maybe"
    result = plan_probe(written(frame, tmp_path), target="label", domain="site", test_domain="Genf").run()
    assert result.model.classes == ("no", "yes")
    np.testing.assert_array_equal(result.scores.values, 0)


def test_wide_features_are_reduced_on_request(tmp_path: Path) -> None:
    path = written(table().drop(columns="dose"), tmp_path)
    probe = plan_probe(path, target="label", domain="site", test_domain="Bern", components=2)
    assert "5 columns were reduced to 2 principal components" in " ".join(probe.lines)
    assert probe.run().model.coef.shape == (1, 2)

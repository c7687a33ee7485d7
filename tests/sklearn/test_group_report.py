import json

import numpy as np
import pytest
from sklearn.metrics import balanced_accuracy_score, f1_score, recall_score, roc_auc_score

from momentalign.sklearn import group_report

CLASSES = np.array(["dry", "wet", "very wet"])


def make_rows(classes: int = 3, rows: int = 400, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    targets, attributes = random.integers(0, classes, rows), random.choice(["a b", "c"], rows, p=[0.8, 0.2])
    logits = random.normal(size=(rows, classes)) + 1.5 * np.eye(classes)[targets] * (attributes == "c")[:, None]
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = np.sort(CLASSES[:classes])
    return {
        "y_true": labels[targets],
        "y_pred": labels[probabilities.argmax(1)],
        "groups": attributes,
        "probabilities": probabilities,
    }


def test_measures_equal_those_of_scikit_learn():
    rows = make_rows()
    y, predicted, groups = rows["y_true"], rows["y_pred"], rows["groups"]
    report = group_report(**rows, train_groups=["c"] * 3 + ["a b"])
    accuracy = {name: (y == predicted)[groups == name].mean() for name in ("a b", "c")}
    f1 = {name: f1_score(y[groups == name], predicted[groups == name], average="macro") for name in ("a b", "c")}
    assert report.worst_group.name == "a b"
    assert report.worst_group.accuracy == accuracy["a b"]
    assert report.worst_group.low < accuracy["a b"] < report.worst_group.high
    assert report.average == (y == predicted).mean()
    assert report.weighted_average == pytest.approx(0.25 * accuracy["a b"] + 0.75 * accuracy["c"])
    assert report.balanced_accuracy == pytest.approx(balanced_accuracy_score(y, predicted))
    assert report.worst_class_accuracy == recall_score(y, predicted, average=None).min()
    assert report.worst_group_f1 == pytest.approx(min(f1.values()))
    assert report.auroc == pytest.approx(roc_auc_score(y, rows["probabilities"], multi_class="ovr"))
    assert [(group.name, group.rows, group.training_share) for group in report.groups] == [
        ("a b", (groups == "a b").sum(), 0.25),
        ("c", (groups == "c").sum(), 0.75),
    ]
    assert [group.f1 for group in report.groups] == pytest.approx(list(f1.values()))
    assert report.notes == ()


def test_calibration_error_equals_a_loop_over_bins():
    rows = make_rows()
    confidences, hits = rows["probabilities"].max(1), rows["y_true"] == rows["y_pred"]
    expected = 0.0
    for number in range(10):
        inside = (confidences > number / 10) & (confidences <= (number + 1) / 10)
        if inside.any():
            expected += inside.mean() * abs(hits[inside].mean() - confidences[inside].mean())
    assert group_report(**rows, bins=10).calibration_error == pytest.approx(expected)


def test_two_classes_take_the_probability_of_the_second():
    rows = make_rows(classes=2)
    both = group_report(**rows)
    second = group_report(**{**rows, "probabilities": rows["probabilities"][:, 1]})
    assert both == second
    assert both.auroc == pytest.approx(roc_auc_score(rows["y_true"], rows["probabilities"][:, 1]))


def test_columns_follow_the_given_classes():
    rows = make_rows()
    order = ["wet", "dry", "very wet"]
    columns = [sorted(CLASSES).index(name) for name in order]
    shuffled = group_report(**{**rows, "probabilities": rows["probabilities"][:, columns]}, classes=order)
    assert shuffled.metrics() == pytest.approx(group_report(**rows).metrics())


def test_f1_of_groups_of_one_class_follows_from_accuracy():
    rows = make_rows(classes=2)
    pairs = [f"{label}, {attribute}" for label, attribute in zip(rows["y_true"], rows["groups"], strict=True)]
    report = group_report(rows["y_true"], rows["y_pred"], pairs)
    for group in report.groups:
        assert group.f1 == pytest.approx(2 * group.accuracy / (1 + group.accuracy))


def test_classes_without_labels_do_not_count():
    report = group_report([0, 1, 1], [2, 1, 1], ["a", "a", "b"], probabilities=np.full((3, 3), 1 / 3))
    assert report.balanced_accuracy == report.auroc == report.groups[0].f1 == 0.5
    one = group_report([1, 1, 1], [1, 0, 1], ["a", "a", "b"], probabilities=[0.9, 0.2, 0.7])
    assert one.auroc is None
    assert "auroc" not in one.metrics()
    assert "all rows are of class 1" in one.notes[-1]


def test_training_rows_are_given_as_labels_or_counts():
    column = group_report([0, 1], [0, 0], ["a", "b"], train_groups=["a", "b", "b", "b"])
    assert column == group_report([0, 1], [0, 0], ["a", "b"], train_groups={"a": 1, "b": 3})
    assert column.weighted_average == 0.25
    other = group_report([0, 1], [0, 0], ["a", "b"], train_groups={"a": 3, "old one": 1})
    assert other.weighted_average == 1.0
    assert other.groups[0].training_share == 0.75
    assert "'old one'" in other.notes[0]
    assert "'b'" in other.notes[1]


def test_report_is_printed_on_a_screen_and_becomes_json_and_a_frame():
    report = group_report(**make_rows(), train_groups={"a b": 90, "c": 10})
    text = str(report)
    for name in ("95% interval", "weighted average", "balanced accuracy", "worst-group F1", "AUROC", "15 bins"):
        assert name in text
    assert len(text.splitlines()) < 24
    assert max(map(len, text.splitlines())) < 80
    assert json.loads(json.dumps(report.as_dict()))["worst_group"]["accuracy"] == report.worst_group.accuracy
    assert report.to_frame().loc["a b", "accuracy"] == report.worst_group.accuracy


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"y_true": []}, "'y_true' should have a label for each row, but has shape"),
        ({"y_pred": list("nnyy")}, "Mix of label input types"),
        ({"y_pred": [0]}, r"'y_pred' should have one entry per row of 'y_true' \(4\), but has shape \(1,\)"),
        ({"groups": ["a"]}, "'groups' should have one entry per row of 'y_true'"),
        ({"groups": ["a", None, "b", "b"]}, "'groups' should hold a label for every row, but 1 are missing, first in"),
        ({"groups": ["a", float("nan"), "b", "b"]}, "'groups' should hold a label for every row, but 1 are missing"),
        ({"groups": ["a", "", "b", "b"]}, "'groups' should hold a label for every row, but some are ''"),
        ({"groups": ["a b", "a  b", "b", "b"]}, "differ by blanks only"),
        ({"train_groups": ["A", "B"]}, "'A' and 'B' has none of 'a' and 'b'. Use the same names for both"),
        ({"probabilities": [[0.5, 0.5]]}, r"\(4, 2\), but has shape \(1, 2\). Pass the estimator's classes_"),
        ({"probabilities": [3.0, -1.0, 0.2, 0.1]}, "should lie between 0 and 1, but some do not. Pass predict_proba's"),
        ({"classes": [0, 2]}, "'classes' should list each of .* once"),
        ({"bins": 0}, "'bins' should be at least 1"),
        ({"confidence": 95}, "'confidence' should lie between 0 and 1, but is 95"),
    ],
)
def test_bad_input_is_named(change, message):
    rows = {"y_true": [0, 1, 0, 1], "y_pred": [0, 1, 1, 1], "groups": ["a", "a", "b", "b"]}
    with pytest.raises(ValueError, match=message):
        group_report(**{**rows, **change})

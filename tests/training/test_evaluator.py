"""Which rows a record counts."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from momentalign.data import DomainDataset
from momentalign.encoders import TensorPreprocessing
from momentalign.runs import Record, read_records, read_run
from momentalign.training import run
from momentalign.training._accuracy_records import accuracy_records
from momentalign.training._data import DatasetRows, open_rows
from momentalign.training._evaluator import predict_rows
from tests.training.problems import TIMES, grouped, images, small_config, three_domains


def keyed(folder: Path) -> dict[tuple[object, ...], float | None]:
    def key(record: Record) -> tuple[object, ...]:
        return record["step"], record["domain"], record["split"], record["metric"], record.get("group")

    return {key(record): record["value"] for record in read_records(folder) if record["metric"] not in TIMES}


@pytest.mark.parametrize("average", ["none", "sma"])
def test_without_rows_that_are_trained_on_all_else_is_the_same(average: str, tmp_path: Path) -> None:
    data = three_domains()
    config = small_config(data, average=average)
    for way in (True, False):
        run(config, tmp_path / str(way), data=data, accelerator="cpu", train_accuracy=way)
    full, short = keyed(tmp_path / "True"), keyed(tmp_path / "False")
    dropped = {(key[1], key[2]) for key in full.keys() - short.keys()}
    assert dropped == {("a", "in"), ("b", "in")}
    assert {key: full[key] for key in short} == pytest.approx(short, abs=1e-6, nan_ok=True)


def test_a_domain_without_held_out_rows_is_evaluated_on_those_it_has(tmp_path: Path) -> None:
    data = three_domains()
    domains = {
        name: ({**splits, "out": splits["out"].rows(torch.arange(0))} if name == "a" else splits)
        for name, splits in data.domains.items()
    }
    data = DomainDataset("three", 2, domains, data.classes)
    run(small_config(data), tmp_path / "run", data=data, accelerator="cpu", train_accuracy=False)
    assert {key[1:3] for key in keyed(tmp_path / "run") if key[3] == "accuracy"} == {
        ("a", "in"),
        ("b", "out"),
        ("c", "in"),
        ("c", "out"),
    }


def test_groups_are_counted_where_all_rows_of_a_split_are(tmp_path: Path) -> None:
    data = grouped()
    run(small_config(data), tmp_path / "run", data=data, accelerator="cpu", train_accuracy=False)
    assert {key[2] for key in keyed(tmp_path / "run") if key[3] == "worst_group_accuracy"} == {"val", "test"}


def test_records_have_the_measures_over_groups(tmp_path: Path) -> None:
    data = grouped()
    run(small_config(data), tmp_path / "run", data=data, accelerator="cpu")
    rows = read_run(tmp_path / "run")["group_rows"]
    assert list(rows) == ["train", "val", "test"]
    assert {split: sum(counts.values()) for split, counts in rows.items()} == {"train": 40, "val": 40, "test": 40}
    found = {key[2:]: value for key, value in keyed(tmp_path / "run").items() if key[0] == 19 and key[1] is None}
    for split in rows:
        groups = {name: found[split, "group_accuracy", name] for name in rows[split]}
        weighted = sum(value * rows["train"][name] / 40 for name, value in groups.items())  # type: ignore[operator]
        assert found[split, "weighted_accuracy", None] == pytest.approx(weighted)
        plain = sum(value * rows[split][name] / 40 for name, value in groups.items())  # type: ignore[operator]
        assert found[split, "accuracy", None] == pytest.approx(plain)
        for name in ("balanced_accuracy", "worst_group_f1", "auroc", "calibration_error"):
            assert 0 <= found[split, name, None] <= 1  # type: ignore[operator]


@pytest.mark.parametrize("wrong", range(4))
def test_any_group_can_be_the_worst(wrong: int) -> None:
    data = grouped()
    rows = open_rows(data, TensorPreprocessing(tuple(images(1, 0.0, 0).tensor.shape[1:])), torch.device("cpu"))
    assert rows.groups is not None
    targets = rows.targets.numpy()
    predicted = np.where(rows.groups.numpy() == wrong, 1 - targets, targets)
    records = accuracy_records(data, rows, predicted, 0)
    worst = {record["split"]: record["value"] for record in records if record["metric"] == "worst_group_accuracy"}
    assert worst == {"train": 0.0, "val": 0.0, "test": 0.0}
    groups = {record["group"]: record["value"] for record in records if record["metric"] == "group_accuracy"}
    assert [groups[name] for name in ("ll", "lw", "wl", "ww")] == [float(group != wrong) for group in range(4)]


def test_undefined_measures_have_no_record() -> None:
    data = grouped()
    rows = open_rows(data, TensorPreprocessing(tuple(images(1, 0.0, 0).tensor.shape[1:])), torch.device("cpu"))
    predicted = np.zeros(len(rows), dtype=np.int64)
    for probabilities in (None, np.full((len(rows), 2), np.nan)):
        records = accuracy_records(data, rows, predicted, 0, probabilities=probabilities)
        metrics = {record["metric"] for record in records}
        assert {"accuracy", "weighted_accuracy", "worst_group_f1"} <= metrics
        assert not {"auroc", "calibration_error"} & metrics


class Doubling(nn.Module):
    """Returns its inputs as features, and their doubles as logits."""

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        return inputs, 2 * inputs


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_ranks_share_the_batches_of_the_spans(ranks: int) -> None:
    rows = DatasetRows(torch.randn(23, 3), torch.zeros(23, dtype=torch.long), None, {})
    found = [
        indices
        for rank in range(ranks)
        for indices, _, _ in predict_rows(
            Doubling(), rows, TensorPreprocessing((3,)), batch_size=4, rank=rank, ranks=ranks, spans=[(2, 9), (15, 23)]
        )
    ]
    assert torch.cat(found).sort().values.tolist() == [*range(2, 9), *range(15, 23)]

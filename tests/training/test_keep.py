"""Which record's weights are saved: chosen by a rule, part of the checkpoint, averaged where the run averages."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from momentalign.runs import Record, read_records, read_run
from momentalign.selection import best_record, record_scores
from momentalign.training import evaluate, run
from momentalign.training._keep import KeptRecord
from tests.training.problems import assert_same_weights, cut_at, small_config, three_domains

HELD_OUT = [("a", "out"), ("b", "out")]


def records_of(step: int, a: float, b: float, loss: float = 1.0, prefix: str = "") -> list[Record]:
    rows: list[Record] = [
        {"step": step, "domain": domain, "split": "out", "metric": f"{prefix}accuracy", "value": value}
        for domain, value in (("a", a), ("b", b))
    ]
    return [*rows, {"step": step, "domain": None, "split": None, "metric": "loss", "value": loss}]


def keep_of(rule: str, *rows: tuple[float, float, float]) -> KeptRecord:
    kept = KeptRecord(rule, HELD_OUT, [1000, 1000], 1000)
    for number, (a, b, loss) in enumerate(rows):
        kept.record(100 * number, records_of(100 * number, a, b, loss), {"w": torch.tensor(float(number))})
    return kept


COLOUR, SHAPE = (0.9, 0.8, 1.0), (0.73, 0.72, 1.0)


def test_the_rules_choose_different_records() -> None:
    assert keep_of("training-domain", COLOUR, COLOUR, SHAPE).step == 0  # the first on ties
    kept = keep_of("extrapolated", COLOUR, COLOUR, SHAPE)
    assert kept.step == 200
    assert kept.weights["w"] == 2
    assert kept.describe() == {"step": 200, "keep": "extrapolated", "score": pytest.approx(0.72), "reach": 2.0}


def test_what_cannot_be_chosen_is_not() -> None:
    assert keep_of("extrapolated", SHAPE).step is None  # step 0
    assert keep_of("training-domain", (*COLOUR[:2], math.nan), COLOUR).step is None  # diverged, for good
    kept = keep_of("training-domain")
    kept.record(0, records_of(0, *COLOUR, prefix="averaged_"), {})
    assert kept.describe() == {"step": None, "keep": "training-domain", "score": None}


@pytest.mark.parametrize("prefix", ["", "averaged_"])
def test_by_the_worst_group_of_the_validation_rows(prefix: str) -> None:
    kept = KeptRecord("worst-group", HELD_OUT, [1000, 1000], 1000, f"{prefix}accuracy")
    for number, worst in enumerate((0.2, 0.5, 0.5, None, 0.4)):
        row = {
            "step": number,
            "domain": None,
            "split": "val",
            "metric": f"{prefix}worst_group_accuracy",
            "value": worst,
        }
        other = {**row, "split": "test", "value": 0.9}
        kept.record(number, [*records_of(number, *COLOUR), row, other], {"w": torch.tensor(float(number))})
    assert kept.describe() == {"step": 1, "keep": "worst-group", "score": 0.5}
    assert kept.weights["w"] == 1


def test_the_worst_group_needs_groups(tmp_path: Path) -> None:
    data = three_domains()
    with pytest.raises(
        ValueError, match="'--keep worst-group' needs groups and a validation split, but three has none"
    ):
        run(small_config(data, keep="worst-group"), tmp_path, data=data, accelerator="cpu")


def test_weights_are_copies() -> None:
    kept, tensor = keep_of("training-domain"), torch.zeros(2)
    kept.record(0, records_of(0, *COLOUR), {"w": tensor})
    tensor += 1
    assert kept.weights["w"].tolist() == [0, 0]


def test_the_state_comes_back() -> None:
    tensors, values = keep_of("extrapolated", COLOUR, SHAPE).state()
    same = KeptRecord("extrapolated", HELD_OUT, [1000, 1000], 1000)
    same.load(tensors, values)
    assert (same.step, same.weights["w"]) == (100, 1)


def best_step(folder: Path, rule: str, prefix: str = "") -> int:
    """The rule over the whole history of a run, which held 12 rows of each domain out."""
    history = read_records(folder)
    steps = sorted({r["step"] for r in history if r["metric"] == f"{prefix}accuracy"})
    found = {(r["step"], r["domain"], r["split"], r["metric"]): r["value"] for r in history}
    table = np.array(
        [[found[step, domain, "out", f"{prefix}accuracy"] for domain in "ab"] for step in steps], dtype=float
    )
    best = best_record(record_scores(rule, table, np.array([12, 12]), np.array(steps), total_steps=20))
    assert best is not None
    return steps[best]


@pytest.mark.slow
@pytest.mark.parametrize("average", ["none", "sma"])
@pytest.mark.parametrize("rule", ["training-domain", "extrapolated"])
def test_a_run_saves_the_weights_of_the_best_record(rule: str, average: str, tmp_path: Path) -> None:
    data = three_domains()
    config = small_config(data, average=average, keep=rule, record_every=2, hparams={"lr": 3e-3})
    run(config, tmp_path / "run", data=data)
    prefix = "averaged_" if average != "none" else ""
    saved = read_run(tmp_path / "run")["weights"]
    assert saved["step"] == best_step(tmp_path / "run", rule, prefix)
    assert (saved["keep"], saved["average"]) == (rule, average)
    recorded = {
        (r["domain"], r["split"]): r["value"]
        for r in read_records(tmp_path / "run")
        if r["step"] == saved["step"] and r["metric"] == f"{prefix}accuracy"
    }
    scores = {(s.domain, s.split): s.value for s in evaluate(tmp_path / "run", data) if s.split and s.domain}
    assert scores == recorded
    # Killed and resumed, the same weights are kept.
    with cut_at(13, KeyboardInterrupt()):
        run(config, tmp_path / "cut", data=data, checkpoint_every=1)
    run(config, tmp_path / "cut", data=data)
    assert_same_weights(tmp_path / "cut", tmp_path / "run")
    assert read_run(tmp_path / "cut")["weights"] == saved


@pytest.mark.slow
def test_another_rule_is_another_run(tmp_path: Path) -> None:
    data = three_domains()
    config = small_config(data, steps=1)
    assert config.hash() == dataclasses.replace(config, keep="last", reach=2.0).hash()
    run(config, tmp_path / "run", data=data)
    with pytest.raises(ValueError, match=r"another configuration: keep was .* and is 'training-domain'"):
        run(dataclasses.replace(config, keep="training-domain"), tmp_path / "run", data=data)
    for bad in ({"keep": "best"}, {"keep": "extrapolated", "reach": -1.0}):
        with pytest.raises(ValueError, match=next(reversed(bad))):
            small_config(data, **bad)


@pytest.mark.slow
def test_where_no_record_can_be_chosen_the_last_is_saved(tmp_path: Path) -> None:
    data = three_domains()
    run(small_config(data, steps=1, keep="extrapolated"), tmp_path / "run", data=data)
    assert read_run(tmp_path / "run")["weights"] == {"average": "none", "step": 0, "keep": "last"}

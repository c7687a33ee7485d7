"""Averaged weights, recorded beside the raw ones, are selected as an algorithm of their own."""

import pytest

from momentalign.selection import RULES, read_runs, select, set_aside, with_averages
from tests.runs.fake_sweep import make_config, record, write_fake_sweep, write_run

DOMAINS = ("a", "b")


def run(folder, name, raw, averaged=None, losses=(), average="sma", **changes):
    """A run that tests b; accuracies at steps 100, 200, ... by step, the same on all domains and splits."""
    lines = []
    for metric, values in (("accuracy", raw), ("averaged_accuracy", averaged or ())):
        for index, value in enumerate(values, start=1):
            lines += [
                record(100 * index, metric, value, domain, split) for domain in DOMAINS for split in ("in", "out")
            ]
    lines += [record(100 * index, "loss", value) for index, value in enumerate(losses, start=1)]
    config = make_config(dataset="toy", algorithm="cma", test_domains=["b"], average=average, **changes)
    write_run(folder, config, sorted(lines, key=lambda line: line["step"]), name=name, domains=DOMAINS)


@pytest.mark.parametrize("rule", ["training-domain", "extrapolated", "oracle"])
def test_raw_and_averaged_weights_are_chosen_apart(tmp_path, rule):
    run(tmp_path, "x", (0.5, 0.6), (0.55, 0.8))
    run(tmp_path, "y", (0.7, 0.5), (0.6, 0.7), hparams_seed=1)
    found = {row.algorithm: (row.run, row.test) for row in select(read_runs(tmp_path), rule).itertuples()}
    assert found == {"cma": ("x", 0.6) if rule == "oracle" else ("y", 0.7), "cma+sma": ("x+sma", 0.8)}


def test_runs_without_averages_are_left_alone(tmp_path):
    write_fake_sweep(tmp_path, algorithms=("erm",))
    sweep = read_runs(tmp_path)
    assert with_averages(sweep) is sweep


def test_the_split_sweep_keeps_order_and_is_split_once(tmp_path):
    run(tmp_path, "x", (0.5,), (0.6,))
    run(tmp_path, "y", (0.5,), average="none", hparams_seed=1)
    run(tmp_path, "z", (0.5,), (0.6,), average="ema", hparams_seed=2)
    sweep = read_runs(tmp_path)
    split = with_averages(sweep)
    assert list(split.runs.index) == ["x", "x+sma", "y", "z", "z+ema"]
    assert list(split.runs["algorithm"]) == ["cma", "cma+sma", "cma", "cma", "cma+ema"]
    assert split.runs.at["x+sma", "folder"] == sweep.runs.at["x", "folder"]
    assert set(split.records["metric"]) == {"accuracy"}
    assert with_averages(split) is split
    for rule in RULES:
        assert select(split, rule).equals(select(sweep, rule))


def test_averages_of_a_diverged_run_do_not_count(tmp_path):
    run(tmp_path, "x", (0.5, 0.9), (0.6, 0.9), losses=(0.7, None))
    sweep = read_runs(tmp_path)
    found = select(sweep, "training-domain")
    assert list(found["algorithm"]) == ["cma", "cma+sma"]
    assert list(found["step"]) == [100, 100]
    assert len(select(sweep, "oracle")) == 0
    assert list(set_aside(sweep, "oracle")["algorithm"]) == ["cma", "cma+sma"]


def test_worst_groups_of_averaged_weights(tmp_path):
    lines = []
    for split in ("val", "test"):
        for prefix, value in (("", 0.5), ("averaged_", 0.6)):
            lines += [
                record(100, f"{prefix}{metric}", value, None, split) for metric in ("worst_group_accuracy", "accuracy")
            ]
    config = make_config(dataset="birds", algorithm="cma", test_domains=[], average="swad")
    write_run(tmp_path, config, lines, name="x", domains=DOMAINS)
    found = select(read_runs(tmp_path), "worst-group")
    assert list(zip(found["algorithm"], found["test"], strict=True)) == [("cma", 0.5), ("cma+swad", 0.6)]

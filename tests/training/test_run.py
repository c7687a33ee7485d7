import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors import torch as torch_files

from momentalign import CMA
from momentalign.algorithms import Algorithm, Batch, algorithm_names
from momentalign.data import DomainDataset, Split
from momentalign.runs import RunFolder, read_records, read_run
from momentalign.theory import moment_gaps
from momentalign.training import Progress, load_run, run
from momentalign.training._steps import Sampler
from tests.training.problems import TIMES, assert_same_weights, grouped, images, numbers, small_config, three_domains

pytestmark = pytest.mark.slow


def metrics(folder: Path, step: int) -> dict[tuple[object, ...], float | None]:
    found = [record for record in read_records(folder) if record["step"] == step]
    return {(r["domain"], r["split"], r["metric"], r.get("group")): r["value"] for r in found}


def test_records_of_a_run(tmp_path: Path) -> None:
    data = three_domains()
    last = run(small_config(data, "cma", hparams={"anneal_steps": 2}), tmp_path / "run", data=data)
    records = read_records(tmp_path / "run")
    assert sorted({record["step"] for record in records}) == [0, 4, 8, 12, 16, 19]
    found = metrics(tmp_path / "run", 19)
    assert {key[:2] for key in found if key[2] == "accuracy"} == {(d, s) for d in "abc" for s in ("in", "out")}
    levels = {key[2] for key in found if key[0] is None}
    assert levels == {
        "loss", "cross_entropy", "gradient", "hessian", "moment_gap_1", "moment_gap_2", "gradient_gap", "hessian_gap",
        *TIMES,
    }  # fmt: skip
    rows = {name: {split: len(part) for split, part in splits.items()} for name, splits in data.domains.items()}
    assert read_run(tmp_path / "run")["rows"] == rows
    assert last == [record for record in records if record["step"] == 19]
    assert read_run(tmp_path / "run")["status"] == "finished"
    files = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert files == ["model.safetensors", "records.jsonl", "run.json"]


def test_accuracy_and_gaps_are_the_trained_networks(tmp_path: Path) -> None:
    data = three_domains()
    run(small_config(data), tmp_path / "run", data=data)
    model, found = load_run(tmp_path / "run"), metrics(tmp_path / "run", 19)
    with torch.no_grad():
        for name in data.names:
            for split in ("in", "out"):
                rows = data.split(name, split)
                accuracy = (model(rows.tensor).argmax(1) == rows.targets).double().mean().item()
                assert found[name, split, "accuracy", None] == pytest.approx(accuracy)
                loss = F.cross_entropy(model.features_and_logits(rows.tensor)[1], rows.targets).item()
                assert found[name, split, "cross_entropy", None] == pytest.approx(loss, rel=1e-5)
        both = [model.features_and_logits(data.split(name, "out").tensor) for name in ("a", "b")]
        domains = torch.tensor([0] * len(both[0][0]) + [1] * len(both[1][0]))
        targets = torch.cat([data.split(name, "out").targets for name in ("a", "b")])
        features, logits = (torch.cat(parts) for parts in zip(*both, strict=True))
        terms = CMA(scaling="relative").terms(features, logits, targets, domains)
    for term in ("gradient", "hessian"):
        assert found[None, None, f"{term}_gap", None] == pytest.approx(terms[term].item(), rel=1e-4)
    outs = [features for features, _ in both]
    gaps = moment_gaps(torch.cat(outs).numpy(), ["a"] * len(outs[0]) + ["b"] * len(outs[1]))
    assert found[None, None, "moment_gap_1", None] == pytest.approx(gaps.average_mean, rel=1e-5)
    assert found[None, None, "moment_gap_2", None] == pytest.approx(gaps.average_covariance, rel=1e-5)


def test_losses_are_means_since_the_last_record(tmp_path: Path) -> None:
    data = three_domains()
    for every in (1, 4):
        run(small_config(data, record_every=every), tmp_path / str(every), data=data)
    singly = [metrics(tmp_path / "1", step)[None, None, "loss", None] for step in range(20)]
    assert metrics(tmp_path / "4", 8)[None, None, "loss", None] == pytest.approx(np.mean(singly[5:9]))
    assert metrics(tmp_path / "4", 19)[None, None, "loss", None] == pytest.approx(np.mean(singly[17:20]))
    assert_same_weights(tmp_path / "1", tmp_path / "4")


def test_groups_have_an_accuracy_each_and_a_worst(tmp_path: Path) -> None:
    data = grouped()
    run(small_config(data, steps=3, record_every=3), tmp_path / "run", data=data)
    found = metrics(tmp_path / "run", 2)
    for split in ("train", "val", "test"):
        groups = [found[None, split, "group_accuracy", group] for group in ("ll", "lw", "wl", "ww")]
        assert found[None, split, "worst_group_accuracy", None] == min(groups)  # type: ignore[type-var]
        both = [found[name, split, "accuracy", None] for name in ("land", "water")]
        assert found[None, split, "accuracy", None] == pytest.approx(sum(both) / 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", algorithm_names())
def test_every_algorithm_trains(name: str) -> None:
    data = three_domains()
    config = small_config(data, name, steps=2, hparams={"lr": 1e-3})
    values = {record["metric"]: record["value"] for record in run(config, None, data=data)}
    assert math.isfinite(values["loss"] or math.nan)


def test_the_optimizer_is_made_new_where_annealing_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    import momentalign.training._loop as loop

    resets = []
    real = loop.reset_optimizer
    monkeypatch.setattr(loop, "reset_optimizer", lambda optimizer: (resets.append(state(optimizer)), real(optimizer)))

    def state(optimizer: torch.optim.Optimizer) -> float:
        return float(next(iter(optimizer.state.values()))["step"])

    data = three_domains()
    run(small_config(data, "cma", hparams={"anneal_steps": 7}), None, data=data)
    run(small_config(data, "cma", hparams={"anneal_steps": 0}), None, data=data)
    assert resets == [7.0]


def test_seeds_are_separate_by_purpose(tmp_path: Path) -> None:
    data = three_domains()
    for name, options in {
        "one": {},
        "other-batches": {"hparams": {"batch_size": 4}},
        "other-algorithm": {"algorithm": "coral"},
        "other-trial": {"trial": 1},
    }.items():
        run(small_config(data, **{"steps": 1, "hparams": {"lr": 0.0}, **options}), tmp_path / name, data=data)  # type: ignore[arg-type]
    # A learning rate of zero shows the first weights.
    assert_same_weights(tmp_path / "one", tmp_path / "other-algorithm")
    with pytest.raises(AssertionError):
        assert_same_weights(tmp_path / "one", tmp_path / "other-trial")


def test_a_domain_gives_the_same_rows_whoever_is_held_out_and_others_than_its_neighbour() -> None:
    same = {"in": images(24, 0.0, 0), "out": images(12, 0.0, 1)}
    data = DomainDataset("same", 2, dict.fromkeys("abc", same), ("dark", "bright"))
    drawn: dict[tuple[str, str], torch.Tensor] = {}
    for held_out, domains in {"a": "bc", "b": "ac", "c": "ab"}.items():

        def watch(algorithm: Algorithm, held_out: str = held_out, domains: str = domains) -> None:
            update = algorithm.update

            def watched(batch: Batch, *rest: Any) -> dict[str, torch.Tensor]:
                drawn.update({(held_out, name): batch.inputs[batch.domains == k] for k, name in enumerate(domains)})
                return update(batch, *rest)

            algorithm.update = watched  # type: ignore[method-assign]

        run(small_config(data, steps=1, test_domains=[held_out]), None, data=data, built=watch)
    for name, (one, other) in {"a": "bc", "b": "ac", "c": "ab"}.items():
        assert torch.equal(drawn[one, name], drawn[other, name])
        assert not torch.equal(drawn[name, one], drawn[name, other])


def test_pooled_batches_are_drawn_from_all_training_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    small, large = images(2, 0, 0), images(198, 0, 1)
    data = DomainDataset("uneven", 2, {"a": {"in": small, "out": small}, "b": {"in": large, "out": large}})
    drawn = []
    real = Sampler.block

    def block(self: Sampler, number: int) -> torch.Tensor:
        drawn.append(real(self, number))
        return drawn[-1]

    monkeypatch.setattr(Sampler, "block", block)
    run(small_config(data, steps=1, pool=True), None, data=data)
    with pytest.warns(UserWarning, match=r"rows repeat"):
        run(small_config(data, steps=1, pool=False), None, data=data)
    shares = [(rows < 4).double().mean().item() for rows in drawn]  # of the small domain
    assert shares[:2] == pytest.approx([0.01, 0.5], abs=0.02)  # the rest are draws for the records


@pytest.mark.cpu_bfloat16
def test_bf16_trains_and_is_not_float32(tmp_path: Path) -> None:
    data = three_domains()
    for precision in ("32", "bf16"):
        run(
            small_config(data, "iga", precision=precision, hparams={"gradient_weight": 1.0}),
            tmp_path / precision,
            data=data,
        )
    half, full = (metrics(tmp_path / name, 19)[None, None, "loss", None] for name in ("bf16", "32"))
    assert half == pytest.approx(full, rel=0.1)
    assert half != full


def test_linear_schedule_ends_near_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = []
    real = torch.optim.Adam.step

    def step(self: torch.optim.Adam, *args: object) -> object:
        rates.append(self.param_groups[0]["lr"])
        return real(self, *args)

    monkeypatch.setattr(torch.optim.Adam, "step", step)
    data = three_domains()
    run(small_config(data, steps=4, hparams={"schedule": "linear", "lr": 0.1}), None, data=data)
    assert rates == pytest.approx([0.1, 0.075, 0.05, 0.025])


def test_progress_is_called_with_what_is_known() -> None:
    seen: list[Progress] = []
    data = three_domains()
    run(small_config(data), None, data=data, progress=seen.append)
    assert seen[0].steps == 20
    assert seen[-1].done == 20
    assert 0 <= (seen[-1].accuracy or -1) <= 1
    assert seen[-1].loss is not None
    assert [at.done for at in seen if at.evaluated == 0] == [0, 4, 8, 12, 16, 19]
    assert all(at.evaluated is None or 0 <= at.evaluated <= 1 for at in seen)
    assert seen[-1].evaluated is None


def test_a_finished_run_is_read_not_repeated(tmp_path: Path) -> None:
    data = three_domains()
    config = small_config(data, steps=3)
    first = run(config, tmp_path / "run", data=data)
    before = (tmp_path / "run" / "records.jsonl").stat().st_mtime_ns
    (tmp_path / "run" / "checkpoint.safetensors").touch()  # as a kill after the end leaves it
    assert run(config, tmp_path / "run", data=None) == first
    assert (tmp_path / "run" / "records.jsonl").stat().st_mtime_ns == before
    assert not (tmp_path / "run" / "checkpoint.safetensors").exists()


def test_nothing_is_written_where_nothing_is_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    data = three_domains()
    run(small_config(data, steps=5), None, data=data)
    assert not list(tmp_path.iterdir())
    run(small_config(data, steps=5), tmp_path / "run", data=data, save=False)
    assert read_run(tmp_path / "run")["weights"] is None
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["records.jsonl", "run.json"]


@pytest.mark.parametrize("name", ["erm", "cma", "groupdro"])
def test_a_loss_that_is_not_finite_does_not_end_the_run(name: str, tmp_path: Path) -> None:
    data = three_domains()
    run(small_config(data, name, steps=6, record_every=3, hparams={"lr": 1e30}), tmp_path / "run", data=data)
    found = metrics(tmp_path / "run", 5)
    assert found[None, None, "loss", None] is None
    assert (None, None, "moment_gap_1", None) not in found
    assert read_run(tmp_path / "run")["status"] == "finished"


def test_a_domain_smaller_than_a_batch_gets_a_warning() -> None:
    data = three_domains(rows=4)
    with pytest.warns(UserWarning, match=r"of 8 is larger than the rows to train on of a \(4\), b \(4\): rows"):
        run(small_config(data, steps=1), None, data=data)


def test_a_single_training_domain_gets_a_warning() -> None:
    data = three_domains()
    with pytest.warns(
        UserWarning, match=r"There is one domain to train on, b: 'cma' may be no more than plain training"
    ):
        run(small_config(data, "cma", steps=1, test_domains=["a", "c"]), None, data=data)


def test_what_ends_a_run_is_written_down(tmp_path: Path) -> None:
    data = three_domains()
    empty = Split(images(0, 0, 0).inputs, images(0, 0, 0).targets)
    broken = DomainDataset("three", 2, {**data.domains, "a": {"in": empty, "out": data.split("a", "out")}})
    with pytest.raises(ValueError, match=r"Domain 'a' has no rows in split 'in' to train on"):
        run(small_config(data), tmp_path / "run", data=broken)
    about = read_run(tmp_path / "run")
    assert about["status"] == "failed"
    assert "has no rows" in about["error"]
    run(small_config(data), tmp_path / "run", data=data)
    assert read_run(tmp_path / "run")["error"] is None


def test_a_full_disk_is_one_line_and_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, config = three_domains(), small_config(three_domains())
    run(config, tmp_path / "whole", data=data)
    real, calls = torch_files.save_file, []

    def full(tensors: object, path: Path, metadata: object) -> None:
        calls.append(path)
        if len(calls) > 2:  # the third checkpoint, of step 8
            path.write_bytes(b"half")
            raise SafetensorError("I/O error: No space left on device (os error 28)")
        real(tensors, path, metadata)  # type: ignore[arg-type]

    monkeypatch.setattr(torch_files, "save_file", full)
    with pytest.raises(OSError, match=r"is full. Free some space and run the same command again: it resumes at step 5"):
        run(config, tmp_path / "run", data=data, checkpoint_every=1)
    assert read_run(tmp_path / "run")["status"] == "failed"
    files = sorted(path.name for path in (tmp_path / "run").iterdir())
    assert files == ["checkpoint.safetensors", "records.jsonl", "run.json"]
    monkeypatch.setattr(torch_files, "save_file", real)
    run(config, tmp_path / "run", data=data)
    assert_same_weights(tmp_path / "run", tmp_path / "whole")
    assert numbers(tmp_path / "run") == numbers(tmp_path / "whole")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_records_on_a_disk_that_is_really_full(tmp_path: Path) -> None:
    data, config = three_domains(), small_config(three_domains())
    folder = RunFolder(tmp_path / "run", config)
    folder.begin(domains=data.names, classes=data.classes, device="cpu")
    folder.close()
    (tmp_path / "run" / "records.jsonl").unlink()
    (tmp_path / "run" / "records.jsonl").symlink_to("/dev/full")
    with pytest.raises(OSError, match=r"it resumes at step 0"):
        run(config, tmp_path / "run", data=data)

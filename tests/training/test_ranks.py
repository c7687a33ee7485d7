"""Two processes on CPU give the loss curve of one."""

import dataclasses
from pathlib import Path
from types import SimpleNamespace

import pytest
from torch import nn
from torch.multiprocessing.spawn import ProcessRaisedException

from momentalign._files import DiskFullError
from momentalign.runs import read_records
from momentalign.training import run
from momentalign.training._devices import launch
from momentalign.training._model import build_algorithm, check_ranks
from tests.references import assert_equal
from tests.training.problems import TIMES, small_config, three_domains, weights

pytestmark = pytest.mark.slow


def curves(folder: Path) -> dict[tuple[object, ...], float]:
    return {
        (r["step"], r["domain"], r["split"], r["metric"]): r["value"] or 0.0
        for r in read_records(folder)
        if r["metric"] not in TIMES
    }


def test_two_ranks_are_one(tmp_path: Path) -> None:
    data = three_domains()
    hparams = {"anneal_steps": 5, "gradient_weight": 10.0, "hessian_weight": 1.0}
    config = small_config(data, "cma", hparams=hparams, average="swad", record_every=2)
    run(config, tmp_path / "one", data=data, accelerator="cpu")
    last = run(config, tmp_path / "two", data=data, accelerator="cpu", devices=2)
    alone, together = curves(tmp_path / "one"), curves(tmp_path / "two")
    assert alone.keys() == together.keys()
    for key, value in alone.items():
        assert together[key] == pytest.approx(value, rel=1e-4, abs=1e-5), key
    for name, tensor in weights(tmp_path / "one").items():
        assert_equal(weights(tmp_path / "two")[name], tensor, 1e-4)
    assert {record["step"] for record in last} == {19}
    assert "averaged_accuracy" in {record["metric"] for record in last}


def test_batches_that_cannot_be_shared_out_are_refused_at_once(tmp_path: Path) -> None:
    data = three_domains()
    with pytest.raises(ValueError, match=r"'batch_size' should be a multiple of the number of devices"):
        run(small_config(data, hparams={"batch_size": 7}), tmp_path / "run", data=data, devices=2)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("ValueError: no such image: a.png", ValueError),
        ("momentalign._files.DiskFullError: no such image: a.png", DiskFullError),
        ("KeyError: no such image: a.png", RuntimeError),
    ],
)
def test_an_error_of_a_rank_keeps_its_kind_and_message(text: str, kind: type[Exception]) -> None:
    def fail(function: object) -> None:
        raise ProcessRaisedException(f"-- Process 1 failed:\nTraceback\n{text}\n", 1, 123)

    with pytest.raises(kind, match=r"^no such image: a.png$") as found:
        launch(SimpleNamespace(launch=fail), print)
    assert type(found.value) is kind


def test_an_error_of_two_processes_arrives(tmp_path: Path) -> None:
    data = three_domains()
    config = dataclasses.replace(small_config(data), encoder="no-such-encoder")
    with pytest.raises(ValueError, match="no-such-encoder"):
        run(config, tmp_path / "run", data=data, accelerator="cpu", devices=2)


def test_algorithms_that_work_on_one_device_say_so() -> None:
    data = three_domains()
    algorithm = build_algorithm(small_config(data, "iga"), data)
    check_ranks(algorithm, "iga", 1)
    algorithm.distributed = False
    with pytest.raises(ValueError, match=r"'iga' works on one device only. Use --devices 1."):
        check_ranks(algorithm, "iga", 2)


def test_batch_normalisation_that_is_trained_works_on_one_device() -> None:
    data = three_domains()
    algorithm = build_algorithm(small_config(data), data)
    algorithm.extra = nn.BatchNorm2d(3)
    check_ranks(algorithm, "erm", 1)
    with pytest.raises(ValueError, match=r"Batch normalisation that is trained.* Use --devices 1"):
        check_ranks(algorithm, "erm", 2)
    algorithm.extra.eval()  # as pretrained encoders keep it
    check_ranks(algorithm, "erm", 2)

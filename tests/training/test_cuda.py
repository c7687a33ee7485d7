"""What only an accelerator can show: a captured run is the run that was captured."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from benchmarks.steps import random_images
from momentalign.encoders import MNIST_CNN, TensorPreprocessing
from momentalign.runs import RunConfig, read_records
from momentalign.training import make_config, run
from momentalign.training._data import DatasetRows
from momentalign.training._evaluator import predict_rows
from tests.references import assert_equal
from tests.training.problems import TIMES, cut_at, small_config, three_domains, weights

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

ANNEALED = {"cma": 7, "cma-momentum": 7, "cma-diagonal": 7, "fishr": 5, "irm": 3, "vrex": 3}
NAMES = ("erm", "cma", "cma-momentum", "cma-diagonal", "fishr", "coral", "hgp", "irm", "vrex", "mmd", "groupdro")


def config_of(name: str, **options: object) -> RunConfig:
    hparams = {"anneal_steps": ANNEALED[name]} if name in ANNEALED else {}
    if name == "cma":
        hparams |= {"gradient_weight": 10.0, "hessian_weight": 1.0}
    return small_config(three_domains(), name, hparams=hparams, **options)


@pytest.fixture(autouse=True)
def _exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convolutions in full float32, so that rounding does not hide an error."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


def curve(folder: Path, metrics: tuple[str, ...] = ("loss",)) -> list[float]:
    return [record["value"] or 0.0 for record in read_records(folder) if record["metric"] in metrics]


@pytest.mark.parametrize("name", NAMES)
def test_captured_equals_eager(name: str, tmp_path: Path) -> None:
    data, config = three_domains(), config_of(name)
    for capture in (True, False):
        run(config, tmp_path / str(capture), data=data, accelerator="cuda", capture=capture)
    captured, eager = (
        [(r["step"], r["domain"], r["split"], r["metric"]) for r in read_records(tmp_path / str(c))]
        for c in (True, False)
    )
    assert captured == eager
    assert curve(tmp_path / "True") == pytest.approx(curve(tmp_path / "False"), rel=1e-3, abs=1e-5)
    for key, tensor in weights(tmp_path / "False").items():
        assert_equal(weights(tmp_path / "True")[key], tensor, 1e-2)


def test_the_device_gives_the_curve_of_the_host(tmp_path: Path) -> None:
    data, config = three_domains(), config_of("cma")
    for accelerator in ("cuda", "cpu"):
        run(config, tmp_path / accelerator, data=data, accelerator=accelerator)
    assert curve(tmp_path / "cuda") == pytest.approx(curve(tmp_path / "cpu"), rel=1e-2, abs=1e-3)


def test_a_captured_run_that_was_cut_goes_on(tmp_path: Path) -> None:
    data, config = three_domains(), config_of("fishr")
    run(config, tmp_path / "whole", data=data, accelerator="cuda")
    with cut_at(11):
        run(config, tmp_path / "cut", data=data, accelerator="cuda", checkpoint_every=1)
    run(config, tmp_path / "cut", data=data, accelerator="cuda")
    assert curve(tmp_path / "cut") == pytest.approx(curve(tmp_path / "whole"), rel=1e-3, abs=1e-5)


@pytest.mark.parametrize("kind", ["ema", "sma", "swad"])
def test_a_captured_average_equals_an_eager_one(kind: str, tmp_path: Path) -> None:
    data, config = three_domains(), config_of("cma", average=kind, record_every=2)
    run(config, tmp_path / "captured", data=data, accelerator="cuda", capture=True)
    run(config, tmp_path / "eager", data=data, accelerator="cuda", capture=False)
    with cut_at(11):
        run(config, tmp_path / "cut", data=data, accelerator="cuda", capture=True, checkpoint_every=1)
    run(config, tmp_path / "cut", data=data, accelerator="cuda", capture=True)
    for name in ("captured", "cut"):
        for key, tensor in weights(tmp_path / "eager").items():
            assert_equal(weights(tmp_path / name)[key], tensor, 1e-2)
        averaged = ("averaged_cross_entropy",)
        assert curve(tmp_path / name, averaged) == pytest.approx(
            curve(tmp_path / "eager", averaged), rel=1e-2, abs=1e-3
        )


def test_a_schedule_reaches_into_the_graph(tmp_path: Path) -> None:
    data = three_domains()
    config = small_config(data, hparams={"schedule": "linear", "lr": 1e-2, "clip": 0.5})
    for capture in (True, False):
        run(config, tmp_path / str(capture), data=data, accelerator="cuda", capture=capture)
    assert curve(tmp_path / "True") == pytest.approx(curve(tmp_path / "False"), rel=1e-2, abs=1e-4)


@pytest.mark.parametrize("parts", ["penalty", "all"])
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning", "ignore::FutureWarning")
def test_compiled_equals_eager(parts: str, tmp_path: Path) -> None:
    data, config = three_domains(), config_of("cma")
    run(config, tmp_path / "compiled", data=data, accelerator="cuda", compile=parts)
    run(config, tmp_path / "eager", data=data, accelerator="cuda", capture=False)
    assert curve(tmp_path / "compiled") == pytest.approx(curve(tmp_path / "eager"), rel=1e-2, abs=1e-4)


def test_bf16_is_near_float32(tmp_path: Path) -> None:
    data = three_domains()
    for precision in ("bf16", "32"):
        run(config_of("erm", precision=precision), tmp_path / precision, data=data, accelerator="cuda")
    assert curve(tmp_path / "bf16") == pytest.approx(curve(tmp_path / "32"), rel=0.1, abs=0.02)


def test_memory_is_recorded(tmp_path: Path) -> None:
    run(config_of("erm", steps=2), tmp_path / "run", data=three_domains(), accelerator="cuda")
    assert min(curve(tmp_path / "run", TIMES)) > 0


class Listed(Dataset[Tensor]):
    """Rows that have to be read one by one."""

    def __init__(self, rows: Tensor) -> None:
        self.rows = rows

    def __getitem__(self, number: int) -> Tensor:
        return self.rows[number]


class Remembering(nn.Module):
    """A network that knows the sizes of its batches."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        self.sizes.append(len(inputs))
        return inputs, 2 * inputs


@pytest.mark.parametrize("on_device", [True, False])
def test_evaluation_has_batches_of_one_size(on_device: bool) -> None:
    inputs = torch.randn(23, 3)
    raw = inputs.cuda() if on_device else Listed(inputs)
    rows, network = DatasetRows(raw, torch.zeros(23, dtype=torch.long).cuda(), None, {}), Remembering()
    batches = list(predict_rows(network, rows, TensorPreprocessing((3,)), batch_size=8))
    assert network.sizes == [8, 8, 8]
    assert torch.cat([numbers for numbers, *_ in batches]).tolist() == list(range(23))
    assert torch.equal(torch.cat([features for _, features, _ in batches]).cpu(), inputs)
    assert torch.equal(torch.cat([logits for *_, logits in batches]).cpu(), 2 * inputs)


@pytest.mark.parametrize("name", ["erm", "cma-momentum"])
def test_images_are_augmented_outside_the_graph(name: str, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("kornia.augmentation")
    transformers.MobileNetV2Config(depth_multiplier=0.25, image_size=32).save_pretrained(tmp_path / "model")
    data = random_images(40, 32)
    config = make_config(
        data,
        name,
        test_domains=["d"],
        steps=12,
        record_every=3,
        hparams={"batch_size": 8},
        encoder=f"hf-config:{tmp_path / 'model'}",
        average="sma",
    )
    for capture in (None, False):
        run(config, tmp_path / str(capture), data=data, accelerator="cuda", capture=capture)
    assert curve(tmp_path / "None") == pytest.approx(curve(tmp_path / "False"), rel=1e-3, abs=1e-4)


def test_a_network_that_waits_for_the_device_is_not_captured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forward, notes = MNIST_CNN.forward, list[str]()

    def waiting(encoder: MNIST_CNN, inputs: Tensor) -> Tensor:
        assert float(inputs.abs().max()) < 1e6  # reads a number back
        return forward(encoder, inputs)

    monkeypatch.setattr(MNIST_CNN, "forward", waiting)
    run(config_of("erm"), tmp_path / "run", data=three_domains(), accelerator="cuda", log=notes.append)
    assert any(note.startswith("The step cannot be captured") for note in notes)
    monkeypatch.setattr(MNIST_CNN, "forward", forward)
    run(config_of("erm"), tmp_path / "eager", data=three_domains(), accelerator="cuda", capture=False)
    assert curve(tmp_path / "run") == pytest.approx(curve(tmp_path / "eager"), rel=1e-3, abs=1e-5)


def test_captured_evaluation_is_the_eager_one(tmp_path: Path) -> None:
    """Raw and averaged weights, at records before and after the capture."""
    data = three_domains()
    config = small_config(data, "erm", steps=12, record_every=2, average="sma")
    for capture in (True, False):
        run(config, tmp_path / str(capture), data=data, accelerator="cuda", capture=capture)
    metrics = ("cross_entropy", "averaged_cross_entropy", "moment_gap_1", "gradient_gap")
    captured, eager = (curve(tmp_path / str(capture), metrics) for capture in (True, False))
    assert len(captured) == len(eager) > 0
    assert captured == pytest.approx(eager, rel=1e-3, abs=1e-5)

"""A penalty that a callback adds to the loss of a LightningModule."""

from typing import Any

import lightning
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from momentalign import CMA, CORAL
from momentalign.lightning import AlignmentCallback

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*is deprecated:FutureWarning"),  # Lightning's own use of torch
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*smaller than the logging interval"),
]


class Plain(lightning.LightningModule):
    """Knows nothing of penalties."""

    def __init__(self, *, as_dict: bool = False) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 3), nn.Linear(3, 2)
        self.as_dict = as_dict

    def training_step(self, batch: Any, index: int) -> Any:
        inputs, targets = batch[0], batch[1]
        loss = F.cross_entropy(self.head(self.body(inputs).tanh()), targets)
        with torch.no_grad():
            self.head(self.body(inputs).tanh())  # a metric
        return {"loss": loss, "rows": len(inputs)} if self.as_dict else loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Aligned(Plain):
    """The same with the penalty in its step."""

    def __init__(self, penalty: nn.Module) -> None:
        super().__init__()
        self.penalty = penalty

    def training_step(self, batch: Any, index: int) -> Tensor:
        inputs, targets, domains = batch
        features = self.body(inputs).tanh()
        logits = self.head(features)
        return F.cross_entropy(logits, targets) + self.penalty(features, logits, targets, domains)


def loader(rows: int = 24) -> DataLoader[Any]:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(rows, 4, generator=generator)
    return DataLoader(TensorDataset(inputs, torch.arange(rows) % 2, torch.arange(rows) % 3), batch_size=6)


def fit(model: Any, *callbacks: Any, checkpoint: Any = None, **options: Any) -> Any:
    settings = {"max_epochs": 1, "accelerator": "cpu", "logger": False, "enable_checkpointing": False}
    quiet = {"enable_progress_bar": False, "enable_model_summary": False}
    trainer = lightning.Trainer(**{**settings, **quiet, **options}, callbacks=list(callbacks))
    trainer.fit(model, loader(), ckpt_path=checkpoint)
    return trainer


def seeded(kind: Any, *arguments: Any, **options: Any) -> Any:
    torch.manual_seed(0)
    return kind(*arguments, **options)


def weights(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


def penalty() -> CMA:
    return CMA(1.0, 1.0, scaling="relative", momentum=0.5)


@pytest.mark.parametrize("options", [{}, {"accumulate_grad_batches": 2}, {"precision": "bf16-mixed"}])
@pytest.mark.cpu_bfloat16
def test_equals_the_penalty_in_the_step(options: dict[str, Any]) -> None:
    by_hand, by_callback, plain = seeded(Aligned, penalty()), seeded(Plain), seeded(Plain)
    fit(by_hand, **options)
    trainer = fit(by_callback, AlignmentCallback(penalty()), **options)
    fit(plain, **options)
    assert torch.equal(weights(by_hand), weights(by_callback))
    assert not torch.equal(weights(plain), weights(by_callback))
    assert {"penalty", "penalty/gradient", "penalty/hessian"} <= set(trainer.callback_metrics)
    assert "training_step" not in vars(by_callback)
    assert not by_callback.head._forward_hooks


def test_two_penalties_and_a_dictionary_of_outputs() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.both = nn.ModuleList([penalty(), CORAL(0.5)])

        def forward(self, *batch: Tensor) -> Tensor:
            return self.both[0](*batch) + self.both[1](*batch)

    by_hand, by_callback = seeded(Aligned, Both()), seeded(Plain, as_dict=True)
    fit(by_hand)
    fit(by_callback, AlignmentCallback(penalty(), log=False), AlignmentCallback(CORAL(0.5), log=False))
    torch.testing.assert_close(weights(by_hand), weights(by_callback))
    assert "training_step" not in vars(by_callback)


def test_its_state_is_in_the_checkpoint(tmp_path: Any) -> None:
    whole, half, resumed = seeded(Plain), seeded(Plain), seeded(Plain)
    fit(whole, AlignmentCallback(penalty()), max_epochs=2)
    fit(half, AlignmentCallback(penalty())).save_checkpoint(tmp_path / "half.ckpt")
    callback = AlignmentCallback(penalty())
    fit(resumed, callback, max_epochs=2, checkpoint=tmp_path / "half.ckpt")
    assert int(callback.penalty.step) == 8
    assert torch.equal(weights(whole), weights(resumed))


def test_parts_of_a_batch_by_function() -> None:
    one, other = seeded(Plain), seeded(Plain)
    fit(one, AlignmentCallback(penalty()))
    fit(other, AlignmentCallback(penalty(), targets=lambda batch: batch[1], domains=lambda batch: batch[2]))
    assert torch.equal(weights(one), weights(other))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"head": "classifier"}, "'classifier' is not there. Linear layers: body, head."),
        ({"head": ""}, "'' is a Plain"),
        ({"domains": "site"}, "no part 'site': it is a list of 3"),
        ({"domains": 3}, "no part 3"),
    ],
)
def test_what_cannot_be_found_is_an_error(options: dict[str, Any], message: str) -> None:
    model = Plain()
    with pytest.raises(ValueError, match=message):
        fit(model, AlignmentCallback(penalty(), **options))
    assert "training_step" not in vars(model)
    assert not model.head._forward_hooks


def test_a_head_that_is_called_twice() -> None:
    class Twice(Plain):
        def training_step(self, batch: Any, index: int) -> Tensor:
            return super().training_step(batch, index) + super().training_step(batch, index)

    with pytest.raises(ValueError, match="needs one call of 'head' in training_step, with gradients, but found 2"):
        fit(Twice(), AlignmentCallback(penalty()))


def test_manual_optimization_and_the_bias_are_checked_before_the_first_step() -> None:
    model = Plain()
    model.automatic_optimization = False
    with pytest.raises(ValueError, match=r"Plain optimizes by itself\. Call the penalty in training_step"):
        fit(model, AlignmentCallback(penalty()))
    with pytest.raises(ValueError, match="'head' has a bias: give the penalty bias=True"):
        fit(Plain(), AlignmentCallback(CMA(bias=False)))


def test_what_is_no_penalty() -> None:
    with pytest.raises(TypeError, match="'penalty' should be a penalty such as CMA"):
        AlignmentCallback(nn.Linear(1, 1))  # type: ignore[arg-type]

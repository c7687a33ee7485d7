"""A Lightning module with an aligned head: two lines away from its usual form, marked below.

Trains on two domains of coloured digits and reports the accuracy on all three. In "-90%", which is not trained on,
colour predicts the wrong label. The penalty is a submodule, so its state is saved in Lightning's checkpoints. On
several devices it gathers the rows of all of them.

    python examples/lightning_module.py
"""

import lightning
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

from momentalign import CMA
from momentalign.data import ColoredDigits
from momentalign.encoders import MNIST_CNN

Rows = tuple[Tensor, Tensor, Tensor]


class Digits(lightning.LightningModule):  # type: ignore[misc]  # Lightning is untyped for mypy
    """An encoder and a linear head."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = MNIST_CNN(in_channels=2, width=16)
        self.head = nn.Linear(self.encoder.num_features, 2)
        self.penalty = CMA(gradient_weight=1.0, hessian_weight=1.0)  # first new line

    def training_step(self, batch: Rows, index: int) -> Tensor:
        """Compute the loss of a batch.

        Args:
            batch: Inputs, targets and domains.
            index: Number of the batch.

        Returns:
            The loss.
        """
        inputs, targets, domains = batch
        features = self.encoder(inputs)
        logits = self.head(features)
        loss: Tensor = F.cross_entropy(logits, targets)
        loss = loss + self.penalty(features, logits, targets, domains)  # second new line
        self.log("loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Make the optimizer."""
        return torch.optim.Adam(self.parameters(), lr=1e-3)


def main() -> None:
    """Train for four passes over the data, enough to see that it runs, and print accuracies."""
    lightning.seed_everything(0, verbose=False)
    data = ColoredDigits(0)
    seen = ["+90%", "+80%"]
    parts = []
    for number, name in enumerate(seen):
        rows = data.split(name, "in")
        parts.append(TensorDataset(rows.tensor, rows.targets, torch.full((len(rows),), number)))
    loader: DataLoader[Rows] = DataLoader(ConcatDataset(parts), batch_size=64, shuffle=True)
    trainer = lightning.Trainer(
        max_epochs=4, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    model = Digits()
    trainer.fit(model, loader)

    model.eval()
    for name in data.names:
        rows = data.split(name, "out")
        correct = model.head(model.encoder(rows.tensor)).argmax(dim=1) == rows.targets
        print(f"{name}{'' if name in seen else ' (not seen)'}: {100 * correct.double().mean():.1f}%")


if __name__ == "__main__":
    main()

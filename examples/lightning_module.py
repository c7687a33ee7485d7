"""A Lightning module with an aligned head: two lines away from its usual form, marked below.

Trains on digits rotated by 0 to 60 degrees, without and with the penalty, and reports the accuracy on all angles; 75
degrees are not trained on. The penalty is a submodule, so its state is saved in Lightning's checkpoints. On several
devices it gathers the rows of all of them.

    python examples/lightning_module.py
"""

import lightning
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import ConcatDataset, DataLoader, TensorDataset

from momentalign import CMA
from momentalign.data import RotatedDigits
from momentalign.encoders import MNIST_CNN

Rows = tuple[Tensor, Tensor, Tensor]


class Digits(lightning.LightningModule):  # type: ignore[misc]  # Lightning is untyped for mypy
    """An encoder and a linear head."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.encoder = MNIST_CNN(in_channels=1, width=16)
        self.head = nn.Linear(self.encoder.num_features, 10)
        self.penalty = CMA(weight, weight, scaling="relative", momentum=0.95)  # first new line

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


def train(data: RotatedDigits, seen: list[str], weight: float) -> Digits:
    """Train for 15 passes over the rows of some domains.

    Args:
        data: The data set.
        seen: Names of the domains to train on.
        weight: Weight of both terms of the penalty; 0 for plain training.

    Returns:
        The trained module.
    """
    lightning.seed_everything(0, verbose=False)
    parts = []
    for number, name in enumerate(seen):
        rows = data.split(name, "in")
        parts.append(TensorDataset(rows.tensor, rows.targets, torch.full((len(rows),), number)))
    loader: DataLoader[Rows] = DataLoader(ConcatDataset(parts), batch_size=64, shuffle=True)
    model = Digits(weight)
    trainer = lightning.Trainer(
        max_epochs=15, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False
    )
    trainer.fit(model, loader)
    return model.eval()  # type: ignore[no-any-return]


def main() -> None:
    """Train without and with the penalty, and print the accuracies of both."""
    data = RotatedDigits(0)
    seen = [name for name in data.names if name != "75"]
    plain, aligned = (train(data, seen, weight) for weight in (0.0, 1.0))
    for name in data.names:
        rows = data.split(name, "out" if name in seen else "in")
        accuracies = []
        for model in (plain, aligned):
            correct = model.head(model.encoder(rows.tensor)).argmax(dim=1) == rows.targets
            accuracies.append(f"{100 * correct.double().mean():.1f}%")
        print(f"{name}{'' if name in seen else ' (not seen)'}: {accuracies[0]} plain, {accuracies[1]} aligned")


if __name__ == "__main__":
    main()

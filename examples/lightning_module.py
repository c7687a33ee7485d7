"""
A Lightning module
==================

A module with an aligned head is two lines away from its usual form, marked below. It is trained on digits rotated by 0
to 60 degrees, without and with the penalty, on three seeds, and scored on all angles; 75 degrees are not trained on.
The penalty is a submodule, so its state is saved in Lightning's checkpoints. On several devices it gathers the rows of
all of them.
"""

import logging

import altair as alt
import lightning
import pandas as pd
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


def train(data: RotatedDigits, seen: list[str], weight: float, seed: int) -> Digits:
    """Train for 4 passes over the rows of some domains.

    Args:
        data: The data set.
        seen: Names of the domains to train on.
        weight: Weight of both terms of the penalty; 0 for plain training.
        seed: Of first weights and batches.

    Returns:
        The trained module.
    """
    lightning.seed_everything(seed, verbose=False)
    parts = []
    for number, name in enumerate(seen):
        rows = data.split(name, "in")
        parts.append(TensorDataset(rows.tensor, rows.targets, torch.full((len(rows),), number)))
    loader: DataLoader[Rows] = DataLoader(ConcatDataset(parts), batch_size=64, shuffle=True)
    model = Digits(weight)
    trainer = lightning.Trainer(
        max_epochs=4,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(model, loader)
    return model.eval()  # type: ignore[no-any-return]


# %%
# On these data plain training does about as well: the left-out angle continues the others, and the head cannot undo a
# shift of the images. Lines are means of the seeds.

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
SCORES = []
for seed in range(3):
    digits = RotatedDigits(seed)
    angles = [name for name in digits.names if name != "75"]
    for label, weight in (("plain", 0.0), ("aligned", 1.0)):
        model = train(digits, angles, weight, seed)
        for name in digits.names:
            rows = digits.split(name, "out" if name in angles else "in")
            correct = model.head(model.encoder(rows.tensor)).argmax(dim=1) == rows.targets
            SCORES.append(
                {"angle": int(name), "training": label, "seed": seed, "accuracy": float(correct.double().mean())}
            )
scores = pd.DataFrame(SCORES)
print(scores.groupby(["angle", "training"])["accuracy"].agg(["mean", "std"]).unstack().round(3))

# %%
base = alt.Chart(scores).encode(
    x=alt.X("angle:O", title="angle (75 is not trained on)", axis=alt.Axis(labelAngle=0)),
    color=alt.Color("training:N", title=None),
)
accuracy = alt.Y("accuracy:Q", axis=alt.Axis(format="%")).scale(zero=False)
points = base.mark_point(filled=True, opacity=0.6).encode(y=accuracy)
lines = base.mark_line().encode(y=alt.Y("mean(accuracy):Q", title="accuracy"))
(points + lines).properties(width=420, height=220).save("lightning_module.svg")

"""
A penalty in a plain loop
=========================

Plain PyTorch, with and without three additions to the loop: the penalty, the reset of the optimizer where the penalty
sets in, and the average of the weights from there on.

The data are scikit-learn's digits in colour. In both training domains colour goes with the label more often than the
digit does, in the new domain it misleads. Plain training learns the colour. With the penalty the accuracy on the new
domain rises far above it, and that on the training domains falls to what is possible without colour, 75%. No step is
selected: these are the weights at the end.
"""

from collections.abc import Iterator
from typing import cast

import altair as alt
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel

from momentalign import CMA
from momentalign.data import ColoredDigits

STEPS, BOUNDARY, AVERAGED, BATCH = 800, 400, 500, 128
TRAINING, NEW = ("+90%", "+80%"), "-90%"


class Network(nn.Module):
    """An encoder and a linear head."""

    def __init__(self) -> None:
        super().__init__()
        layers = [nn.Flatten(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU()]
        self.encoder, self.head = nn.Sequential(*layers), nn.Linear(128, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits of images, shape (n, 2, 8, 8)."""
        logits: Tensor = self.head(self.encoder(inputs))
        return logits


def draw_batches(data: ColoredDigits) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield inputs, targets and domains with equally many rows of each training domain."""
    pools = [data.split(name, "in") for name in TRAINING]
    domains = torch.arange(len(TRAINING)).repeat_interleave(BATCH)
    while True:
        drawn = [pool.rows(torch.randint(len(pool), (BATCH,))) for pool in pools]
        yield (
            torch.cat([cast(Tensor, rows.inputs) for rows in drawn]),
            torch.cat([rows.targets for rows in drawn]),
            domains,
        )


def train(data: ColoredDigits, seed: int, *, aligned: bool) -> nn.Module:
    """Train a network on the training domains; returns it, or its averaged weights if aligned."""
    torch.manual_seed(seed)
    model = Network()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    penalty = CMA(100, 10, scaling="classes", momentum=0.95, anneal_steps=BOUNDARY)
    average = AveragedModel(model)
    batches = draw_batches(data)
    for step in range(STEPS):
        inputs, targets, domains = next(batches)
        if aligned and step == BOUNDARY:  # new: Adam's averages belong to the loss without the penalty
            optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
        features = model.encoder(inputs)
        logits = model.head(features)
        loss = F.cross_entropy(logits, targets)
        if aligned:  # new: 0 until the boundary
            loss = loss + penalty(features, logits, targets, domains)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step >= AVERAGED:  # new: steadier than the last step's weights
            average.update_parameters(model)
    return average if aligned else model


def accuracy(model: nn.Module, data: ColoredDigits, domain: str, split: str) -> float:
    """Accuracy in % on rows of a domain."""
    rows = data.split(domain, split)
    with torch.no_grad():
        return 100 * float((model(rows.inputs).argmax(dim=1) == rows.targets).double().mean())


def main() -> None:
    """Compare plain and aligned training on three trials."""
    rows = []
    for trial in range(20, 23):
        data = ColoredDigits(trial)
        for training, aligned in (("plain", False), ("aligned", True)):
            model = train(data, trial, aligned=aligned)
            home = sum(accuracy(model, data, name, "out") for name in TRAINING) / len(TRAINING)
            new = accuracy(model, data, NEW, "in")
            print(f"trial {trial}, {training}: {new:.1f}% on the new domain, {home:.1f}% on the training domains")
            rows += [{"training": training, "rows": "new domain", "accuracy": new}]
            rows += [{"training": training, "rows": "training domains", "accuracy": home}]
    base = alt.Chart(pd.DataFrame(rows)).encode(
        x=alt.X("accuracy:Q", title="accuracy in %").scale(domain=[0, 100]),
        y=alt.Y("training:N", title=None, sort=["plain", "aligned"]),
        color=alt.Color("training:N", legend=None),
    )
    points = base.mark_point(filled=True, opacity=0.6, size=50)
    means = base.mark_tick(thickness=2, size=26).encode(x="mean(accuracy):Q")
    (points + means).properties(width=240).facet(alt.Column("rows:N", title=None)).save("plain_loop.svg")


if __name__ == "__main__":
    main()

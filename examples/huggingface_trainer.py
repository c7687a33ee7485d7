"""
Hugging Face's Trainer
======================

A model with an aligned head is two lines away from the usual one, marked below, and the data set has a column "domains"
beside "pixel_values" and "labels": the Trainer passes to the model the columns that its `forward` takes. The encoder is
a small vision transformer with random weights, so that nothing is downloaded: replace it by
`AutoModel.from_pretrained(...)`. It is trained on digits rotated by 0 to 60 degrees, without and with the penalty, on
two seeds; 75 degrees are not trained on.
"""

import tempfile

import altair as alt
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import PrinterCallback, Trainer, TrainingArguments, ViTConfig, ViTModel, set_seed

from momentalign import CMA
from momentalign.data import RotatedDigits

CONFIG = ViTConfig(
    image_size=8,
    patch_size=2,
    num_channels=1,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
)


class Classifier(nn.Module):
    """A transformer's first token and a linear head."""

    def __init__(self, encoder: nn.Module, width: int, num_classes: int, weight: float) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(width, num_classes)
        self.penalty = CMA(weight, weight, scaling="relative", momentum=0.95)  # first new line

    def forward(self, pixel_values: Tensor, labels: Tensor, domains: Tensor) -> dict[str, Tensor]:
        """Compute the loss, and the logits for evaluation.

        Args:
            pixel_values: Images, shape (n, channels, height, width).
            labels: Class indices, shape (n,).
            domains: Where each image came from, shape (n,).

        Returns:
            `"loss"` and `"logits"`, as the Trainer expects them.
        """
        features = self.encoder(pixel_values).last_hidden_state[:, 0]
        logits = self.head(features)
        loss = F.cross_entropy(logits, labels)
        loss = loss + self.penalty(features, logits, labels, domains)  # second new line
        return {"loss": loss, "logits": logits}


class Rows(Dataset[dict[str, Tensor]]):
    """Rows of some domains, each a dictionary of columns."""

    def __init__(self, data: RotatedDigits, names: list[str], split: str) -> None:
        parts = [data.split(name, split) for name in names]
        self.images = torch.cat([part.tensor for part in parts])
        self.labels = torch.cat([part.targets for part in parts])
        self.domains = torch.cat(
            [torch.full((len(part),), data.names.index(n)) for n, part in zip(names, parts, strict=True)]
        )

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"pixel_values": self.images[index], "labels": self.labels[index], "domains": self.domains[index]}


def train(data: RotatedDigits, seen: list[str], weight: float, seed: int) -> Classifier:
    """Train for 6 passes over the rows of some domains.

    Args:
        data: The data set.
        seen: Names of the domains to train on.
        weight: Weight of both terms of the penalty; 0 for plain training.
        seed: Of first weights and batches.

    Returns:
        The trained model.
    """
    set_seed(seed)
    model = Classifier(ViTModel(CONFIG, add_pooling_layer=False), CONFIG.hidden_size, num_classes=10, weight=weight)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            num_train_epochs=6,
            per_device_train_batch_size=64,
            learning_rate=2e-3,
            use_cpu=True,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            logging_strategy="no",
            seed=seed,
        )
        trainer = Trainer(model, arguments, train_dataset=Rows(data, seen, "in"))
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return model.eval()


# %%
# A small transformer after so few steps is far from a pretrained one; the point is that the loop runs unchanged. Lines
# are means of the seeds.

SCORES = []
for seed in range(2):
    digits = RotatedDigits(seed)
    angles = [name for name in digits.names if name != "75"]
    for label, weight in (("plain", 0.0), ("aligned", 1.0)):
        model = train(digits, angles, weight, seed)
        for name in digits.names:
            rows = digits.split(name, "out" if name in angles else "in")
            correct = model.head(model.encoder(rows.tensor).last_hidden_state[:, 0]).argmax(dim=1) == rows.targets
            SCORES.append(
                {"angle": int(name), "training": label, "seed": seed, "accuracy": float(correct.double().mean())}
            )
scores = pd.DataFrame(SCORES)
print(scores.groupby(["angle", "training"])["accuracy"].mean().unstack().round(3))

# %%
base = alt.Chart(scores).encode(
    x=alt.X("angle:O", title="angle (75 is not trained on)", axis=alt.Axis(labelAngle=0)),
    color=alt.Color("training:N", title=None),
)
accuracy = alt.Y("accuracy:Q", axis=alt.Axis(format="%")).scale(zero=False)
points = base.mark_point(filled=True, opacity=0.6).encode(y=accuracy)
lines = base.mark_line().encode(y=alt.Y("mean(accuracy):Q", title="accuracy"))
(points + lines).properties(width=420, height=220).save("huggingface_trainer.svg")

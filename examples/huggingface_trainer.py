"""Hugging Face's Trainer with an aligned head and a domain column: two lines away from the usual model, marked below.

Each row of the data set has a column "domains" beside "pixel_values" and "labels"; the Trainer passes to the model the
columns that its `forward` takes. The encoder is a small vision transformer with random weights, so that nothing is
downloaded: replace it by `AutoModel.from_pretrained(...)`. It is trained on digits rotated by 0 to 60 degrees, without
and with the penalty; 75 degrees are not trained on.

    python examples/huggingface_trainer.py
"""

import tempfile

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, ViTConfig, ViTModel, set_seed

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


def train(data: RotatedDigits, seen: list[str], weight: float) -> Classifier:
    """Train for 15 passes over the rows of some domains.

    Args:
        data: The data set.
        seen: Names of the domains to train on.
        weight: Weight of both terms of the penalty; 0 for plain training.

    Returns:
        The trained model.
    """
    set_seed(0)
    model = Classifier(ViTModel(CONFIG, add_pooling_layer=False), CONFIG.hidden_size, num_classes=10, weight=weight)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            num_train_epochs=15,
            per_device_train_batch_size=64,
            learning_rate=2e-3,
            use_cpu=True,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Trainer(model, arguments, train_dataset=Rows(data, seen, "in"))
        trainer.train()
    return model.eval()


def main() -> None:
    """Train without and with the penalty, and print the accuracies of both."""
    data = RotatedDigits(0)
    seen = [name for name in data.names if name != "75"]
    plain, aligned = (train(data, seen, weight) for weight in (0.0, 1.0))
    for name in data.names:
        rows = data.split(name, "out" if name in seen else "in")
        accuracies = []
        for model in (plain, aligned):
            logits = model.head(model.encoder(rows.tensor).last_hidden_state[:, 0])
            accuracies.append(f"{100 * (logits.argmax(dim=1) == rows.targets).double().mean():.1f}%")
        print(f"{name}{'' if name in seen else ' (not seen)'}: {accuracies[0]} plain, {accuracies[1]} aligned")


if __name__ == "__main__":
    main()

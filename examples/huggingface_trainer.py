"""Hugging Face's Trainer with an aligned head and a domain column: two lines away from the usual model, marked below.

Each row of the data set has a column "domains" beside "pixel_values" and "labels"; the Trainer passes to the model the
columns that its `forward` takes. The encoder is a small vision transformer with random weights, so that nothing is
downloaded: replace it by `AutoModel.from_pretrained(...)`.

    python examples/huggingface_trainer.py
"""

import tempfile

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, ViTConfig, ViTModel, set_seed

from momentalign import CMA
from momentalign.data import ColoredDigits

CONFIG = ViTConfig(
    image_size=8,
    patch_size=2,
    num_channels=2,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
)


class Classifier(nn.Module):
    """A transformer's first token and a linear head."""

    def __init__(self, encoder: nn.Module, width: int, num_classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Linear(width, num_classes)
        self.penalty = CMA(gradient_weight=1.0, hessian_weight=1.0)  # first new line

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

    def __init__(self, data: ColoredDigits, names: list[str], split: str) -> None:
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


def main() -> None:
    """Train for four passes over the data, enough to see that it runs, and print accuracies."""
    set_seed(0)
    data = ColoredDigits(0)
    seen = ["+90%", "+80%"]
    model = Classifier(ViTModel(CONFIG, add_pooling_layer=False), CONFIG.hidden_size, num_classes=2)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            num_train_epochs=4,
            per_device_train_batch_size=64,
            learning_rate=1e-3,
            use_cpu=True,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Trainer(model, arguments, train_dataset=Rows(data, seen, "in"))
        trainer.train()

    model.eval()
    for name in data.names:
        rows = data.split(name, "out")
        logits = model.head(model.encoder(rows.tensor).last_hidden_state[:, 0])
        accuracy = (logits.argmax(dim=1) == rows.targets).double().mean()
        print(f"{name}{'' if name in seen else ' (not seen)'}: {100 * accuracy:.1f}%")


if __name__ == "__main__":
    main()

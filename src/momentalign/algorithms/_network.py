"""The model that all algorithms train: an encoder and a linear head."""

from torch import Tensor, nn


class Network(nn.Module):
    """An encoder, dropout and a linear head with bias.

    Args:
        encoder: From inputs to features, shape (n, num_features).
        num_features: Width of the features.
        num_classes: Number of logits.
        dropout: Share of the features that training leaves out before the head.

    Example:
        >>> import torch
        >>> network = Network(nn.Flatten(), num_features=6, num_classes=3)
        >>> features, logits = network(torch.zeros(5, 2, 3))
        >>> features.shape, logits.shape
        (torch.Size([5, 6]), torch.Size([5, 3]))
    """

    def __init__(self, encoder: nn.Module, num_features: int, num_classes: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.encoder = encoder
        self.dropout = nn.Dropout(dropout)
        self.head = nn.Linear(num_features, num_classes)

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Compute features and logits in one pass.

        Args:
            inputs: What the encoder takes, n rows.

        Returns:
            Features as the head sees them, dropout included, shape (n, num_features), and logits, shape (n, C).
        """
        features: Tensor = self.dropout(self.encoder(inputs))
        return features, self.head(features)

"""A model of two parameters, so that a step can be done with pencil and paper."""

import torch
from torch import Tensor, nn

from momentalign.algorithms import Batch


class TwoParameters(nn.Module):
    """Logits (0, w·x) with w in R²: the loss of a row is log(1 + exp(∓ w·x))."""

    def __init__(self, first: float, second: float) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.tensor([first, second], dtype=torch.float64))

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor]:
        logit = inputs @ self.w
        return inputs, torch.stack([torch.zeros_like(logit), logit], 1)


def one_row_a_domain(*rows: tuple[float, float]) -> Batch:
    """A row of class 1 from each domain; at w = 0 its gradient is −x/2."""
    inputs = torch.tensor(rows, dtype=torch.float64)
    return Batch(inputs, torch.ones(len(rows), dtype=torch.long), torch.arange(len(rows)))

"""One step's rows: a mini-batch of each training domain."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Rows of all training domains, domain after domain, as many of each.

    Attributes:
        inputs: What the encoder takes, n rows.
        targets: Class indices, shape (n,).
        domains: 0 … K − 1 in blocks of n/K rows, shape (n,).
    """

    inputs: Tensor
    targets: Tensor
    domains: Tensor

    def __len__(self) -> int:
        return len(self.targets)

    def per_domain(self, num_domains: int | None = None) -> list[Batch]:
        """The mini-batches, one a domain.

        Args:
            num_domains: K. Without it the last row's domain is read back from the device.

        Returns:
            K batches of n/K rows.

        Raises:
            ValueError: The rows are not K blocks of one size.
        """
        number = int(self.domains[-1]) + 1 if num_domains is None else num_domains
        rows, rest = divmod(len(self), number)
        blocks = torch.arange(number).repeat_interleave(rows)
        # Looked at on CPU only: elsewhere it would wait for the device at every step.
        if rest or not rows or (self.domains.device.type == "cpu" and not torch.equal(self.domains, blocks)):
            raise ValueError(
                f"'domains' should be 0 … {number - 1} in blocks of one size, but a batch of {len(self)} rows is not."
            )
        pieces = zip(*(tensor.split(rows) for tensor in (self.inputs, self.targets, self.domains)), strict=True)
        return [Batch(*piece) for piece in pieces]

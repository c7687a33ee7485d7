"""What is recorded of a network: accuracy of every domain, split and group, and gaps between feature moments."""

from collections.abc import Generator, Iterable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from momentalign._seeds import seed_hash
from momentalign.data import DomainDataset
from momentalign.encoders import Preprocessing
from momentalign.runs import Record
from momentalign.training._rows import Rows, read_batches

MOMENT_ROWS = 2048
"""Rows of each training domain, at most, that feature moments are taken of."""


def predictions_of(
    network: nn.Module,
    rows: Rows,
    preprocessing: Preprocessing,
    *,
    batch_size: int,
    workers: int = 0,
    rank: int = 0,
    ranks: int = 1,
) -> Generator[tuple[Tensor, Tensor, Tensor], None, None]:
    """Run a network in evaluation mode over all rows, or over this rank's share of the batches.

    Args:
        network: From inputs to features and logits.
        rows: What to look at.
        preprocessing: The encoder's.
        batch_size: Rows at a time. On a GPU the last batch is filled up to it, so that shapes stay the same.
        workers: Processes that read rows, where they have to be read.
        rank: Which share of the batches.
        ranks: Number of shares.

    Yields:
        Row numbers on the host, and their features and logits on the device.
    """
    starts = range(rank * batch_size, len(rows), ranks * batch_size)
    batches = [torch.arange(start, min(start + batch_size, len(rows))) for start in starts]
    device = rows.targets.device
    read: Iterable[tuple[Tensor, Tensor]]
    if isinstance(rows.raw, Tensor):
        read = ((numbers, rows.raw[int(numbers[0]) : int(numbers[-1]) + 1]) for numbers in batches)
    else:
        read = read_batches(rows, batches, workers)
    for numbers, some in read:
        raw = some.to(device, non_blocking=True)
        if raw.is_cuda and len(raw) < batch_size < len(rows):
            raw = torch.cat([raw, raw[-1:].expand(batch_size - len(raw), *raw.shape[1:])])
        features, logits = network(preprocessing.to_inputs(raw))
        yield numbers, features[: len(numbers)], logits[: len(numbers)]


def accuracy_records(data: DomainDataset, rows: Rows, correct: NDArray[np.bool_], step: int) -> list[Record]:
    """Accuracy of every domain's splits; where there are groups, also of each group and of the worst.

    Args:
        data: The data set.
        rows: Its rows.
        correct: Whether each row's class was found, shape (N,).
        step: The step it is of.

    Returns:
        The records; a split or group without rows has none.
    """
    records: list[Record] = []
    for (domain, split), (first, end) in rows.spans.items():
        if end > first:
            value = float(correct[first:end].mean())
            records.append({"step": step, "domain": domain, "split": split, "metric": "accuracy", "value": value})
    if rows.groups is None or data.group_names is None:
        return records
    groups = rows.groups.numpy()
    for split in data.split_names:
        spans = [np.arange(*span) for (_, name), span in rows.spans.items() if name == split]
        chosen = np.concatenate(spans)
        if not len(chosen):
            continue
        found = {
            name: float(correct[chosen][groups[chosen] == number].mean())
            for number, name in enumerate(data.group_names)
            if (groups[chosen] == number).any()
        }
        values = {"accuracy": float(correct[chosen].mean()), "worst_group_accuracy": min(found.values())}
        for metric, value in values.items():
            records.append({"step": step, "domain": None, "split": split, "metric": metric, "value": value})
        for group, value in found.items():
            row: Record = {"step": step, "domain": None, "split": split, "metric": "group_accuracy", "value": value}
            records.append({**row, "group": group})
    return records


class MomentSample:
    """Rows of the training domains whose features' moments are compared: the same ones at every record.

    Args:
        rows: The data set's rows.
        domains: Training domains.
        splits: Where to take them: the first of these splits that has rows.
        trial: The trial's seed.
    """

    def __init__(self, rows: Rows, domains: Sequence[str], splits: Sequence[str], trial: int) -> None:
        chosen, owners = [], []
        for owner, domain in enumerate(domains):
            spans = [rows.spans.get((domain, split), (0, 0)) for split in splits]
            first, end = next((span for span in spans if span[1] > span[0]), (0, 0))
            generator = torch.Generator().manual_seed(seed_hash("moments", trial, domain))
            picked = first + torch.randperm(end - first, generator=generator)[:MOMENT_ROWS]
            chosen.append(picked.sort().values)
            owners.append(torch.full((len(picked),), owner))
        order = torch.cat(chosen).argsort()
        self.numbers, self.domains = torch.cat(chosen)[order], torch.cat(owners)[order]
        self.usable = len(self.domains.unique()) > 1

    def within(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        """Positions of the sample's rows in a batch of ascending row numbers, and their places in the sample."""
        first, end = torch.searchsorted(self.numbers, torch.tensor([int(numbers[0]), int(numbers[-1]) + 1])).tolist()
        return self.numbers[first:end] - numbers[0], torch.arange(first, end)

    def records(self, features: Tensor, step: int) -> list[Record]:
        """Gaps between the domains' means and covariances, averaged over pairs.

        Args:
            features: Features of the sample's rows, in its order.
            step: The step they are of.

        Returns:
            `moment_gap_1` and `moment_gap_2`; nothing where there is one domain, or a feature is not finite.
        """
        from momentalign.theory import tensor_moment_gaps

        if not self.usable or not bool(features.isfinite().all()):
            return []
        gaps = tensor_moment_gaps(features.double(), self.domains.to(features.device), int(self.domains.max()) + 1)
        values = {"moment_gap_1": gaps.average_mean, "moment_gap_2": gaps.average_covariance}
        return [
            {"step": step, "domain": None, "split": None, "metric": metric, "value": value}
            for metric, value in values.items()
        ]

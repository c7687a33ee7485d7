"""Evaluation at a record: accuracy of every domain, split and group, and gaps between feature moments."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from momentalign._seeds import seed_hash
from momentalign.algorithms import Network
from momentalign.data import DomainDataset
from momentalign.encoders import Preprocessing
from momentalign.runs import Record
from momentalign.training._data import DatasetRows
from momentalign.training._model import encoder_of

MOMENT_ROWS = 2048
"""Most rows of each training domain that feature moments are taken of."""


def step_record(step: int, metric: str, value: float) -> Record:
    """A number of a step as a whole."""
    return {"step": step, "domain": None, "split": None, "metric": metric, "value": value}


def predict_rows(
    network: nn.Module,
    rows: DatasetRows,
    preprocessing: Preprocessing,
    *,
    batch_size: int,
    workers: int = 0,
    rank: int = 0,
    ranks: int = 1,
) -> Generator[tuple[Tensor, Tensor, Tensor], None, None]:
    """Run a network in evaluation mode over this rank's share of the batches.

    On a GPU the last batch is padded, so that shapes stay the same. Yields row indices on the host, and their features
    and logits on the device.
    """
    starts = range(rank * batch_size, len(rows), ranks * batch_size)
    batches = [torch.arange(start, min(start + batch_size, len(rows))) for start in starts]
    device = rows.targets.device
    read: Iterable[tuple[Tensor, Tensor]]
    if isinstance(rows.raw, Tensor):
        read = ((indices, rows.raw[int(indices[0]) : int(indices[-1]) + 1]) for indices in batches)
    else:
        read = rows.read(batches, workers)
    for indices, host in read:
        raw = host.to(device, non_blocking=True)
        if raw.is_cuda and len(raw) < batch_size < len(rows):
            raw = torch.cat([raw, raw[-1:].expand(batch_size - len(raw), *raw.shape[1:])])
        features, logits = network(preprocessing.to_inputs(raw))
        yield indices, features[: len(indices)], logits[: len(indices)]


def accuracy_records(data: DomainDataset, rows: DatasetRows, correct: NDArray[np.bool_], step: int) -> list[Record]:
    """Accuracy of every domain's splits; where there are groups, also of each group and of the worst.

    A split or group without rows has no record.
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
        chosen = np.concatenate([np.arange(*span) for (_, name), span in rows.spans.items() if name == split])
        if not len(chosen):
            continue
        by_group = {
            name: float(correct[chosen][groups[chosen] == index].mean())
            for index, name in enumerate(data.group_names)
            if (groups[chosen] == index).any()
        }
        values = {"accuracy": float(correct[chosen].mean()), "worst_group_accuracy": min(by_group.values())}
        for metric, value in values.items():
            records.append({"step": step, "domain": None, "split": split, "metric": metric, "value": value})
        for group, value in by_group.items():
            row: Record = {"step": step, "domain": None, "split": split, "metric": "group_accuracy", "value": value}
            records.append({**row, "group": group})
    return records


class _MomentSample:
    """Rows of the training domains whose feature moments are compared: the same ones at every record.

    Of each domain the first of `splits` that has rows is sampled.
    """

    def __init__(self, rows: DatasetRows, domains: Sequence[str], splits: Sequence[str], trial: int) -> None:
        chosen, owners = [], []
        for owner, domain in enumerate(domains):
            spans = [rows.spans.get((domain, split), (0, 0)) for split in splits]
            first, end = next((span for span in spans if span[1] > span[0]), (0, 0))
            generator = torch.Generator().manual_seed(seed_hash("moments", trial, domain))
            picked = first + torch.randperm(end - first, generator=generator)[:MOMENT_ROWS]
            chosen.append(picked.sort().values)
            owners.append(torch.full((len(picked),), owner))
        order = torch.cat(chosen).argsort()
        self.indices, self.domains = torch.cat(chosen)[order], torch.cat(owners)[order]
        self.usable = len(self.domains.unique()) > 1

    def within(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Positions of the sample's rows in a batch of ascending row indices, and in the sample."""
        first, end = torch.searchsorted(self.indices, torch.tensor([int(indices[0]), int(indices[-1]) + 1])).tolist()
        return self.indices[first:end] - indices[0], torch.arange(first, end)

    def records(self, features: Tensor, step: int) -> list[Record]:
        """Gaps between the domains' means and covariances, averaged over pairs; none where they are not defined."""
        from momentalign.theory import tensor_moment_gaps

        if not self.usable or not bool(features.isfinite().all()):
            return []
        gaps = tensor_moment_gaps(features.double(), self.domains.to(features.device), int(self.domains.max()) + 1)
        values = {"moment_gap_1": gaps.average_mean, "moment_gap_2": gaps.average_covariance}
        return [step_record(step, metric, value) for metric, value in values.items()]


class Evaluator:
    """Makes a record's accuracies and moment gaps, in large batches that are shared by the ranks.

    The Fabric is launched, the network not wrapped; `domains` are the training domains.
    """

    def __init__(
        self,
        fabric: Any,
        network: Network,
        data: DomainDataset,
        rows: DatasetRows,
        domains: Sequence[str],
        trial: int,
        workers: int,
    ) -> None:
        self.fabric, self.network, self.data, self.rows, self.workers = fabric, network, data, rows, workers
        self.sample = _MomentSample(rows, domains, (data.validation_split, data.training_split), trial)
        self.positions: dict[int, tuple[Tensor, Tensor]] = {}

    @torch.no_grad()
    def __call__(self, step: int, report_share: Callable[[float], None]) -> list[Record]:
        """Evaluate the network as it is; returns the same records on all ranks."""
        device, encoder = self.rows.targets.device, encoder_of(self.network)
        correct = torch.zeros(len(self.rows), dtype=torch.int32, device=device)
        features = torch.zeros(len(self.sample.indices), encoder.num_features, device=device)
        self.network.eval()
        batches = predict_rows(
            self.network,
            self.rows,
            encoder.preprocessing,
            batch_size=self.rows.evaluation_batch,
            workers=self.workers,
            rank=self.fabric.global_rank,
            ranks=self.fabric.world_size,
        )
        with self.fabric.autocast(), closing(batches):
            for indices, computed, logits in batches:
                span = slice(int(indices[0]), int(indices[-1]) + 1)
                correct[span] = (logits.argmax(1) == self.rows.targets[span]).int()
                in_batch, in_sample = self._sampled(indices)
                features[in_sample] = computed[in_batch].float()
                report_share(span.stop / len(self.rows))
        self.network.train()
        if self.fabric.world_size > 1:
            correct = self.fabric.all_reduce(correct, reduce_op="sum")
            features = self.fabric.all_reduce(features, reduce_op="sum")
        right = correct.cpu().numpy().astype(bool)
        return accuracy_records(self.data, self.rows, right, step) + self.sample.records(features, step)

    def _sampled(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Positions of the moments' sample in a batch and in the sample; copied to the device once."""
        first, device = int(indices[0]), self.rows.targets.device
        if first not in self.positions:
            in_batch, in_sample = self.sample.within(indices)
            self.positions[first] = in_batch.to(device), in_sample.to(device)
        return self.positions[first]

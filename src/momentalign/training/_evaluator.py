"""Evaluation at a record: accuracy and loss of every domain and split, groups, gaps between domains."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from momentalign._graphs import Replayed
from momentalign._seeds import seed_hash
from momentalign.algorithms import Network
from momentalign.data import DomainDataset
from momentalign.encoders import Preprocessing
from momentalign.penalties import CMA
from momentalign.runs import AVERAGED, Record
from momentalign.training._accuracy_records import accuracy_records, domain_records, values_by_key
from momentalign.training._data import DatasetRows
from momentalign.training._model import encoder_of

MOMENT_ROWS = 2048
"""Most rows of each training domain for feature moments."""

GAP_ROWS = 1024
"""Most rows of each training domain for derivatives of the head."""


def step_record(step: int, metric: str, value: float) -> Record:
    """A number of a step as a whole."""
    return {"step": step, "domain": None, "split": None, "metric": metric, "value": value}


def as_averaged(records: Iterable[Record]) -> list[Record]:
    """Records of a split's rows by the names that they have for averaged weights."""
    return [{**row, "metric": f"{AVERAGED}{row['metric']}"} for row in records if row["split"] is not None]


def count_held_out(rows: DatasetRows, held_out: Sequence[tuple[str, str]], option: str) -> list[int]:
    """Number of held-out rows of each training domain; raises ValueError where one has none."""
    numbers = [len(rows.indices(*part)) for part in held_out]
    if 0 in numbers:
        domain, split = held_out[numbers.index(0)]
        raise ValueError(
            f"'{option}' needs held-out rows of every training domain, but {domain!r} has none in split {split!r}. "
            "Use a larger --holdout."
        )
    return numbers


def held_out_mean(records: Sequence[Record], held_out: Sequence[tuple[str, str]], metric: str) -> float:
    """Mean of a metric over the held-out rows of the training domains; NaN where a record is missing."""
    values = values_by_key(records)
    found = [values.get((*rows, metric)) for rows in held_out]
    return float(np.mean([np.nan if value is None else value for value in found]))


def predict_rows(
    network: nn.Module,
    rows: DatasetRows,
    preprocessing: Preprocessing,
    *,
    batch_size: int,
    workers: int = 0,
    rank: int = 0,
    ranks: int = 1,
    spans: Sequence[tuple[int, int]] | None = None,
) -> Generator[tuple[Tensor, Tensor, Tensor], None, None]:
    """Run a network in evaluation mode over this rank's share of the batches of all rows, or of ascending `spans`.

    On a GPU the last batch is padded, so that shapes stay the same. Yields row indices on the host, and their features
    and logits on the device.
    """
    starts = [(first, end) for a, end in spans or [(0, len(rows))] for first in range(a, end, batch_size)]
    batches = [torch.arange(first, min(first + batch_size, end)) for first, end in starts[rank::ranks]]
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


class _HeldOutSample:
    """Rows of the training domains whose features and derivatives are compared: the same ones at every record.

    Of each domain the first of `splits` that has rows is sampled.
    """

    def __init__(self, rows: DatasetRows, domains: Sequence[str], splits: Sequence[str], trial: int) -> None:
        chosen, owners = [], []
        for owner, domain in enumerate(domains):
            parts = [rows.indices(domain, split) for split in splits]
            own = next((part for part in parts if len(part)), parts[0])
            generator = torch.Generator().manual_seed(seed_hash("moments", trial, domain))
            picked = own[torch.randperm(len(own), generator=generator)[:MOMENT_ROWS]]
            chosen.append(picked.sort().values)
            owners.append(torch.full((len(picked),), owner))
        order = torch.cat(chosen).argsort()
        self.indices, self.domains = torch.cat(chosen)[order], torch.cat(owners)[order]
        self.targets = rows.targets[self.indices.to(rows.targets.device)]
        self.usable = len(self.domains.unique()) > 1
        parts = [torch.nonzero(self.domains == owner).flatten() for owner in range(len(domains))]
        # Evenly spaced: rows of a domain lie in the order of the data set, which may be by class.
        self.thinned = torch.cat([part[:: max(1, -(-len(part) // GAP_ROWS))] for part in parts])

    def within(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Positions of the sample's rows in a batch of ascending row indices, and in the sample."""
        first, end = torch.searchsorted(self.indices, torch.tensor([int(indices[0]), int(indices[-1]) + 1])).tolist()
        return self.indices[first:end] - indices[0], torch.arange(first, end)

    def records(self, features: Tensor, logits: Tensor, step: int) -> list[Record]:
        """Gaps between the domains; none where they are not defined.

        `moment_gap_1` and `moment_gap_2` are those of the features' means and covariances, averaged over pairs;
        `gradient_gap` and `hessian_gap` are CMA's terms in relative scaling, between 0 and 1.
        """
        from momentalign.theory import tensor_moment_gaps

        if not self.usable or not bool(features.isfinite().all()):
            return []
        domains = self.domains.to(features.device)
        number = int(self.domains.max()) + 1
        gaps = tensor_moment_gaps(features.double(), domains, number)
        rows = self.thinned.to(features.device)
        terms = CMA(scaling="relative", gather=False, num_domains=number)
        derivatives = terms.terms(features[rows], logits[rows], self.targets[rows], domains[rows])
        values = {
            "moment_gap_1": gaps.average_mean,
            "moment_gap_2": gaps.average_covariance,
            "gradient_gap": float(derivatives["gradient"]),
            "hessian_gap": float(derivatives["hessian"]),
        }
        return [step_record(step, metric, value) for metric, value in values.items()]


def _joined(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Sort spans, drop empty ones and join neighbours, so that batches are full."""
    joined: list[tuple[int, int]] = []
    for first, end in sorted(spans):
        if joined and joined[-1][1] == first:
            joined[-1] = joined[-1][0], end
        elif end > first:
            joined.append((first, end))
    return joined


class _Predictions(NamedTuple):
    """Predictions for a record, on the device: by row, and features and logits of the sample."""

    classes: Tensor
    losses: Tensor
    probabilities: Tensor
    features: Tensor
    outputs: Tensor


class Evaluator:
    """Makes a record's accuracies, losses and gaps, in large batches that are shared by the ranks.

    The Fabric is launched, the network not wrapped; `domains` are the training domains. Without `train_accuracy` the
    rows that they are trained on are left out, unless they have no others. With `capture`, predictions of rows that are
    on the device become a CUDA graph if they can.
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
        *,
        train_accuracy: bool = True,
        capture: bool = False,
    ) -> None:
        self.fabric, self.network, self.data, self.rows, self.workers = fabric, network, data, rows, workers
        held_out = [name for name in domains if len(rows.indices(name, data.validation_split))]
        self.without = frozenset(() if train_accuracy else ((name, data.training_split) for name in held_out))
        self.spans = _joined([span for key, span in rows.spans.items() if key not in self.without])
        self.sample = _HeldOutSample(rows, domains, (data.validation_split, data.training_split), trial)
        self.positions: dict[int, tuple[Tensor, Tensor]] = {}
        self.replayed = Replayed(self._predict, rows.targets.device) if capture and rows.on_device else None

    @torch.no_grad()
    def __call__(self, step: int, report_share: Callable[[float], None], *, gaps: bool = True) -> list[Record]:
        """Evaluate the network as it is; returns the same records on all ranks."""
        found = self._predict(report_share) if self.replayed is None else self.replayed()
        if self.fabric.world_size > 1:
            found = _Predictions(*(self.fabric.all_reduce(tensor, reduce_op="sum") for tensor in found))
        records = accuracy_records(
            self.data,
            self.rows,
            found.classes.cpu().numpy(),
            step,
            self.without,
            probabilities=found.probabilities.cpu().numpy() if len(found.probabilities) else None,
        )
        records += domain_records(self.rows, "cross_entropy", found.losses.double().cpu().numpy(), step, self.without)
        return records + self.sample.records(found.features, found.outputs, step) if gaps else records

    def _predict(self, report_share: Callable[[float], None] = lambda _: None) -> _Predictions:
        """Predictions of this rank's rows, zeros elsewhere."""
        device, encoder = self.rows.targets.device, encoder_of(self.network)
        number, sampled, classes = len(self.rows), len(self.sample.indices), self.data.num_classes
        # Only rows with groups need them; with many classes they would take much memory.
        grouped = number if self.data.group_names is not None else 0
        found = _Predictions(
            classes=torch.zeros(number, dtype=torch.int32, device=device),
            losses=torch.zeros(number, device=device),
            probabilities=torch.zeros(grouped, classes, device=device),
            features=torch.zeros(sampled, encoder.num_features, device=device),
            outputs=torch.zeros(sampled, classes, device=device),
        )
        self.network.eval()
        batches = predict_rows(
            self.network,
            self.rows,
            encoder.preprocessing,
            batch_size=self.rows.evaluation_batch,
            workers=self.workers,
            rank=self.fabric.global_rank,
            ranks=self.fabric.world_size,
            spans=self.spans,
        )
        with self.fabric.autocast(), closing(batches):
            for indices, computed, logits in batches:
                span = slice(int(indices[0]), int(indices[-1]) + 1)
                found.classes[span] = logits.argmax(1).int()
                if grouped:
                    found.probabilities[span] = logits.float().softmax(1)
                found.losses[span] = F.cross_entropy(logits.float(), self.rows.targets[span], reduction="none")
                in_batch, in_sample = self._sampled(indices)
                found.features[in_sample] = computed[in_batch].float()
                found.outputs[in_sample] = logits[in_batch].float()
                report_share(span.stop / number)
        self.network.train()
        return found

    def _sampled(self, indices: Tensor) -> tuple[Tensor, Tensor]:
        """Positions of the moments' sample in a batch and in the sample; copied to the device once."""
        first, device = int(indices[0]), self.rows.targets.device
        if first not in self.positions:
            in_batch, in_sample = self.sample.within(indices)
            self.positions[first] = in_batch.to(device), in_sample.to(device)
        return self.positions[first]

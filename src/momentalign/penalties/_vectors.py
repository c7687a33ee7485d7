"""Penalties that are mean squared lengths of one vector for each domain."""

from abc import abstractmethod

from torch import Tensor

from momentalign._batch import HeadBatch
from momentalign.closed_form import HEADS, HeadRows, domain_labels, domain_weights, with_constant
from momentalign.penalties._base import DomainPenalty


class VectorPenalty(DomainPenalty):
    """A penalty by its vectors, the same for a batch and for full-batch fits, whose rows may have weights.

    A subclass implements :meth:`vectors`, and :meth:`by_grams` where heads are too large for them.
    """

    def compute_terms(self, batch: HeadBatch, names: list[str], *, update: bool) -> dict[str, Tensor]:
        """Mean squared lengths of the vectors."""
        rows = self.rows(batch)
        if rows.wide and (terms := self.by_grams(rows)):
            return terms
        return {name: rows.mean_square(vectors) for name, vectors in self.vectors(rows).items()}

    def rows(self, batch: HeadBatch, labels: Tensor | None = None) -> HeadRows:
        """Rows of a batch at the head; `labels` are the domains, without them those of the batch."""
        labels = domain_labels(batch.domains, self.num_domains) if labels is None else labels
        E = domain_weights(batch.domains, labels, batch.features.dtype)
        return HeadRows.of(with_constant(batch.features, self.bias), E, HEADS[self.loss](batch.logits, batch.targets))

    @abstractmethod
    def vectors(self, rows: HeadRows) -> dict[str, Tensor]:
        """Vectors (K, …) by the names of the terms; a term is the mean over domains of their squared lengths."""

    def by_grams(self, rows: HeadRows) -> dict[str, Tensor]:
        """Terms from Gram matrices of the rows; none by default."""
        return {}

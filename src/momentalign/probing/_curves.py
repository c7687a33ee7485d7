"""Records of a probe on its way: accuracies, loss and penalty terms."""

import numpy as np
from numpy.typing import NDArray

from momentalign.linear import LinearHead, Rows
from momentalign.probing._features import ProbeFeatures
from momentalign.probing._methods import ProbeMethod
from momentalign.probing._objectives import Spreads, TermObjective
from momentalign.probing._scores import predict
from momentalign.training._folder import Record

Array = NDArray[np.float64]


class Curves:
    """Makes the records of heads.

    Terms are those of the method over all training rows as they are fitted, unweighted. Beside them stand, for methods
    whose own terms do not have these names, the spreads of the domains' gradients and Hessians in the units of the
    published weights, so that methods can be compared.

    Args:
        features: The data.
        method: What is minimised.
        row_weights: How often each training row counts.
    """

    def __init__(self, features: ProbeFeatures, method: ProbeMethod, row_weights: Array | None) -> None:
        train, self.features = features.train, features
        rows = Rows.sort(train.features, train.targets, train.domains, row_weights, bias=False)
        classes = len(features.data.classes)
        self.objective = method.objective(rows, classes, 0.0)
        self.spreads = Spreads(self.objective.plain, (1, 2, 3) if "third_weight" in method.grid else (1, 2))

    def records(self, step: int, loss: float, head: Array) -> list[Record]:
        """Records of one step.

        Args:
            step: Its number.
            loss: Value of what is minimised.
            head: Flattened.

        Returns:
            Step-level values first, then accuracies.
        """
        terms = self.spreads(head)
        if isinstance(self.objective, TermObjective):
            terms |= self.objective.terms(head)
        found = [_record(step, name, value) for name, value in {"loss": loss, **terms}.items()]
        shape = self.objective.plain.shape
        linear = LinearHead(head.reshape(shape), np.zeros(shape[0]), {}, loss, step, True)
        for split in self.features.splits:
            found += self._accuracies(step, split, linear)
        return found

    def _accuracies(self, step: int, split: str, head: LinearHead) -> list[Record]:
        rows, data = self.features.splits[split], self.features.data
        scores = self.features.score(predict(head, rows.features) == rows.targets, split)
        found = [
            _record(step, "accuracy", scores.average, split),
            _record(step, "worst_group_accuracy", scores.worst, split),
        ]
        found += [
            _record(step, "accuracy", value, split, domain)
            for domain, value in zip(data.domain_names, scores.domains, strict=True)
            if np.isfinite(value)
        ]
        return found + [
            {**_record(step, "group_accuracy", value, split), "group": group}
            for group, value in zip(data.group_names, scores.groups, strict=True)
            if np.isfinite(value)
        ]


def _record(step: int, metric: str, value: float, split: str | None = None, domain: str | None = None) -> Record:
    return {"step": step, "domain": domain, "split": split, "metric": metric, "value": float(value)}

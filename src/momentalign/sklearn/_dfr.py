"""Deep feature reweighting of the last layer."""

from collections.abc import Sequence

import numpy as np

from momentalign.linear import PUBLISHED_CS
from momentalign.sklearn._group_robust import GroupRobustClassifier


class DFRClassifier(GroupRobustClassifier):
    r"""DFR: the mean of L1 logistic regressions on group-balanced subsamples of held-out rows.

    The recipe of Kirichenko et al. (2023) for the last layer. Features are standardised. C is chosen by the accuracy of
    the worst group: one fit on a group-balanced subsample of one half of the held-out rows, scored on the other half.
    Then as many refits as asked for, each on another group-balanced subsample of all held-out rows, are averaged.
    `refit_on="training"` is the published variant on training rows, with C chosen on all held-out rows.

    Held-out rows are those that the features were not trained on. If `X` is a table, or the output of an encoder that
    has seen none of its rows, that is all of them: the default. Otherwise pass the mask to `fit`, or leave the training
    rows out of `X`.

    Deviations from the published code: halves are drawn within each group, so that none is without rows; features
    are standardised by the training rows, or by all rows where all are held out, also while C is chosen. Several
    classes are fitted one against the rest; their probabilities are rough.

    Arguments and attributes are those of `GroupRobustClassifier("dfr")`, which this is.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> y, place = np.arange(400) % 2, rng.random(400) < 0.9
        >>> place = np.where(place, y, 1 - y)
        >>> X = rng.normal(size=(400, 2)) + np.column_stack([y, 3 * place])
        >>> group = [f"class {a}, place {b}" for a, b in zip(y, place)]
        >>> DFRClassifier().fit(X, y, groups=group).group_sizes_
        array([177,  23,  27, 173])
    """

    def __init__(
        self,
        Cs: Sequence[float] = PUBLISHED_CS,
        *,
        refits: int | None = None,
        refit_on: str = "validation",
        validation: float | None = None,
        max_iter: int = 1000,
        random_state: int | np.random.RandomState | None = 0,
    ) -> None:
        super().__init__(
            "dfr",
            Cs=Cs,
            refits=refits,
            refit_on=refit_on,
            validation=validation,
            max_iter=max_iter,
            random_state=random_state,
        )

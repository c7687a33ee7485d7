"""Plan the fits of both models of a probe: columns, classes, folds and training rows of a table."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from momentalign._files import file_digest
from momentalign._format import pluralize
from momentalign._table_spec import split_spec, table_spec
from momentalign._validation import check_blanks, check_choice, check_count
from momentalign.tables._columns import fit_encoder
from momentalign.tables._held_out import Fold, make_folds
from momentalign.tables._labels import TASKS, check_domains, encode_targets
from momentalign.tables._leaks import describe_leaks
from momentalign.tables._model import READING, SOURCE
from momentalign.tables._probe import TableProbe
from momentalign.tables._table import Table, read_table

_WIDE = 500


def plan_probe(
    path: str | Path,
    *,
    test_domain: str | None = None,
    task: str = "auto",
    components: int | None = None,
    seed: int = 0,
    **reading: str | None,
) -> TableProbe:
    """Read a table and plan the fits of both models.

    Args:
        path: A table. The worst of its groups decides, where it has some.
        test_domain: Domain to hold out.
        task: `"classification"`, `"regression"`, or `"auto"`: regression for more than 20 distinct numbers.
        components: Principal components to keep of wider features; None keeps all columns.
        seed: Of folds and of rows held out at random.
        **reading: How to read the file, see :func:`read_table`: target, domain, group, split, sep, encoding.

    Returns:
        The plan; its `lines` describe it, its `run` executes it.
    """
    check_choice("task", task, TASKS)
    check_count("seed", seed, 0)
    if components is not None:
        check_count("components", components, 1)
    table = read_table(path, **reading)
    target, domain = table.columns["target"], table.columns["domain"]
    check_domains(table.domains, domain)
    if test_domain is not None:
        check_choice("test_domain", test_domain, np.unique(table.domains).tolist())
    classes, targets = encode_targets(table.target, task, names=table.names.get("target", ()), column_name=target)
    folds, notes = make_folds(table, test_domain, seed)
    for fold in folds:
        _check_fold(fold, table, classes, targets)
    rows = np.unique(np.concatenate([fold.train for fold in folds]))
    frame = table.features.iloc[rows]
    encoder, encoded, encoder_notes = fit_encoder(frame, components)
    lines = [
        *table.describe("a number" if classes is None else f"{len(classes)} classes"),
        *notes,
        *encoded.describe("training rows"),
        *encoder_notes,
        *describe_leaks(frame, encoder.columns, targets[rows], target, numbers=classes is None),
    ]
    if table.groups is not None:
        check_blanks(table.columns["group"], np.unique(table.groups).tolist())
        if classes is None:
            lines.append("Groups are not used for a regression.")
        else:
            lines.append("The model is fitted for the worst group, on subsamples with as many rows of every group.")
    models = pluralize(len(folds) + (len(folds) > 1), "model")
    lines.append(
        f"{models} to fit on up to {len(rows)} rows of {encoder.width} numbers."
        + (" Wide features take long: --components 100 is faster." if encoder.width > _WIDE else "")
    )
    _, options = split_spec(table_spec(path, **reading))
    about = {
        "target": target,
        "domain": domain,
        "task": "regression" if classes is None else "classification",
        READING: {option: options[option] for option in ("sep", "encoding") if option in options},
        SOURCE: {
            "table": file_digest(table.path),
            "target": target,
            "domain": domain,
            "group": options.get("group"),
            "split": options.get("split"),
            "test domain": test_domain,
            "task": task,
            "components": components,
            "seed": seed,
        },
    }
    features = encoder.transform(encoded.matrix)
    return TableProbe(table, classes, targets, folds, rows, encoder, features, components, seed, lines, about)


def _check_fold(fold: Fold, table: Table, classes: tuple[str, ...] | None, targets: NDArray[Any]) -> None:
    present = np.unique(table.domains[fold.train])
    if len(present) < 2:
        problem = f"all are of '{present[0]}'" if len(present) else "there are none"
        raise ValueError(f"Training rows should be of at least two domains, but {problem}. There is nothing to align.")
    if classes is not None and len(np.unique(targets[fold.train])) < 2:
        only = classes[int(targets[fold.train][0])]
        raise ValueError(
            f"Training rows should be of at least two classes, but all are of '{only}'. Name another '--target'."
        )
    if not len(fold.test):
        raise ValueError("There should be rows to test on, but there are none. Name a '--test-domain'.")

"""What a selection rule chose for each cell of a table: set, step and hyper-parameters."""

from itertools import chain
from typing import Any

import pandas as pd

from momentalign._csv import frame_csv
from momentalign._format import align_columns, printable
from momentalign.report._escape import escape_markdown, markdown_table
from momentalign.report._names import algorithm_label, algorithm_order, dataset_labels, dataset_order
from momentalign.report._sections import SectionKey, SectionRule
from momentalign.selection import REACH, Sweep, select, with_averages

_HEADS = ("method", "test domain", "trial", "set", "step", "test, %", "hyper-parameters")
_HPARAMS = "hparams."
_NOTE = "Hyper-parameters with one value in all runs of a method are left out."


def chosen_table(sweep: Sweep, rule: str, form: str = "text", *, reach: float = REACH) -> str:
    """Write which set of hyper-parameters and which step a rule chose, by method, test domain and trial.

    Args:
        sweep: Runs and records.
        rule: A selection rule, see :func:`momentalign.selection.select`.
        form: "text", "markdown", or "csv": the columns of `select` and `hparams.NAME`, not rounded.
        reach: Of "extrapolated": how far outside the hull of the training domains the test domain may lie.

    Returns:
        The table, with the hyper-parameters that differ between the runs of a method.
    """
    frame = _chosen_frame(sweep, rule, reach)
    if form == "csv":
        return frame_csv(frame)
    labels = dataset_labels([*sweep.runs["dataset"], *sweep.planned["dataset"]])
    lines = []
    for (dataset, setting), own in frame.groupby(["dataset", "setting"], sort=False):
        key = SectionKey(dataset, labels[dataset], setting)
        title = f"{key.title}: what {SectionRule(rule, reach).title} chose"
        rows = [_cells(row) for row in own.to_dict("records")]
        note = _NOTE + (" Set 0 is the defaults." if setting == "finetune" else "")
        if form == "markdown":
            lines += [f"**{escape_markdown(title)}**", "", *markdown_table(_HEADS, rows), "", note, ""]
        else:
            body = align_columns([_HEADS, *([*map(printable, row)] for row in rows)], right=range(2, 6))
            lines += [printable(title), "", *body, "", note, ""]
    return "\n".join(lines)


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    hparams = {name.removeprefix(_HPARAMS): value for name, value in row.items() if name.startswith(_HPARAMS)}
    return (
        algorithm_label(row["algorithm"]),
        row["test_domain"] or "worst group",
        *(str(row[name]) for name in ("trial", "hparams_seed", "step")),
        f"{100 * row['test']:.1f}",
        ", ".join(
            f"{name} {f'{value:.4g}' if isinstance(value, float) else value}"
            for name, value in hparams.items()
            if value is not None and value == value
        ),
    )


def _chosen_frame(sweep: Sweep, rule: str, reach: float) -> pd.DataFrame:
    """Rows of :func:`select` in the order of tables, with hyper-parameters that differ between a method's runs."""
    runs = with_averages(sweep).runs
    keys = ["dataset", "setting", "algorithm"]
    varied = {
        key: [name for name in dict.fromkeys(chain(*own)) if len({repr(values.get(name)) for values in own}) > 1]
        for key, own in runs.groupby(keys)["hparams"]
    }
    chosen = select(sweep, rule, reach=reach)
    order = [(dataset_order(row.dataset), row.setting, algorithm_order(row.algorithm)) for row in chosen.itertuples()]
    chosen = chosen.iloc[sorted(range(len(order)), key=order.__getitem__)].reset_index(drop=True)
    hparams = [
        {_HPARAMS + name: runs.at[run, "hparams"].get(name) for name in varied[tuple(key)]}
        for run, *key in chosen[["run", *keys]].itertuples(index=False, name=None)
    ]
    return pd.concat([chosen, pd.DataFrame(hparams, index=chosen.index, dtype=object)], axis=1)

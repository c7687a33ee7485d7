"""Accuracy tables of a sweep under a selection rule, with the paper's numbers beside ours."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from momentalign._format import pluralize
from momentalign.published import (
    AVERAGE,
    WORST_GROUP,
    PublishedNumber,
    published_accuracy,
    published_averages,
)
from momentalign.report._names import algorithm_label, algorithm_order, dataset_labels, dataset_order, domain_head
from momentalign.report._sources import published_for_probes
from momentalign.report._table import INCOMPLETE, MISSING, Cell, Row, Section, Table
from momentalign.selection import Sweep, candidates, select, set_aside

_HOW = {
    "training-domain": "Selected by the training domains: best record by mean accuracy on their out splits.",
    "leave-one-domain-out": "Selected by leave-one-domain-out: best step by mean accuracy on each other domain, left "
    "out of training in its turn.",
    "oracle": "Selected by the test domain (oracle): last record, by accuracy on the test domain's out split.",
    "worst-group": "Selected by the worst group: last record, by the worst group's validation accuracy; the five best "
    "sets of the first trial compete by their mean over trials.",
}
_NEEDS = {"leave-one-domain-out": "; it takes a run for each pair of test domains too"}
_PUBLISHED_FINE_TUNING = "published: the paper's, best of 5 sets, 3 trials."
_PUBLISHED_PROBING = (
    "published: the paper's, standard error over 5 seeds; its code differs from its text, so ours are not expected to "
    "repeat them (documentation, errata 9)."
)
_NOTE = "†"

_Key = tuple[str, str, str]  # data set, its label, setting
_Frames = tuple[pd.DataFrame, ...]  # runs, choices, candidates, sets that were set aside, runs that diverged


def accuracy_table(sweep: Sweep, rule: str) -> Table:
    """Test accuracy per domain, with averages.

    A cell is the mean over trials × 100, ± the population standard deviation / √trials; averages are over domains
    within each trial first. For "worst-group" ± is the standard error with ddof 1. Cells without a finished run are
    marked, and so are cells over fewer runs than the rest of their data set. A set of hyper-parameters with which a run
    diverged was tried: it is not missing, and not counted either.

    Args:
        sweep: Runs and records.
        rule: A selection rule, see :func:`momentalign.selection.select`.

    Returns:
        A section for each data set that has runs the rule applies to, and one over data sets if there are several.
    """
    chosen, listed, aside = select(sweep, rule), candidates(sweep, rule), set_aside(sweep, rule)
    diverged = sweep.runs.loc[sweep.diverged().index]
    runs = pd.concat([sweep.runs[list(sweep.planned)], sweep.planned])  # done, or still to be done
    if rule == "worst-group":
        grouped = {*listed["dataset"], *aside["dataset"]}
        runs = runs[[dataset in grouped for dataset in runs["dataset"]]]
    else:
        runs = runs[[len(domains) == 1 for domains in runs["test_domains"]]]
        serving = (1, 2) if rule == "leave-one-domain-out" else (1,)
        diverged = diverged[diverged["test_domains"].map(len).isin(serving)]
    labels = dataset_labels([*sweep.runs["dataset"], *sweep.planned["dataset"]])
    pairs = set(zip(runs["dataset"], runs["setting"], strict=True))
    keys = [(dataset, labels[dataset], setting) for dataset, setting in pairs]
    keys.sort(key=lambda key: (dataset_order(key[0]), key[2]))
    sections = []
    for key in keys:
        frames = tuple(_of(frame, key) for frame in (runs, chosen, listed, aside, diverged))
        if rule == "worst-group":
            sections.append(_worst_group(key, frames, _of(sweep.runs, key)))
        else:
            sections.append(_domains(key, rule, frames))
    if len(sections) > 1 and rule != "worst-group":
        sections.append(_over_datasets(rule, sections))
    return Table(rule, tuple(sections))


def _domains(key: _Key, rule: str, frames: _Frames) -> Section:
    runs, chosen, listed, aside, diverged = frames
    dataset, label, setting = key
    trials, sets = sorted(set(runs["trial"])), runs["hparams_seed"].nunique()
    every = list(dict.fromkeys(name for names in runs["domains"] for name in names))
    tested = {names[0] for names in runs["test_domains"]}
    domains = [name for name in every if name in tested]
    cell = ["algorithm", "test_domain", "trial"]
    there, lost = (Counter(frame[cell].itertuples(index=False, name=None)) for frame in (listed, aside))
    rows = []
    for algorithm in sorted(set(runs["algorithm"]), key=algorithm_order):
        mine = chosen[chosen["algorithm"] == algorithm]
        wide = mine.pivot(index="trial", columns="test_domain", values="test").reindex(index=trials, columns=domains)
        full = [
            all(there[one := (algorithm, domain, trial)] and there[one] + lost[one] == sets for trial in trials)
            for domain in domains
        ]
        cells = [_cell(wide[domain].dropna(), whole) for domain, whole in zip(domains, full, strict=True)]
        cells.append(_cell(wide.dropna().mean(axis=1), all(full)))
        rows.append(Row(algorithm, algorithm_label(algorithm), False, tuple(cells)))
    notes = [
        _HOW[rule],
        f"Best of {pluralize(sets, 'set of hyper-parameters')}. " + _over(len(trials), population=True),
    ]
    average = "average: over domains within each trial, then over trials"
    left = [name for name in every if name not in tested]
    notes.append(f"{average}; {len(domains)} of {len(every)} domains were tested." if left else f"{average}.")
    rows, theirs = _with_published(rows, [*domains, AVERAGE], published_accuracy(rule, dataset))
    notes += _legend(rows, f"{pluralize(len(trials), 'trial')} of {pluralize(sets, 'set')}", _NEEDS.get(rule, ""))
    notes += _diverged(len(diverged))
    notes += [_PUBLISHED_FINE_TUNING, *theirs] if any(row.published for row in rows) else []
    heads = (*(domain_head(dataset, domain) for domain in domains), AVERAGE)
    title = f"{_title(key)}: test accuracy in %, {rule} selection"
    return Section(dataset, label, setting, title, tuple(notes), (*domains, AVERAGE), heads, tuple(rows))


def _worst_group(key: _Key, frames: _Frames, begun: pd.DataFrame) -> Section:
    runs, chosen, listed, aside, diverged = frames
    trials = int(chosen.groupby("algorithm").size().max()) if len(chosen) else 0
    rows = []
    for algorithm in sorted(set(runs["algorithm"]), key=algorithm_order):
        mine = chosen[chosen["algorithm"] == algorithm]
        cells = [
            _cell(mine[column].dropna(), len(mine) == trials, ddof=1, decimals=2) for column in ("average", "test")
        ]
        rows.append(Row(algorithm, algorithm_label(algorithm), False, tuple(cells)))
    tried = {(row.algorithm, row.hparams_seed) for frame in (listed, aside) for row in frame.itertuples()}
    sets = Counter(algorithm for algorithm, _ in tried)
    search = ", ".join(f"{algorithm_label(name)} {sets[name]}" for name in sorted(sets, key=algorithm_order))
    notes = [_HOW["worst-group"], f"Sets of hyper-parameters: {search}. {_over(trials, population=False)}".rstrip()]
    columns = (AVERAGE, WORST_GROUP)
    published, how = published_for_probes(key[0], key[1], begun) if key[2] == "probe" else ({}, [])
    rows, theirs = _with_published(rows, columns, published, decimals=2)
    notes += _legend(rows, pluralize(trials, "trial")) + _diverged(len(diverged))
    notes += [_PUBLISHED_PROBING, *theirs] if any(row.published for row in rows) else []
    notes += how
    title = f"{_title(key)}: test accuracy in %, over all rows and of the worst group, worst-group selection"
    return Section(*key, title, tuple(notes), columns, columns, tuple(rows))


def _over_datasets(rule: str, sections: Sequence[Section]) -> Section:
    keys = [(section.dataset, section.label, section.setting) for section in sections]
    columns = tuple(map(_title, keys))
    # The paper's data sets go by their names. A folder of the same name may hold anything.
    ours = {
        dataset: column for (dataset, _, setting), column in zip(keys, columns, strict=True) if setting == "finetune"
    }
    averages: dict[str, dict[str, Cell]] = defaultdict(dict)
    for column, section in zip(columns, sections, strict=True):
        for row in section.rows:
            if not row.published:
                averages[row.algorithm][column] = row.cells[-1]
    rows = []
    for algorithm in sorted(averages, key=algorithm_order):
        cells = [averages[algorithm].get(column, Cell(None)) for column in columns]
        means = [cell.mean for cell in cells if cell.mean is not None]
        mean = float(np.mean(means)) if len(means) == len(cells) else None
        cells.append(Cell(mean, complete=all(cell.complete for cell in cells)))
        rows.append(Row(algorithm, algorithm_label(algorithm), False, tuple(cells)))
    found = [published_averages(rule, baselines=baselines) for baselines in (False, True)]
    theirs: dict[str, dict[str, PublishedNumber]] = {}
    for table in reversed(found):  # the main table's average goes before the baselines'
        for algorithm, numbers in table.items():
            same = set(ours) == set(numbers) - {AVERAGE} and len(ours) == len(columns)
            kept = {ours[name]: value for name, value in numbers.items() if name in ours}
            kept |= {AVERAGE: numbers[AVERAGE]} if same and AVERAGE in numbers else {}
            theirs.setdefault(algorithm, {}).update(kept)
    rows, marks = _with_published(rows, [*columns, AVERAGE], theirs)
    notes = [_HOW[rule], "average: of the data sets' averages."]
    notes += _legend(rows, "the runs of their data set")
    notes += [_PUBLISHED_FINE_TUNING, *marks] if any(row.published for row in rows) else []
    title = f"All data sets: test accuracy in %, {rule} selection"
    return Section("", "", "", title, tuple(notes), (*columns, AVERAGE), (*columns, AVERAGE), tuple(rows))


def _cell(values: pd.Series, complete: bool, *, ddof: int = 0, decimals: int = 1) -> Cell:
    """Mean over trials and its error; one trial has none."""
    count = len(values)
    if not count:
        return Cell(None, complete=False, decimals=decimals)
    error = 100 * float(np.std(values, ddof=ddof)) / float(np.sqrt(count)) if count > 1 else None
    return Cell(100 * float(np.mean(values)), error, count, complete, decimals=decimals)


def _with_published(
    rows: Sequence[Row],
    columns: Sequence[str],
    published: Mapping[str, Mapping[str, PublishedNumber]],
    decimals: int = 1,
) -> tuple[list[Row], list[str]]:
    """Each of our rows followed by the paper's, where it has one; and what is wrong with the paper's numbers."""
    both: list[Row] = []
    wrong: list[str] = []
    for row in rows:
        both.append(row)
        numbers = [published.get(row.algorithm, {}).get(column) for column in columns]
        if any(number is not None for number in numbers):
            cells = [
                Cell(None, expected=False)
                if number is None
                else Cell(number.mean, number.error, mark=_NOTE if number.note else "", decimals=decimals)
                for number in numbers
            ]
            both.append(Row(row.algorithm, row.label, True, tuple(cells)))
            wrong += [number.note for number in numbers if number is not None and number.note]
    return both, [f"{_NOTE} {note}." for note in dict.fromkeys(wrong)]


def _legend(rows: Sequence[Row], whole: str, needs: str = "") -> list[str]:
    cells = [cell for row in rows if not row.published for cell in row.cells]
    lines = []
    if any(cell.mean is None for cell in cells):
        lines.append(f"{MISSING} no finished run that could be selected{needs}.")
    if any(cell.mean is not None and not cell.complete for cell in cells):
        lines.append(f"{INCOMPLETE} over fewer finished runs than {whole}.")
    return lines


def _diverged(number: int) -> list[str]:
    what = "accuracies do not count from the record on where the loss is not a number"
    return [f"{pluralize(number, 'run')} diverged: {what}."] if number else []


def _over(trials: int, *, population: bool) -> str:
    if not trials:
        return ""
    if trials < 2:
        return "One trial, so there is no ±."
    what = (
        "population standard deviation / √trials"
        if population
        else "standard error (standard deviation with ddof 1 / √trials)"
    )
    return f"Mean over {trials} trials ± {what}."


def _title(key: _Key) -> str:
    _, label, setting = key
    return label if setting == "finetune" else f"{label} ({setting})"


def _of(frame: pd.DataFrame, key: _Key) -> pd.DataFrame:
    return frame[(frame["dataset"] == key[0]) & (frame["setting"] == key[2])]

"""Accuracy tables of a sweep under a selection rule, with the published numbers beside ours."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from momentalign._format import pluralize
from momentalign.algorithms import PLAIN_MODELS
from momentalign.published import AVERAGE, PublishedNumber, published_accuracy, published_averages
from momentalign.report._comparison import compare
from momentalign.report._group_table import group_measures, group_section
from momentalign.report._names import (
    algorithm_label,
    algorithm_order,
    dataset_labels,
    dataset_order,
    domain_head,
    list_algorithms,
)
from momentalign.report._published_rows import PUBLISHED_FINE_TUNING, with_published
from momentalign.report._sections import (
    SectionFrames,
    SectionKey,
    SectionRule,
    diverged_note,
    error_note,
    mark_notes,
    plain_note,
    safe_note,
    trial_cell,
)
from momentalign.report._table import ResultCell, ResultRow, ResultTable, TableSection
from momentalign.selection import GROUP_RULES, REACH, Sweep, candidates, held_out_rows, select, set_aside, with_averages

_EXTRA_RUNS = {
    "leave-one-domain-out": "; the rule also needs a run for each pair of test domains, which "
    "sweep --select leave-one-domain-out adds"
}


def accuracy_table(sweep: Sweep, rule: str, *, reach: float = REACH) -> ResultTable:
    """Test accuracy per domain, with averages.

    A cell is the mean over trials × 100, ± the population standard deviation / √trials; averages are over domains
    within each trial first. For data with groups ± is the standard error with ddof 1. Cells without a finished run and
    cells over fewer runs than the rest of their data set are marked. A set of hyper-parameters that diverged counts as
    tried, not as missing.

    Args:
        sweep: Runs and records.
        rule: A selection rule, see :func:`momentalign.selection.select`.
        reach: Of "extrapolated": how far outside the hull of the training domains the test domain may lie.

    Returns:
        A section for each data set with runs that the rule applies to, and one over data sets if there are several.
        Averaged weights have rows of their own, see :func:`momentalign.selection.with_averages`.
    """
    sweep = with_averages(sweep)
    chosen, listed, aside = (choose(sweep, rule, reach=reach) for choose in (select, candidates, set_aside))
    diverged = sweep.runs.loc[sweep.diverged().index]
    runs = pd.concat([sweep.runs[list(sweep.planned)], sweep.planned])
    if rule in GROUP_RULES:
        grouped = {*listed["dataset"], *aside["dataset"]}
        runs = runs[[dataset in grouped for dataset in runs["dataset"]]]
    else:
        runs = runs[[len(domains) == 1 for domains in runs["test_domains"]]]
        used = (1, 2) if rule == "leave-one-domain-out" else (1,)
        diverged = diverged[diverged["test_domains"].map(len).isin(used)]
    labels = dataset_labels([*sweep.runs["dataset"], *sweep.planned["dataset"]])
    pairs = set(zip(runs["dataset"], runs["setting"], strict=True))
    keys = [SectionKey(dataset, labels[dataset], setting) for dataset, setting in pairs]
    keys.sort(key=lambda key: (dataset_order(key.dataset), key.setting))
    measures = group_measures(sweep, chosen) if rule in GROUP_RULES else pd.DataFrame()
    timed = sweep.runs.assign(seconds=sweep.seconds())
    sections = []
    for key in keys:
        frames = SectionFrames(*map(key.filter, (runs, chosen, listed, aside, diverged)))
        if rule in GROUP_RULES:
            own = measures.loc[frames.chosen.index]
            section = group_section(key, rule, frames, key.filter(sweep.runs), own)
        else:
            unknown = _without_rows(sweep.runs, frames.candidates) if rule == "extrapolated" else []
            more = [*safe_note(key.filter(sweep.runs)), *unknown]
            section = _domain_section(key, SectionRule(rule, reach), frames, more)
        sections.append(replace(section, comparison=compare(frames.chosen, key.filter(timed))))
    if len(sections) > 1 and rule not in GROUP_RULES:
        sections.append(_section_over_datasets(SectionRule(rule, reach), keys, sections))
    return ResultTable(rule, tuple(sections))


def _domain_section(
    key: SectionKey, rule: SectionRule, frames: SectionFrames, more_notes: Sequence[str]
) -> TableSection:
    runs = frames.runs
    trials, sets = sorted(set(runs["trial"])), runs["hparams_seed"].nunique()
    every = list(dict.fromkeys(name for names in runs["domains"] for name in names))
    tested = {names[0] for names in runs["test_domains"]}
    domains = [name for name in every if name in tested]
    columns = ["algorithm", "test_domain", "trial"]
    finished, diverged = (
        Counter(frame[columns].itertuples(index=False, name=None)) for frame in (frames.candidates, frames.set_aside)
    )
    rows = []
    for algorithm in list_algorithms(runs):
        own = frames.chosen[frames.chosen["algorithm"] == algorithm]
        wide = own.pivot(index="trial", columns="test_domain", values="test").reindex(index=trials, columns=domains)
        tried = 1 if algorithm in PLAIN_MODELS else sets
        complete = [
            all(finished[cell := (algorithm, domain, trial)] and finished[cell] + diverged[cell] == tried
                for trial in trials)
            for domain in domains
        ]  # fmt: skip
        cells = [trial_cell(wide[domain].dropna(), done) for domain, done in zip(domains, complete, strict=True)]
        cells.append(trial_cell(wide.dropna().mean(axis=1), all(complete)))
        rows.append(ResultRow(algorithm, algorithm_label(algorithm), False, tuple(cells)))
    best = f"Best of {pluralize(sets, 'set of hyper-parameters')}."
    average = "average: over domains within each trial, then over trials"
    some = f"; {len(domains)} of {len(every)} domains were tested" if len(domains) < len(every) else ""
    notes = [rule.note, f"{best} {error_note(len(trials), population=True)}", f"{average}{some}."]
    published = published_accuracy(rule.name, key.dataset)
    if some:  # the published average is over all domains
        published = {
            name: {domain: numbers[domain] for domain in domains if domain in numbers}
            for name, numbers in published.items()
        }
    rows, source = with_published(rows, [*domains, AVERAGE], published, PUBLISHED_FINE_TUNING)
    notes += mark_notes(
        rows, f"{pluralize(len(trials), 'trial')} of {pluralize(sets, 'set')}", _EXTRA_RUNS.get(rule.name, "")
    )
    notes += [*plain_note(rows), *more_notes, *diverged_note(frames.diverged), *source]
    heads = (*(domain_head(key.dataset, domain) for domain in domains), AVERAGE)
    title = f"{key.title}: test accuracy in %, {rule.title}"
    return TableSection(*key, title, tuple(notes), (*domains, AVERAGE), heads, tuple(rows))


def _section_over_datasets(
    rule: SectionRule, keys: Sequence[SectionKey], sections: Sequence[TableSection]
) -> TableSection:
    datasets = tuple(key.title for key in keys)
    columns = (*datasets, AVERAGE)
    averages: dict[str, dict[str, ResultCell]] = defaultdict(dict)
    for column, section in zip(datasets, sections, strict=True):
        for row in section.rows:
            if not row.published:
                averages[row.algorithm][column] = row.cells[-1]
    rows = []
    for algorithm in sorted(averages, key=algorithm_order):
        cells = [averages[algorithm].get(column, ResultCell(None)) for column in datasets]
        means = [cell.mean for cell in cells if cell.mean is not None]
        mean = float(np.mean(means)) if len(means) == len(cells) else None
        cells.append(ResultCell(mean, complete=all(cell.complete for cell in cells)))
        rows.append(ResultRow(algorithm, algorithm_label(algorithm), False, tuple(cells)))
    # By name: a folder that is named like one of the paper's data sets keeps its path as `dataset`.
    ours = {key.dataset: key.title for key in keys if key.setting == "finetune"}
    published: dict[str, dict[str, PublishedNumber]] = {}
    for baselines in (True, False):  # the main table's average replaces the baselines'
        for algorithm, numbers in published_averages(rule.name, baselines=baselines).items():
            own = {ours[name]: value for name, value in numbers.items() if name in ours}
            if set(ours) == set(numbers) - {AVERAGE} and len(ours) == len(datasets) and AVERAGE in numbers:
                own[AVERAGE] = numbers[AVERAGE]
            published.setdefault(algorithm, {}).update(own)
    rows, source = with_published(rows, columns, published, PUBLISHED_FINE_TUNING)
    notes = [rule.note, "average: of the data sets' averages."]
    notes += [*mark_notes(rows, "the runs of their data set"), *source]
    title = f"All data sets: test accuracy in %, {rule.title}"
    return TableSection("", "", "", title, tuple(notes), columns, columns, tuple(rows))


def _without_rows(runs: pd.DataFrame, candidates: pd.DataFrame) -> list[str]:
    """Note on candidates of "extrapolated" without recorded row counts, which standard errors need."""
    own = runs.loc[candidates["run"]].drop_duplicates("folder")
    lacking = sum(
        held_out_rows(rows, domains) is None for rows, domains in zip(own["rows"], own["domains"], strict=True)
    )
    which = "The runs" if lacking == len(own) else f"{lacking} of {pluralize(len(own), 'run')}"
    return [f"{which} did not record numbers of rows: standard errors of 0 were used."] if lacking else []

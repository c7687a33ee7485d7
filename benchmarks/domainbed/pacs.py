"""Tables of docs/results/pacs.md."""

import statistics
from collections.abc import Mapping, Sequence

from benchmarks.domainbed.page import (
    NO_RUNS,
    RULES,
    difference_table,
    difference_text,
    mean_differences,
    method_label,
    read_lines,
    table_text,
)
from benchmarks.domainbed.plans import STUDIES
from benchmarks.frozen import FROZEN, frozen_table
from benchmarks.markdown import number, table
from benchmarks.pages import PageContent, StudyPage
from benchmarks.records import SWEEP_RUNS, Line, RecordFile, json_lines
from momentalign.algorithms import find_algorithm
from momentalign.runs import AVERAGED, Sweep
from momentalign.selection import select

STUDY = STUDIES["pacs"]


def make_page(records: Mapping[str, list[Line]]) -> PageContent:
    """Tables of the runs, the check of ERM by a plain script, and models of frozen features."""
    lines = [with_whole_averages(line) for line in records["pacs"] if STUDY.covers(line["run"]["config"])]
    blocks = {
        "count": f"{len(lines)} of {STUDY.size()}",
        "plain": plain_table(records["pacs-plain"], records["pacs"]),
        "frozen": frozen_table(records["pacs-frozen"]),
    }
    sweep = read_lines(lines) if lines else None
    for rule in RULES:
        blocks[rule] = NO_RUNS if sweep is None else table_text(sweep, rule)
        blocks[f"verdict-{rule}"] = NO_RUNS if sweep is None else verdict(sweep, rule)
    blocks["differences"] = NO_RUNS if sweep is None else difference_table(sweep)
    blocks["before"] = NO_RUNS if sweep is None else before_table(sweep, lines)
    blocks["change"] = change_table(lines)
    return PageContent(blocks)


def with_whole_averages(line: Line) -> Line:
    """A run whose averages have all records: before an average begins, which older runs left out, it is the weights."""
    curves = line["curves"]
    whole = {
        name: [
            own if value is None else value
            for value, own in zip(curve, curves[name.removeprefix(AVERAGED)], strict=True)
        ]
        for name, curve in curves.items()
    }
    return {**line, "curves": whole}


def verdict(sweep: Sweep, rule: str) -> str:
    """Methods above and below ERM by more than the interval of the paired difference."""
    differences = [each for each in mean_differences(select(sweep, rule)).values() if each.found]
    sides: dict[str, list[str]] = {"above": [], "below": []}
    for each in differences:
        side = sides["above" if each.points > 0 else "below"]
        side.append(f"{method_label(each.algorithm)} ({difference_text(each)})")
    return "; ".join(f"{side} ERM: {', '.join(names) or 'none'}" for side, names in sides.items())


def before_table(sweep: Sweep, lines: Sequence[Line]) -> str:
    """How often selection keeps a record from before the penalty counts, for methods with annealing."""
    starts = {line["run"]["hash"]: line["run"]["config"]["hparams"].get("anneal_steps") for line in lines}
    rows = []
    for name in STUDY.parts[0].algorithms:
        cells = []
        for rule in RULES:
            chosen = select(sweep, rule)
            pairs = [(row.step, starts[row.run]) for row in chosen[chosen["algorithm"] == name].itertuples()]
            kept = [step < start for step, start in pairs if start]
            cells.append(f"{sum(kept)} of {len(kept)}" if kept else "")
        if any(cells):
            rows.append([find_algorithm(name).label, *cells])
    return table(["records before the penalty counts", *RULES], rows)


def change_table(lines: Sequence[Line]) -> str:
    """Points from the last record before the penalty counts to the last one, by method with annealing and set."""
    found: dict[tuple[str, int], list[float]] = {}
    for line in lines:
        config = line["run"]["config"]
        start = config["hparams"].get("anneal_steps")
        if start:
            tests = line["curves"][f"accuracy|in|{config['test_domains'][0]}"]
            before = sum(step < start for step in line["steps"]) - 1
            change = 100 * (tests[-1] - tests[before])
            found.setdefault((config["algorithm"], config["hparams_seed"]), []).append(change)
    sets = range(max(part.hparams for part in STUDY.parts))
    rows = []
    for name in STUDY.parts[0].algorithms:
        if any((name, each) in found for each in sets):
            cells = [found.get((name, each), []) for each in sets]
            rows.append([find_algorithm(name).label, *(_mean_and_range(cell) for cell in cells)])
    return table(["points", *("defaults" if each == 0 else f"set {each}" for each in sets)], rows)


def _mean_and_range(values: Sequence[float]) -> str:
    if not values:
        return ""
    mean, low, high = (number(value, sign=True) for value in (statistics.fmean(values), min(values), max(values)))
    return f"{mean} ({low} to {high})"


def plain_table(plain: Sequence[Line], runs: Sequence[Line]) -> str:
    """ERM's accuracies in trial 0 with its defaults, in both precisions, below the plain script's."""
    found: dict[str, dict[str, tuple[float, float]]] = {"plain script, float32": {}}
    for line in plain:
        if line["trial"] == 0:
            found["plain script, float32"][line["test_domain"]] = (line["training-domain"], line["last"])
    for line in runs:
        config = line["run"]["config"]
        if (config["algorithm"], config["trial"], config["hparams_seed"]) == ("erm", 0, 0):
            test = config["test_domains"][0]
            tests = line["curves"][f"accuracy|in|{test}"]
            held_out = [line["curves"][f"accuracy|out|{name}"] for name in STUDY.domains if name != test]
            means = [statistics.fmean(values) for values in zip(*held_out, strict=True)]
            name = {"32": "this package, float32", "bf16": "this package, bfloat16"}[config["precision"]]
            found.setdefault(name, {})[test] = (tests[means.index(max(means))], tests[-1])
    rows = []
    for name, values in found.items():
        if set(values) == set(STUDY.domains):
            pairs = [values[domain] for domain in STUDY.domains]
            pairs.append((statistics.fmean(x for x, _ in pairs), statistics.fmean(x for _, x in pairs)))
            rows.append([name, *(" / ".join(number(100 * value) for value in pair) for pair in pairs)])
    return table(["", *STUDY.domains, "average"], rows)


PLAIN = RecordFile(("test_domain", "trial"), json_lines)
"""What benchmarks/plain_finetuning.py prints."""
PAGE = StudyPage({"pacs": SWEEP_RUNS, "pacs-plain": PLAIN, "pacs-frozen": FROZEN}, make_page)

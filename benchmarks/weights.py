"""Numbers of docs/choosing-weights.md."""

import math
import statistics
from collections.abc import Mapping, Sequence

from benchmarks.fine_tuning.page import PACS_SERIES
from benchmarks.fine_tuning.page import PAGE as FINE_TUNING
from benchmarks.fine_tuning.settings import SETTLING
from benchmarks.markdown import number, table
from benchmarks.pages import PageContent, StudyPage
from benchmarks.records import Line, RecordFile, json_lines

TERMS = ("gradient", "hessian")


def make_page(records: Mapping[str, list[Line]]) -> PageContent:
    """What the published weights do to a pretrained network, and how large the terms are in its first step."""
    runs, terms = records["fine-tuning"], {line["case"]: line for line in records["terms"]}
    losses = [line["cross_entropy"] for line in terms.values()]
    blocks = {
        "erm": _accuracy(runs, "ERM"),
        "published": _accuracy(runs, "published"),
        "loss": number(losses[0]) if losses else "?",
        "terms": term_table(terms),
    }
    return PageContent(blocks)


def term_table(terms: Mapping[str, Line]) -> str:
    """Unweighted terms by scaling, and what they add to the loss with the weights of a preset."""
    rows = []
    for case, line in terms.items():
        weights = [line["hparams"][f"{name}_weight"] for name in TERMS]
        added = sum(weight * line[name] for weight, name in zip(weights, TERMS, strict=True))
        preset = f"{quantity(added)} ({case}, {weights[0]:g} and {weights[1]:g})" if case != "none" else ""
        rows.append([f'`"{line["hparams"]["scaling"]}"`', *(quantity(line[name]) for name in TERMS), preset])
    return table(["`scaling=`", "gradient", "Hessian", "with the default weights of `train` they add"], rows)


def quantity(value: float) -> str:
    """Two significant digits, large numbers with commas."""
    digits = 1 - math.floor(math.log10(abs(value))) if value else 0
    return f"{round(value, digits):,.{max(digits, 0)}f}"


def _accuracy(runs: Sequence[Line], setting: str) -> str:
    """Mean accuracy in % on the left-out domains of PACS, seed of the published weights."""
    found = [
        100 * line["last"]
        for line in runs
        if (line["series"], line["setting"], line["seed"]) == (PACS_SERIES, setting, SETTLING)
    ]
    return number(statistics.fmean(found), 0)


PAGE = StudyPage(
    {"terms": RecordFile(("dataset", "case"), json_lines), **FINE_TUNING.files}, make_page, ("choosing-weights.md",)
)

"""Numbers of README.md and docs/index.md, and the demo's table."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from benchmarks.costs.page import PAGE as COSTS
from benchmarks.costs.page import cma_span
from benchmarks.costs.performance import small_step
from benchmarks.costs.rows import PERFORMANCE
from benchmarks.domainbed.page import read_lines, select_runs, subset
from benchmarks.domainbed.plans import STUDIES
from benchmarks.domainbed.study import Part
from benchmarks.estimators.page import PAGE as ESTIMATORS
from benchmarks.estimators.page import mean_gains
from benchmarks.estimators.sets import SETS
from benchmarks.groups.facts import sentence_numbers
from benchmarks.groups.page import PAGE as GROUPS
from benchmarks.groups.study import GroupStudy
from benchmarks.markdown import number
from benchmarks.pages import PageContent, StudyPage
from benchmarks.records import SWEEP_RUNS, Line
from momentalign.report import accuracy_table

STUDY, NEW = STUDIES["colored-mnist"], "-90%"
RULES = ("training-domain", "extrapolated")
DEMO = Part(("erm", "fishr", "cma-momentum"), 1, 5)
"""The sweep of `make demo`: runs of the study of coloured digits."""
DEMO_TIME, TEST_TIME = "two minutes on two cores", "twelve minutes"
"""How long the commands take, set-up included."""
DIGITS = STUDIES["colored-digits"]
METHODS = {"momentum": "cma-momentum", "fishr": "fishr", "erm": "erm"}


def make_page(records: Mapping[str, list[Line]]) -> PageContent:
    """The demo's table, accuracies on ColoredMNIST's domain -90%, what estimators gain, and what a penalty costs."""
    chosen = select_runs(records["colored-mnist"], STUDY, RULES[1])
    assert chosen is not None
    groups = sentence_numbers(GroupStudy(records["groups"]))
    gains, small = table_gains(records["estimators"]), small_step(records["performance"])
    blocks = {
        "demo": demo_block(records["colored-digits"]),
        "vit-time": cma_span(records["costs"], "seconds", "vit"),
        "small-step": "?" if small is None else number(small),
        **{f"{name}-mnist": _text(chosen, algorithm) for name, algorithm in METHODS.items()},
        **{name: gains[name] for name in ("tables-loss", "tables-gain")},
        "subsampled-gain": groups["subsampled-gain"],
    }
    return PageContent(blocks)


def demo_block(lines: Sequence[Line]) -> str:
    """The README's two commands with what the first prints."""
    names = {line["run"]["hash"] for line in lines if replace(DIGITS, parts=[DEMO]).covers(line["run"]["config"])}
    table = accuracy_table(subset(read_lines(lines), names), RULES[1]).to_text(width=100)
    return (
        f"```console\n$ make demo    # {DEMO_TIME}; ends with runs/report.html\n{table.strip()}\n"
        f"$ make test    # {TEST_TIME}\n```"
    )


def table_gains(lines: Sequence[Line]) -> dict[str, str]:
    """Largest losses and gains: points over the better of scikit-learn's two classifiers, and % of RidgeCV's error."""
    cells = {line["cell"]: line for line in lines}

    def gains(*, regression: bool, small: bool = False) -> list[float]:
        names = [name for name in SETS if SETS[name].regression == regression]
        return [float(mean_gains(cells, name, small=small).mean()) for name in names]

    points, errors = gains(regression=False), gains(regression=True)
    return {
        "tables": str(len(points)),
        "tables-loss": number(-min(points), 2),
        "tables-gain": number(max(points), 2),
        "few-rows-loss": number(-min(gains(regression=False, small=True))),
        "regressions": str(len(errors)),
        "regressions-loss": number(-min(errors)),
        "regressions-gain": number(max(errors)),
    }


def _text(chosen: pd.DataFrame, algorithm: str) -> str:
    """Mean over trials in %, and population standard deviation / √trials."""
    values = 100 * chosen.loc[(chosen["algorithm"] == algorithm) & (chosen["test_domain"] == NEW), "test"]
    return f"{number(values.mean())} ± {number(statistics.pstdev(values) / len(values) ** 0.5)}"


PAGE = StudyPage(
    {
        "colored-mnist": SWEEP_RUNS,
        "colored-digits": SWEEP_RUNS,
        "estimators": ESTIMATORS.files["estimators"],
        "costs": COSTS.files["costs"],
        "performance": PERFORMANCE,
        **GROUPS.files,
    },
    make_page,
    texts=("../README.md", "index.md"),
)

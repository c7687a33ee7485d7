"""Tables and figures of docs/results/selection.md."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import altair as alt
import numpy as np

from benchmarks.domainbed.plans import STUDIES
from benchmarks.figures import Figure, dots
from benchmarks.fine_tuning.page import PACS_SERIES
from benchmarks.fine_tuning.page import PAGE as FINE_TUNING
from benchmarks.markdown import number, table
from benchmarks.pages import PageContent, StudyPage
from benchmarks.records import SWEEP_RUNS, Line
from benchmarks.selection.curves import Curves, sweep_curves, tuning_curves
from benchmarks.selection.rules import choose, rules
from momentalign.algorithms import algorithm_names, find_algorithm

MEAN = "mean accuracy (training-domain)"
RANGE = "range, λ = 2"
ORACLE = "oracle (labels of the test domain, last record)"
NAMES = {MEAN: "mean (training-domain)", RANGE: "**range, λ = 2 (extrapolated)**", ORACLE: "oracle"}
FIGURE_NAMES = {MEAN: "mean (training-domain)", RANGE: "range, λ = 2 (extrapolated)", ORACLE: "oracle"}
SHOWN = (
    MEAN,
    "range, λ = 0",
    "range, λ = 1",
    RANGE,
    "range, λ = 3",
    "range, λ = 5",
    "range, λ = 2, z = 0",
    "range, λ = 5, z = 0",
    "sum over domains, λ = 2",
    "losses, λ = 2",
    "losses, λ = 3",
    "losses, λ = 5",
    "mean − 1 · gradient gap",
    "mean − 10 · gradient gap",
    "mean − 10 · hessian gap",
    ORACLE,
)
BRIEF = (MEAN, "range, λ = 0", RANGE, "range, λ = 5", "range, λ = 2, z = 0", "sum over domains, λ = 2", ORACLE)
AVERAGE = "+average"
OTHER = {
    "pacs": "PACS",
    "rotated-digits": "rotated digits",
    "colored-digits": "coloured digits",
    "rand-doctor-visit": "doctor visits",
    "cannabis-country": "cannabis",
    "penguin-sex": "penguins",
}
SMALL_SERIES = "settling"
"""Series of fine-tuning runs on digits and tables: all settings with relative scaling."""


class Chosen(NamedTuple):
    """Accuracies on the test domains of what a rule chose, over the trials that have every test domain."""

    by_trial: list[float]
    by_domain: dict[str, float]

    @property
    def text(self) -> str:
        """Mean over trials ± population standard deviation / √trials."""
        if not self.by_trial:
            return "–"
        error = f" ± {number(self.error)}" if len(self.by_trial) > 1 else ""
        return number(statistics.fmean(self.by_trial)) + error

    @property
    def error(self) -> float:
        """Population standard deviation / √trials."""
        return float(np.std(self.by_trial) / np.sqrt(len(self.by_trial)))


class Results:
    """What the rules choose for each algorithm of a data set."""

    def __init__(self, curves: Sequence[Curves], shown: Sequence[str]) -> None:
        self.algorithms = _ordered({run.cell[1] for run in curves})
        self.domains = sorted({run.cell[2] for run in curves})
        self.sets = Counter(run.cell for run in curves)
        self._chosen = {name: choose(curves, rules()[name]) for name in shown}

    def chosen(self, rule: str, algorithm: str) -> Chosen:
        """What a rule chose for an algorithm."""
        by_trial: dict[int, dict[str, float]] = defaultdict(dict)
        for (_, name, domain, trial), test in self._chosen[rule].items():
            if name == algorithm:
                by_trial[trial][domain] = test
        complete = [found for _, found in sorted(by_trial.items()) if found.keys() >= set(self.domains)]
        means = [statistics.fmean(found.values()) for found in complete]
        domains = {domain: statistics.fmean(found[domain] for found in complete) for domain in self.domains if complete}
        return Chosen(means, domains)


def make_page(records: Mapping[str, list[Line]]) -> PageContent:
    """Tables of every data set, and the accuracies under three rules as figures."""
    coloured, rotated = (  # the files have runs of further studies
        list(sweep_curves(line for line in records[name] if STUDIES[name].covers(line["run"]["config"])))
        for name in ("colored-mnist", "rotated-mnist")
    )
    raw = Results([run for run in coloured if not run.cell[1].endswith(AVERAGE)], SHOWN)
    averaged = Results([run for run in coloured if run.cell[1].endswith(AVERAGE)], (MEAN, RANGE, ORACLE))
    others = _others(records["fine-tuning"])
    blocks = {
        "colored-mnist": _rules_table(raw, SHOWN),
        "colored-mnist-runs": _runs_table(raw),
        "colored-mnist-domains": _domains_table(raw),
        "colored-mnist-averaged": _rules_table(averaged, (MEAN, RANGE, ORACLE)),
        "images": _others_table(others, list(OTHER)[:3]),
        "tables": _others_table(others, list(OTHER)[3:]),
        "rotated-mnist": _rules_table(
            Results([run for run in rotated if not run.cell[1].endswith(AVERAGE)], BRIEF), BRIEF
        ),
        "momentum-mean": raw.chosen(MEAN, "cma-momentum").text,
        "momentum-range": raw.chosen(RANGE, "cma-momentum").text,
    }
    figures = {
        "colored-mnist": Figure(_coloured_rows(raw, averaged), _draw_coloured),
        "gain": Figure(_gain_rows(others, raw), _draw_gain),
    }
    return PageContent(blocks, figures)


def _others(lines: Sequence[Line]) -> dict[str, Results]:
    """Fine-tuning runs by data set: ERM, and the settings with relative scaling as sets of CMA."""
    used = [
        line
        for line in lines
        if line["series"] == (PACS_SERIES if line["dataset"] == "pacs" else SMALL_SERIES)
        and line["setting"].startswith(("ERM", "relative"))
    ]
    curves = list(tuning_curves(used))
    return {name: Results([run for run in curves if run.cell[0] == name], BRIEF) for name in OTHER}


def _ordered(algorithms: set[str]) -> list[str]:
    """CMA's kinds first, then the others in the catalogue's order, ERM last."""
    names = list(algorithm_names())

    def position(algorithm: str) -> tuple[bool, bool, int, str]:
        name = algorithm.removesuffix(AVERAGE)
        return name == "erm", not name.startswith("cma"), names.index(name), algorithm

    return sorted(algorithms, key=position)


def _label(algorithm: str) -> str:
    return find_algorithm(algorithm.removesuffix(AVERAGE)).label


def _rules_table(results: Results, shown: Sequence[str]) -> str:
    head = ["rule", *map(_label, results.algorithms)]
    rows = [
        [NAMES.get(rule, rule), *(results.chosen(rule, algorithm).text for algorithm in results.algorithms)]
        for rule in shown
    ]
    return table(head, rows)


def _runs_table(results: Results) -> str:
    """How many trials each method has, and how many sets of hyper-parameters in each trial and test domain."""
    rows = []
    for algorithm in results.algorithms:
        sets: dict[int, list[int]] = defaultdict(list)
        for (_, name, _, trial), count in results.sets.items():
            if name == algorithm:
                sets[trial].append(count)
        texts = [
            f"{trial}: {min(counts)}" + (f" to {max(counts)}" if max(counts) > min(counts) else "")
            for trial, counts in sorted(sets.items())
        ]
        rows.append([_label(algorithm), "; ".join(texts)])
    return table(["method", "sets in each trial"], rows, left=(0, 1))


def _domains_table(results: Results) -> str:
    rows = []
    for algorithm in results.algorithms:
        found = [results.chosen(rule, algorithm).by_domain for rule in (MEAN, RANGE)]
        cells = [number(domains[name]) if domains else "–" for domains in found for name in results.domains]
        rows.append([_label(algorithm), *cells])
    head = [f"{rule}, {domain}" for rule in ("mean", "λ = 2") for domain in results.domains]
    return table(["", *head], rows)


def _others_table(others: Mapping[str, Results], datasets: Sequence[str]) -> str:
    columns = [(name, algorithm) for name in datasets for algorithm in ("erm", "cma")]
    head = ["rule", *(f"{OTHER[name]}, {_label(algorithm)}" for name, algorithm in columns)]
    rows = [
        [NAMES.get(rule, rule), *(others[name].chosen(rule, algorithm).text for name, algorithm in columns)]
        for rule in BRIEF
    ]
    return table(head, rows)


def _coloured_rows(raw: Results, averaged: Results) -> list[dict[str, Any]]:
    rows = []
    for weights, results in (("raw weights", raw), ("averaged weights", averaged)):
        for rule, name in FIGURE_NAMES.items():
            for algorithm in results.algorithms:
                found = results.chosen(rule, algorithm)
                if found.by_trial:
                    mean, error = statistics.fmean(found.by_trial), found.error
                    ends = {"low": round(mean - error, 3), "high": round(mean + error, 3)} if error else {}
                    row = {"row": _label(algorithm), "name": name, "weights": weights, "mean": round(mean, 3)}
                    rows.append(row | ends)
    return rows


def _gain_rows(others: Mapping[str, Results], coloured: Results) -> list[dict[str, Any]]:
    """Accuracy by the range minus that by the mean."""
    cases = [("ColoredMNIST", coloured, {"erm": "erm", "cma": "cma-momentum"})]
    cases += [(OTHER[name], results, {"erm": "erm", "cma": "cma"}) for name, results in others.items()]
    rows = []
    for title, results, algorithms in cases:
        for name, algorithm in algorithms.items():
            ours, theirs = (results.chosen(rule, algorithm).by_trial for rule in (RANGE, MEAN))
            if ours:
                gain = statistics.fmean(ours) - statistics.fmean(theirs)
                rows.append({"row": title, "name": find_algorithm(name).label, "mean": round(gain, 3)})
    return rows


def _draw_coloured(data: alt.Data) -> Any:
    order = list(dict.fromkeys(row["row"] for row in data.to_dict()["values"]))
    parts = [
        dots(
            data,
            x="accuracy, mean of three test domains",
            names=list(FIGURE_NAMES.values()),
            sort=order,
            where=f"datum.weights == '{weights}'",
            zero=False,
            width=280,
        ).properties(title=weights)
        for weights in ("raw weights", "averaged weights")
    ]
    return alt.hconcat(*parts).resolve_scale(x="shared")


def _draw_gain(data: alt.Data) -> Any:
    labels = [find_algorithm(name).label for name in ("erm", "cma")]
    title = "points gained by extrapolated over training-domain selection"
    return dots(data, x=title, names=labels, sort=["ColoredMNIST", *OTHER.values()])


PAGE = StudyPage(
    {"colored-mnist": SWEEP_RUNS, "rotated-mnist": SWEEP_RUNS, **FINE_TUNING.files},
    make_page,
)

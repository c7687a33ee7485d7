"""Tables and figures of docs/results/fine-tuning.md."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt

from benchmarks.figures import Figure, dots
from benchmarks.fine_tuning.settings import SETTLING, STUDIES
from benchmarks.markdown import mean_with_error, number, standard_error, table
from benchmarks.pages import PageContent, StudyPage
from benchmarks.records import Line, RecordFile, json_lines

SAFE = "relative 0.1, 0.1"
MOMENTUM = "relative 1, 1, momentum 0.95"
LABELS = {SAFE: f"{SAFE} (safe)", MOMENTUM: "1, 1, momentum 0.95"}
SETS = {
    "pacs": "PACS, MobileNetV2",
    "rotated-digits": "RotatedDigits",
    "colored-digits": "ColoredDigits",
    "rand-doctor-visit": "rand-doctor-visit",
    "cannabis-country": "cannabis-country",
    "penguin-sex": "penguin-sex",
}
CONFIRMED = (SAFE, "relative 1, 1", MOMENTUM)
SETTLED = (*CONFIRMED, "relative 10, 10", "relative 1, 0", "relative 0, 1")
PACS_SERIES = "pacs"
BOUND = 1.0
"""Points below ERM that a run of a safe setting may end."""

Gains = dict[tuple[str, int], float]
"""Differences from ERM in points, by left-out domain and seed."""


def series_lines(file: Path) -> Iterator[Line]:
    """Runs of a file; its name is their series, within which they are compared."""
    for line in json_lines(file):
        yield {"series": file.stem, **line}


def make_page(records: Mapping[str, list[Line]]) -> PageContent:
    """Tables of the settling and the confirming seeds, PACS by domain, and the published weights."""
    runs = records["fine-tuning"]
    settling = _select(runs, ("settling",), [SETTLING])
    confirming = [line for line in _select(runs, (PACS_SERIES, "confirming")) if line["seed"] != SETTLING]
    published = _select(runs, (PACS_SERIES, "published"), [SETTLING])
    pacs = _select(runs, (PACS_SERIES,))
    blocks = {
        "settled": _differences(settling, SETTLED),
        "confirmed": _differences(confirming, CONFIRMED),
        "confirmed-averaged": _differences(confirming, CONFIRMED, "averaged"),
        "published": _differences(published, ("published",)),
        "published-averaged": _differences(published, ("published",), "averaged"),
        "pacs": _by_domain(pacs),
        "pacs-bound": _bound(pacs),
        "repeated": _repeated(runs),
        "short": _short(_select(runs, ("short",))),
    }
    figures = {
        "differences": Figure(_difference_rows(confirming), _draw_differences),
        "pacs": Figure(_pacs_rows(pacs), _draw_pacs),
    }
    return PageContent(blocks, figures)


def _select(runs: Sequence[Line], series: Sequence[str], seeds: Sequence[int] | None = None) -> list[Line]:
    return [line for line in runs if line["series"] in series and (seeds is None or line["seed"] in seeds)]


def gains(runs: Sequence[Line], dataset: str, setting: str, score: str = "last") -> Gains:
    """Differences of a setting from ERM on the same left-out domain and seed."""
    own = [line for line in runs if line["dataset"] == dataset and line.get(score) is not None]
    plain = {(line["domain"], line["seed"]): line[score] for line in own if line["setting"] == "ERM"}
    found = {(line["domain"], line["seed"]): line[score] for line in own if line["setting"] == setting}
    return {cell: 100 * (found[cell] - plain[cell]) for cell in sorted(found) if cell in plain}


def _differences(runs: Sequence[Line], settings: Sequence[str], score: str = "last") -> str:
    """A row for each data set: ERM's accuracy, then every setting's mean difference from it and the worst one."""
    rows = []
    for dataset, title in SETS.items():
        found = [gains(runs, dataset, setting, score) for setting in settings]
        compared = set().union(*found)
        plain = [
            100 * line[score]
            for line in runs
            if (line["dataset"], line["setting"]) == (dataset, "ERM") and (line["domain"], line["seed"]) in compared
        ]
        if plain:
            cells = [_cell(differences, len(plain)) for differences in found]
            rows.append([f"{title} ({len(plain)})", number(statistics.fmean(plain)), *cells])
    return table(["left-out domains of (runs)", "ERM", *(LABELS.get(name, name) for name in settings)], rows)


def _cell(differences: Gains, runs: int) -> str:
    if not differences:
        return ""
    values = list(differences.values())
    fewer = f" ({len(values)} runs)" if len(values) < runs else ""
    return f"{mean_with_error(values, sign=True)}, worst {number(min(values), sign=True)}{fewer}"


def _by_domain(runs: Sequence[Line]) -> str:
    """PACS: accuracies of every seed by left-out domain, raw and averaged, with the mean over the runs."""
    domains, rows = STUDIES["pacs"].domains["pacs"], []
    for score, suffix in (("last", ""), ("averaged", ", averaged")):
        for setting in ("ERM", *CONFIRMED, "published"):
            values = {(line["domain"], line["seed"]): 100 * line[score] for line in runs if line["setting"] == setting}
            if values:
                cells = [
                    " / ".join(number(values[key]) for key in sorted(values) if key[0] == name) for name in domains
                ]
                rows.append([LABELS.get(setting, setting) + suffix, *cells, number(statistics.fmean(values.values()))])
    return table(["", *domains, "mean"], rows)


def _bound(runs: Sequence[Line]) -> str:
    """PACS: mean and worst difference of each setting from ERM, and how many runs are below the bound."""
    rows = []
    for score, name in (("last", "raw"), ("averaged", "averaged")):
        for setting in (*CONFIRMED, "published"):
            values = list(gains(runs, "pacs", setting, score).values())
            if values:
                below = sum(value < -BOUND for value in values)
                rows.append(
                    [
                        LABELS.get(setting, setting),
                        name,
                        mean_with_error(values, 2, sign=True),
                        number(min(values), sign=True),
                        f"{below} of {len(values)}",
                    ]
                )
    head = ["difference from ERM", "weights", "mean", "worst run", f"runs more than {BOUND:.1f} below"]
    return table(head, rows, left=(0, 1))


def _repeated(runs: Sequence[Line]) -> str:
    """Accuracy of one run of ERM in every series that has it."""
    same = ("pacs", "sketch", SETTLING, "ERM")
    found = [line for line in runs if (line["dataset"], line["domain"], line["seed"], line["setting"]) == same]
    values = [number(100 * line["last"]) for line in sorted(found, key=lambda line: -line["last"])]
    return " and ".join([", ".join(values[:-1]), *values[-1:]])


def _short(runs: Sequence[Line]) -> str:
    """Other methods at their published defaults: accuracy by left-out domain of RotatedDigits."""
    domains = STUDIES["digits"].domains["rotated-digits"]
    values: dict[str, dict[str, float]] = {}
    for line in runs:
        if line["dataset"] == "rotated-digits":
            values.setdefault(line["setting"], {})[line["domain"]] = 100 * line["last"]
    rows = [
        [_method(setting), *(number(found[name]) for name in domains), number(statistics.fmean(found.values()))]
        for setting, found in values.items()
        if found.keys() >= set(domains)
    ]
    return table(["", *domains, "mean"], sorted(rows, key=lambda row: -float(row[-1])))


def _method(setting: str) -> str:
    return "CMA" if setting == "published" else setting.removeprefix("published, ").replace("momentum", "CMA, momentum")


def _difference_rows(runs: Sequence[Line]) -> list[dict[str, Any]]:
    rows = []
    for score, weights in (("last", "raw weights"), ("averaged", "averaged weights")):
        for dataset, title in SETS.items():
            for setting in CONFIRMED:
                values = list(gains(runs, dataset, setting, score).values())
                if len(values) > 1:
                    mean, error = statistics.fmean(values), standard_error(values)
                    ends = {"mean": mean, "low": mean - 2 * error, "high": mean + 2 * error}
                    short = {key: round(value, 3) for key, value in ends.items()}
                    rows.append({"row": title, "name": LABELS.get(setting, setting), "weights": weights, **short})
    return rows


def _pacs_rows(runs: Sequence[Line]) -> list[dict[str, Any]]:
    return [
        {"row": domain, "name": LABELS.get(setting, setting), "weights": weights, "seed": seed, "mean": round(value, 3)}
        for score, weights in (("last", "raw weights"), ("averaged", "averaged weights"))
        for setting in CONFIRMED
        for (domain, seed), value in gains(runs, "pacs", setting, score).items()
    ]


def _draw_differences(data: alt.Data) -> Any:
    return _panels(data, CONFIRMED, list(SETS.values()), "difference from ERM in points, ± 2 standard errors")


def _draw_pacs(data: alt.Data) -> Any:
    return _panels(data, CONFIRMED, STUDIES["pacs"].domains["pacs"], "difference from ERM in points, one mark a seed")


def _panels(data: alt.Data, settings: Sequence[str], rows: Sequence[str], x: str) -> Any:
    """Raw and averaged weights side by side."""
    names = [LABELS.get(setting, setting) for setting in settings]
    parts = [
        dots(data, x=x, names=names, sort=rows, where=f"datum.weights == '{weights}'", width=300).properties(
            title=weights
        )
        for weights in ("raw weights", "averaged weights")
    ]
    return alt.hconcat(*parts).resolve_scale(x="shared")


PAGE = StudyPage(
    {"fine-tuning": RecordFile(("series", "dataset", "setting", "seed", "domain", "steps"), series_lines)}, make_page
)

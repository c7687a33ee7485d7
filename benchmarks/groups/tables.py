"""Tables of the cells as Markdown."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.groups.methods import METHODS
from benchmarks.groups.sets import SETS, SETTLE
from benchmarks.records import Line

Floats = NDArray[np.float64]

SHIPPED = "as shipped"
MEASURES = {
    "worst_group_accuracy": "worst group",
    "accuracy": "average",
    "weighted_accuracy": "weighted average",
    "balanced_accuracy": "balanced accuracy",
    "worst_group_f1": "worst-group F1",
    "auroc": "AUROC",
    "calibration_error": "calibration error",
}


def _worst(line: Line, split: str, right: Sequence[int]) -> float:
    return float((np.array(right) / line["rows"][split]).min())


def _worst_class(line: Line, split: str, right: Sequence[int]) -> float:
    classes = np.array(line["classes"])
    rows = np.array(line["rows"][split])
    return float(min(np.array(right)[classes == label].sum() / rows[classes == label].sum() for label in set(classes)))


def _average(line: Line, split: str, right: Sequence[int]) -> float:
    return sum(right) / sum(line["rows"][split])


class SelectionRule(NamedTuple):
    """Split whose rows choose the setting, and the score that is largest for it."""

    split: str
    score: Callable[[Line, str, Sequence[int]], float]
    needs: str


RULES = {
    "worst-group": SelectionRule("validation", _worst, "attributes of validation rows"),
    "train-groups": SelectionRule("train", _worst, "attributes of training rows"),
    "worst-class": SelectionRule("validation", _worst_class, "labels of validation rows"),
    "average": SelectionRule("validation", _average, "labels of validation rows"),
}
"""Rules that choose a setting, by the names of the command line."""


class GroupStudy:
    """Records of the study by set, method and seed; sets without all methods of the others are left out."""

    def __init__(self, lines: Sequence[Line]) -> None:
        self.lines: dict[str, dict[str, dict[int, Line]]] = {}
        for line in lines:
            self.lines.setdefault(line["set"], {}).setdefault(line["method"], {})[line["seed"]] = line
        self.sets = [name for name in SETS if name in self.lines]
        self.methods = [name for name in METHODS if all(name in self.lines[each] for each in self.sets)]

    def scores(self, name: str, method: str, rule: str, measure: str = "worst_group_accuracy") -> Floats:
        """A measure on the test rows of each seed, in %, of the setting that a rule chooses; None: as shipped."""
        lines = [line for _, line in sorted(self.lines[name][method].items())]
        return 100 * np.array([line["results"][_choose(line, rule)]["test"][measure] for line in lines])

    def joint(self, name: str, rule: str, measure: str = "worst_group_accuracy") -> Floats:
        """The same where the rule chooses the method as well, with ties going to the earlier one."""
        values = []
        for seed in sorted(self.lines[name][self.methods[0]]):
            lines = [self.lines[name][method][seed] for method in self.methods]
            best = max(lines, key=lambda line: _score(line, rule, _choose(line, rule)))
            values.append(100 * best["results"][_choose(best, rule)]["test"][measure])
        return np.array(values)


def _score(line: Line, rule: str, index: int) -> float:
    split, score, _ = RULES[rule]
    return score(line, split, line["results"][index]["right"][split])


def _choose(line: Line, rule: str) -> int:
    """Index of the setting with the largest score; ties go to the earlier one."""
    if rule == SHIPPED:
        return 0
    return int(np.argmax([_score(line, rule, index) for index in range(len(line["results"]))]))


def standard_error(values: Floats) -> float:
    """Of the mean over seeds; 0 with one seed."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def with_error(values: Floats, *, sign: bool = False) -> str:
    """Mean ± standard error with one digit."""
    mean = round(float(values.mean()), 1) + 0.0  # no minus zero
    text = f"{mean:{'+' if sign and mean else ''}.1f}".replace("-", "−")
    return f"{text} ± {standard_error(values):.1f}"


def _table(head: Sequence[str], rows: Iterator[Sequence[str]], left: int = 1) -> str:
    rule = "|" + "---|" * left + "--:|" * (len(head) - left)
    return "\n".join([f"| {' | '.join(head)} |", rule, *(f"| {' | '.join(row)} |" for row in rows)])


def _bold_best(values: Mapping[str, Floats]) -> dict[str, str]:
    """Text of each value, the largest mean and those within one standard error of it in bold."""
    near = within_one_error(values)
    return {key: f"**{with_error(each)}**" if key in near else with_error(each) for key, each in values.items()}


def within_one_error(values: Mapping[str, Floats]) -> list[str]:
    """The key of the largest mean, and those at most its standard error below it; the largest first."""
    ranked = sorted(values, key=lambda key: -values[key].mean())
    best = values[ranked[0]]
    return [key for key in ranked if values[key].mean() >= best.mean() - standard_error(best) - 1e-9]


def sets_table(study: GroupStudy) -> str:
    """Size of each set, and what its smallest group has of the training rows."""

    def rows() -> Iterator[Sequence[str]]:
        for name in study.sets:
            line = next(iter(study.lines[name][study.methods[0]].values()))
            sizes = [f"{sum(line['rows'][split]):,}" for split in ("train", "validation", "test")]
            train = line["rows"]["train"]
            smallest = int(np.argmin(train))
            named = f"{line['groups'][smallest]}: {train[smallest]}"
            part = "settle" if name in SETTLE else "confirm"
            yield [name, SETS[name].title, part, *sizes, str(line["features"]), str(len(train)), named]

    head = ["set", "rows", "part", "train", "validation", "test", "columns", "groups", "smallest training group"]
    return _table(head, rows(), left=3)


def method_table(study: GroupStudy, name: str) -> str:
    """Every method on a set: as shipped, and with the setting that validation rows choose by the worst group."""
    shipped, tuned = (
        _bold_best({method: study.scores(name, method, rule) for method in study.methods})
        for rule in (SHIPPED, "worst-group")
    )

    def rows() -> Iterator[Sequence[str]]:
        for method in study.methods:
            low, high = (study.scores(name, method, "worst-group", end).mean() for end in ("low", "high"))
            others = [
                f"{study.scores(name, method, 'worst-group', measure).mean():.1f}" for measure in list(MEASURES)[2:]
            ]
            yield [
                f"`{method}`",
                shipped[method],
                with_error(study.scores(name, method, SHIPPED, "accuracy")),
                tuned[method],
                f"{low:.0f} to {high:.0f}",
                with_error(study.scores(name, method, "worst-group", "accuracy")),
                *others,
            ]

    head = [
        "",
        "as shipped: worst group",
        "average",
        "chosen: worst group",
        "interval",
        "average",
        *list(MEASURES.values())[2:],
    ]
    return _table(head, rows())


def defaults_table(study: GroupStudy, part: str) -> str:
    """What the default choice gains for the worst group and costs the average, against ERM."""
    ours = [method for method in ("search", "balanced") if method in study.methods]

    def rows() -> Iterator[Sequence[str]]:
        for name in study.sets:
            if (name in SETTLE) != (part == "settle"):
                continue
            erm = [study.scores(name, "erm", SHIPPED, measure) for measure in ("worst_group_accuracy", "accuracy")]
            columns = [f"{erm[0].mean():.1f} / {erm[1].mean():.1f}"]
            for method in ours:
                values = [study.scores(name, method, SHIPPED, m) for m in ("worst_group_accuracy", "accuracy")]
                gains = [with_error(a - b, sign=True) for a, b in zip(values, erm, strict=True)]
                columns += [f"{values[0].mean():.1f} / {values[1].mean():.1f}", " / ".join(gains)]
            yield [name, *columns]

    head = ["worst group / average", "`erm`", *(text for method in ours for text in (f"`{method}`", "gain"))]
    return _table(head, rows())


def winners_table(study: GroupStudy) -> str:
    """The best method of each set, those within one standard error, and the best that needs labels only."""

    def rows() -> Iterator[Sequence[str]]:
        for name in study.sets:
            for rule in (SHIPPED, "worst-group"):
                values = {method: study.scores(name, method, rule) for method in study.methods}
                near = within_one_error(values)
                free = {method: each for method, each in values.items() if METHODS[method].needs == "labels"}
                best_free = within_one_error(free)[0]
                yield [
                    name,
                    "chosen" if rule != SHIPPED else rule,
                    f"`{near[0]}` {with_error(values[near[0]])}",
                    ", ".join(f"`{method}`" for method in near[1:]) or "–",
                    f"`{best_free}` {with_error(free[best_free])}",
                ]

    head = ["set", "settings", "best worst group", "within one standard error", "best by labels only"]
    return _table(head, rows(), left=5)


def alignment_table(study: GroupStudy) -> str:
    """`cma` less `balanced` and `subsampled` on the same splits, worst group and average."""

    def rows() -> Iterator[Sequence[str]]:
        for name in study.sets:
            columns = []
            for rule in (SHIPPED, "worst-group"):
                for measure in ("worst_group_accuracy", "accuracy"):
                    ours, theirs = (study.scores(name, method, rule, measure) for method in ("cma", "balanced"))
                    columns.append(with_error(ours - theirs, sign=True))
            yield [name, *columns]

    head = ["`cma` less `balanced`", "as shipped: worst group", "average", "chosen: worst group", "average"]
    return _table(head, rows())


def rules_table(study: GroupStudy) -> str:
    """Worst group under each rule, mean over the sets, for every method that has settings to choose."""
    tuned = [method for method in study.methods if len(METHODS[method].settings) > 1]

    def mean(method: str | None, rule: str, measure: str) -> float:
        values = [
            study.joint(name, rule, measure) if method is None else study.scores(name, method, rule, measure)
            for name in study.sets
        ]
        return float(np.mean(values))

    def rows() -> Iterator[Sequence[str]]:
        for method in (*tuned, None):
            rules = [SHIPPED, *RULES] if method else list(RULES)
            texts = [
                f"{mean(method, rule, 'worst_group_accuracy'):.1f} / {mean(method, rule, 'accuracy'):.1f}"
                for rule in rules
            ]
            yield [f"`{method}`" if method else "method as well", *([] if method else ["–"]), *texts]

    return _table(["worst group / average", SHIPPED, *(f"`{rule}`" for rule in RULES)], rows())


def joint_table(study: GroupStudy) -> str:
    """Worst group and average of each set where the rule chooses method and setting."""

    def rows() -> Iterator[Sequence[str]]:
        for name in study.sets:
            texts = _bold_best({rule: study.joint(name, rule) for rule in RULES})
            yield [name, *(f"{texts[rule]} / {study.joint(name, rule, 'accuracy').mean():.1f}" for rule in RULES)]

    return _table(["worst group / average", *(f"`{rule}`" for rule in RULES)], rows())


def seconds_table(study: GroupStudy) -> str:
    """CPU seconds of one fit as shipped, mean over seeds."""

    def rows() -> Iterator[Sequence[str]]:
        for method in study.methods:
            seconds = [
                np.mean([line["results"][0]["seconds"] for line in study.lines[name][method].values()])
                for name in study.sets
            ]
            yield [f"`{method}`", *(f"{value:.2f}" for value in seconds)]

    return _table(["seconds", *study.sets], rows())

"""Tables of docs/results/groups.md."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from benchmarks.groups.methods import NEEDS
from benchmarks.groups.sets import SETS, SETTLE
from benchmarks.groups.study import AVERAGE, RULES, SHIPPED, WORST, Floats, GroupStudy, within_one_error
from benchmarks.markdown import mean_with_error, number, table

OTHERS = {
    "accuracy": "plain average",
    "balanced_accuracy": "balanced accuracy",
    "worst_group_f1": "worst-group F1",
    "auroc": "AUROC",
    "calibration_error": "calibration error",
}
"""Measures that have a column without error."""
COMPARED = ("subsampled", "search")
"""Methods whose gain over ERM has a table of its own."""

Rows = Iterator[Sequence[str]]


def sets_table(study: GroupStudy) -> str:
    """Size of each set, and what its smallest group has of the training rows."""

    def rows() -> Rows:
        for name in study.sets:
            line = next(iter(study.lines[name][study.methods[0]].values()))
            sizes = [f"{sum(line['rows'][split]):,}" for split in ("train", "validation", "test")]
            size, group = min(zip(line["rows"]["train"], line["groups"], strict=True))
            part = "settle" if name in SETTLE else "confirm"
            columns = [*sizes, str(line["features"]), str(len(line["groups"])), f"{group}: {size}"]
            yield [name, SETS[name].title, part, *columns]

    head = ["set", "rows", "part", "train", "validation", "test", "columns", "groups", "smallest training group"]
    return table(head, rows(), left=(0, 1, 2, 8))


def method_table(study: GroupStudy, name: str) -> str:
    """Every method on a set: as shipped, and with the setting that validation rows choose by the worst group."""
    shipped, chosen = (
        _bold_best({method: study.scores(name, method, rule) for method in study.methods})
        for rule in (SHIPPED, "worst-group")
    )

    def rows() -> Rows:
        for method in study.methods:
            means = {
                measure: study.scores(name, method, "worst-group", measure).mean()
                for measure in ("low", "high", *OTHERS)
            }
            yield [
                f"`{method}`",
                shipped[method],
                mean_with_error(study.scores(name, method, SHIPPED, AVERAGE)),
                chosen[method],
                f"{number(means['low'], 0)} to {number(means['high'], 0)}",
                mean_with_error(study.scores(name, method, "worst-group", AVERAGE)),
                *(number(means[measure]) for measure in OTHERS),
            ]

    head = ["", "as shipped: worst group", "average", "chosen: worst group", "interval", "average", *OTHERS.values()]
    return table(head, rows())


def gains_table(study: GroupStudy, part: str) -> str:
    """What a method as shipped gains for the worst group and costs the average, against ERM."""
    compared = [method for method in COMPARED if method in study.methods]

    def rows() -> Rows:
        for name in study.sets:
            if (name in SETTLE) != (part == "settle"):
                continue
            erm = [study.scores(name, "erm", SHIPPED, measure) for measure in (WORST, AVERAGE)]
            columns = [_pair(*erm)]
            for method in compared:
                values = [study.scores(name, method, SHIPPED, measure) for measure in (WORST, AVERAGE)]
                gains = [mean_with_error(mine - other, sign=True) for mine, other in zip(values, erm, strict=True)]
                columns += [_pair(*values), *gains]
            yield [name, *columns]

    titles = [title for method in compared for title in (f"`{method}`", "gain, worst group", "gain, average")]
    return table(["worst group / average", "`erm`", *titles], rows())


def winners_table(study: GroupStudy) -> str:
    """The best method of each set, those within one standard error of it, and the best that is given labels only."""

    def rows() -> Rows:
        for name in study.sets:
            for rule in (SHIPPED, "worst-group"):
                values = {method: study.scores(name, method, rule) for method in study.methods}
                best, *near = within_one_error(values)
                free = within_one_error({key: each for key, each in values.items() if NEEDS[key] == "labels"})
                yield [
                    name,
                    SHIPPED if rule == SHIPPED else "chosen",
                    f"`{best}` {mean_with_error(values[best])}",
                    ", ".join(f"`{method}`" for method in near) or "–",
                    f"`{free[0]}` {mean_with_error(values[free[0]])}",
                ]

    head = ["set", "settings", "best worst group", "within one standard error", "best by labels only"]
    return table(head, rows(), left=range(5))


def alignment_table(study: GroupStudy) -> str:
    """`cma` against `balanced` and `subsampled` on the same splits: differences of the worst group."""

    def rows() -> Rows:
        for name in study.sets:
            columns = [
                mean_with_error(study.scores(name, "cma", rule) - study.scores(name, other, rule), sign=True)
                for rule in (SHIPPED, "worst-group")
                for other in ("balanced", "subsampled")
            ]
            yield [name, *columns]

    titles = [f"{kind}: `cma` less `{other}`" for kind in (SHIPPED, "chosen") for other in ("balanced", "subsampled")]
    return table(["worst group", *titles], rows())


def rules_table(study: GroupStudy) -> str:
    """Worst group and average under each rule, mean over the sets, of every method that has settings to choose."""

    def over_sets(method: str | None, rule: str) -> str:
        scores = [[study.scores(name, method, rule, each) for name in study.sets] for each in (WORST, AVERAGE)]
        return _pair(*map(np.concatenate, scores))

    def rows() -> Rows:
        for method in study.methods:
            if len(next(iter(study.lines[study.sets[0]][method].values()))["results"]) > 1:
                yield [f"`{method}`", *(over_sets(method, rule) for rule in (SHIPPED, *RULES))]
        yield ["the method as well", "–", *(over_sets(None, rule) for rule in RULES)]

    return table(["worst group / average", SHIPPED, *(f"`{rule}`" for rule in RULES)], rows())


def joint_table(study: GroupStudy) -> str:
    """Worst group and average on each set where the rule chooses method and setting."""

    def rows() -> Rows:
        for name in study.sets:
            texts = _bold_best({rule: study.scores(name, None, rule) for rule in RULES})
            yield [
                name,
                *(f"{texts[rule]} / {number(study.scores(name, None, rule, AVERAGE).mean())}" for rule in RULES),
            ]

    return table(["worst group / average", *(f"`{rule}`" for rule in RULES)], rows())


def choices_table(study: GroupStudy) -> str:
    """What the search chose on each set, with the number of splits."""

    def rows() -> Rows:
        for name in study.sets:
            counts: dict[str, int] = {}
            for line in study.lines[name]["search"].values():
                choice = line["results"][0]["chosen"]
                counts[choice] = counts.get(choice, 0) + 1
            ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
            yield [name, "; ".join(f"{choice}: {times}" for choice, times in ranked)]

    return table(["set", "chosen"], rows(), left=(0, 1))


def seconds_table(study: GroupStudy) -> str:
    """CPU seconds of a fit as shipped, mean over seeds."""

    def rows() -> Rows:
        for method in study.methods:
            lines = [study.lines[name][method].values() for name in study.sets]
            yield [f"`{method}`", *(number(np.mean([r["results"][0]["seconds"] for r in each]), 2) for each in lines)]

    return table(["seconds", *study.sets], rows())


def _pair(worst: Floats, average: Floats) -> str:
    return f"{number(float(np.mean(worst)))} / {number(float(np.mean(average)))}"


def _bold_best(values: Mapping[str, Floats]) -> dict[str, str]:
    """Text of each value, the largest mean and those within one standard error of it in bold."""
    near = within_one_error(values)
    texts = {key: mean_with_error(each) for key, each in values.items()}
    return {key: f"**{text}**" if key in near else text for key, text in texts.items()}

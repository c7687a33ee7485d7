"""Tables of what the rules choose, one for each data set."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from benchmarks.selection.curves import Curves
from benchmarks.selection.rules import choose, rules


def tables(curves: Sequence[Curves], per_domain: bool = False) -> list[str]:
    """A table in Markdown for each data set: rules in rows, algorithms in columns."""
    lines: list[str] = []
    for dataset in sorted({run.cell[0] for run in curves}):
        own = [run for run in curves if run.cell[0] == dataset]
        algorithms = list(dict.fromkeys(run.cell[1] for run in own))
        trials = sorted({run.cell[3] for run in own})
        lines += [f"### {dataset}", "", f"Trials {', '.join(map(str, trials))}; average over test domains.", ""]
        lines += ["| rule | " + " | ".join(algorithms) + " |", "|---|" + "--:|" * len(algorithms)]
        for name, rule in rules().items():
            chosen = choose(own, rule)
            row = [_average(chosen, algorithm, per_domain) for algorithm in algorithms]
            lines.append(f"| {name} | " + " | ".join(row) + " |")
        lines.append("")
    return lines


def _average(chosen: dict[tuple[str, str, str, int], float], algorithm: str, per_domain: bool) -> str:
    by_trial: dict[int, list[float]] = defaultdict(list)
    by_domain: dict[str, list[float]] = defaultdict(list)
    for (_, name, domain, trial), test in chosen.items():
        if name == algorithm:
            by_trial[trial].append(test)
            by_domain[domain].append(test)
    if not by_trial:
        return "–"
    means = [float(np.mean(values)) for values in by_trial.values()]
    spread = f" ± {np.std(means) / np.sqrt(len(means)):.1f}" if len(means) > 1 else ""
    text = f"{np.mean(means):.1f}{spread}"
    if per_domain:
        text += " (" + " / ".join(f"{np.mean(values):.1f}" for values in by_domain.values()) + ")"
    return text

"""Tables of finished runs, domain by domain."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.fine_tuning.settings import SETTLING


def tables(lines: Sequence[Mapping[str, Any]], score: str = "last") -> list[str]:
    """Markdown tables, settling and confirming seeds apart: differences from ERM in points, by data set."""
    text: list[str] = []
    for dataset in dict.fromkeys(line["dataset"] for line in lines):
        for confirming in (False, True):
            chosen = [x for x in lines if x["dataset"] == dataset and (x["seed"] != SETTLING) == confirming]
            cells = {(x["setting"], x["domain"], x["seed"]): 100 * x[score] for x in chosen}
            domains = list(dict.fromkeys(x["domain"] for x in sorted(chosen, key=lambda x: str(x["domain"]))))
            seeds = sorted({x["seed"] for x in chosen})
            if not chosen:
                continue
            title = "confirmed on" if confirming else "settled on"
            what = "averaged weights, last record" if score == "averaged" else f"{score} record"
            text += ["", f"{dataset}, {title} seed {', '.join(map(str, seeds))} ({what})", ""]
            text += [f"| setting | {' | '.join(domains)} | mean − ERM | worst − ERM | runs |"]
            text += ["|---|" + "--:|" * (len(domains) + 3)]
            for setting in dict.fromkeys(x["setting"] for x in chosen):
                found = {key: value for key, value in cells.items() if key[0] == setting and ("ERM", *key[1:]) in cells}
                gains = [value - cells["ERM", key[1], key[2]] for key, value in found.items()]
                means = [[value for key, value in found.items() if key[1] == name] for name in domains]
                shown = [f"{statistics.fmean(values):.1f}" if values else "" for values in means]
                mean, worst = (f"{statistics.fmean(gains):+.2f}", f"{min(gains):+.1f}") if gains else ("", "")
                text.append(f"| {setting} | {' | '.join(shown)} | {mean} | {worst} | {len(gains)} |")
    return text

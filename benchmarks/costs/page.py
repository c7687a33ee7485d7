"""Tables of docs/results/costs.md."""

from collections.abc import Iterable, Mapping, Sequence

from benchmarks.costs.averaging import KINDS
from benchmarks.costs.rows import paper_lines
from benchmarks.markdown import number, table
from benchmarks.pages import PageContent, StudyPage
from benchmarks.records import Line, RecordFile, json_lines
from momentalign.algorithms import find_algorithm
from momentalign.bench._paper_table import _METHODS, _SETS
from momentalign.bench._step import vit_small
from momentalign.published import published_costs

OURS, PAPERS = "cma", ("cma-speed", "cma-memory")
"""The package's own route, and the paper's two."""
UNITS = {"seconds": (0, "time"), "peak_bytes": (1, "memory")}
"""Which of the published pair a measured field is, and the name of its table."""


def make_page(records: Mapping[str, list[Line]]) -> PageContent:
    """Ratios to ERM beside the published ones, and what they come to."""
    lines = {(line["size"], line["name"]): line for line in records["costs"]}
    sets = [data.name for data in _SETS if (data.name, "erm") in lines]
    blocks = {"erm": erm_table(lines, sets)}
    for field, (_, name) in UNITS.items():
        blocks[name] = ratio_table(lines, sets, field)
        blocks[f"ours-{name}"] = span(_measured(lines, each, OURS, field) for each in sets)
        blocks[f"published-{name}"] = span(_published(each, route, field) for each in sets for route in PAPERS)
        blocks[f"routes-{name}"] = span(_measured(lines, each, route, field) for each in sets for route in PAPERS)
    notes = dict.fromkeys(line["note"].removesuffix(", not run") for line in lines.values() if line["note"])
    blocks["notes"] = "; ".join(notes) or "none"
    blocks["averaging"] = averaging_table(records["averaging"])
    return PageContent(blocks)


def averaging_table(records: Sequence[Line]) -> str:
    """Milliseconds of a step without an average of the weights, and what each average adds in percent."""
    if not records:
        return "*Nothing was measured yet.*"
    lines = {(f"{line['dataset']}, {line['device']}", line["algorithm"], line["average"]): line for line in records}
    averages = list(dict.fromkeys(average for _, average in KINDS if average != "none"))
    order = [algorithm for algorithm, _ in KINDS]
    rows = []
    for where, algorithm in sorted({key[:2] for key in lines}, key=lambda key: (key[0], order.index(key[1]))):
        plain = lines[where, algorithm, "none"]
        row = [f"{find_algorithm(algorithm).label}, {where}", number(plain["median"], 3)]
        for average in averages:
            line = lines.get((where, algorithm, average))
            row.append(
                "–" if line is None else " / ".join(number(share, 2, sign=True) for share in _added(line, plain))
            )
        rows.append(row)
    return table(["", "ms of a step", *(f"{average}, %" for average in averages)], rows)


def _added(line: Line, plain: Line) -> list[float]:
    """What an average adds to a step in percent: of the medians, of the fastest runs, and timed on its own."""
    ratios = [line[key] / plain[key] - 1 for key in ("median", "fastest")]
    return [100 * share for share in (*ratios, line["addition"] / plain["fastest"])]


def compare_costs(records: Sequence[Line]) -> list[list[str]]:
    """CMA's time and memory in units of ERM on each data set: the paper's versions, and ours."""
    lines = {(line["size"], line["name"]): line for line in records}
    rows = []
    for field, (_, name) in UNITS.items():
        for data in _SETS:
            if (data.name, OURS) in lines:
                published = [_published(data.name, route, field) for route in PAPERS]
                cells = ["–" if value is None else _ratio(value) for value in published]
                ours = _measured(lines, data.name, OURS, field)
                rows.append([f"{name}, {data.title}", *cells, "–" if ours is None else _ratio(ours)])
    return rows


def ratio_table(lines: Mapping[tuple[str, str], Line], sets: Sequence[str], field: str) -> str:
    """Ratios of every method to ERM: measured, and in brackets published."""
    if not sets:
        return "*Nothing was measured yet.*"
    rows = [
        [label, *(_cell(_measured(lines, each, name, field), _published(each, name, field)) for each in sets)]
        for name, (_, label) in _METHODS.items()
        if name != "erm"
    ]
    return table(["× ERM", *_titles(sets)], rows)


def erm_table(lines: Mapping[tuple[str, str], Line], sets: Sequence[str]) -> str:
    """What the ratios are of: milliseconds and GiB of ERM, measured and published."""
    if not sets:
        return "*Nothing was measured yet.*"
    costs = published_costs()["erm"]
    rows = [
        ["milliseconds", *(number(1e3 * lines[each, "erm"]["seconds"]) for each in sets)],
        ["published", *(number(1e3 * (costs[each][0] or 0)) for each in sets)],
        ["GiB", *(number(lines[each, "erm"]["peak_bytes"] / 2**30, 2) for each in sets)],
        ["published, GB", *(number(costs[each][1], 2) for each in sets)],
    ]
    return table(["ERM", *_titles(sets)], rows)


def cma_span(records: Sequence[Line], field: str, encoder: str) -> str:
    """CMA's least and largest ratio to ERM over the data sets of an encoder, `digits` or `vit`."""
    lines = {(line["size"], line["name"]): line for line in records}
    sets = [data.name for data in _SETS if (data.encoder is vit_small) == (encoder == "vit")]
    return span(_measured(lines, each, OURS, field) for each in sets if (each, OURS) in lines)


def span(ratios: Iterable[float | None]) -> str:
    """Smallest to largest ratio, one where they are the same."""
    known = [ratio for ratio in ratios if ratio is not None]
    return " to ".join(dict.fromkeys((_ratio(min(known)), _ratio(max(known))))) if known else "?"


def _measured(lines: Mapping[tuple[str, str], Line], dataset: str, name: str, field: str) -> float | None:
    value = lines[dataset, name][field]
    return None if value is None else float(value) / float(lines[dataset, "erm"][field])


def _published(dataset: str, name: str, field: str) -> float | None:
    costs, place = published_costs(), UNITS[field][0]
    value, unit = costs.get(name, {}).get(dataset, (None, None))[place], costs["erm"][dataset][place]
    return None if value is None or unit is None else value / unit


def _cell(measured: float | None, published: float | None) -> str:
    text = "–" if measured is None else _ratio(measured)
    return text if published is None else f"{text} ({_ratio(published)})"


def _ratio(value: float) -> str:
    return number(value, 0 if value >= 100 else 1 if value >= 10 else 2)


def _titles(sets: Sequence[str]) -> list[str]:
    return [data.title for data in _SETS if data.name in sets]


PAGE = StudyPage(
    {
        "costs": RecordFile(("size", "name"), paper_lines),
        "averaging": RecordFile(("dataset", "device", "algorithm", "average"), json_lines),
    },
    make_page,
)

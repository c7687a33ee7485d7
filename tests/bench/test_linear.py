import torch

from momentalign.bench import probing_plan
from momentalign.bench._linear import LinearSize, linear_fits


def test_rows_of_the_table() -> None:
    rows = list(linear_fits((LinearSize(300, 5, 2), LinearSize(300, 5, 3)), rounds=1))
    assert [row.name for row in rows] == ["LogisticRegression", "aligned", "path of 5"] * 2
    assert rows[0].time_ratio == 1
    assert all(row.seconds is not None and row.seconds > 0 for row in rows)


def test_the_grid_is_timed_and_a_fit_weighed() -> None:
    (group,) = probing_plan(torch.device("cpu"), quick=True, memory_limit=0)
    rows = {row.name: row for row in group.run()}
    assert list(rows) == [
        "PCA and ISR-Mean",
        "one fit",
        "grid of 49, each from its neighbour",
        "top five on four more seeds",
        "protocol, all of it",
    ]
    assert rows["one fit"].time_ratio == 1
    assert rows["one fit"].peak_bytes is not None
    assert rows["one fit"].peak_bytes > 600 * 10 * 8  # at least a copy of the rows
    assert all("processor time" in row.note for row in rows.values())
    full = [group.title for group in probing_plan(torch.device("cpu"), quick=False, memory_limit=0)]
    assert full[1] == "probing grid, CelebA: n=162770, d=100, C=2"

import torch

from momentalign.bench import probing_plan


def test_the_grid_is_timed_and_a_fit_weighed() -> None:
    (section,) = probing_plan(torch.device("cpu"), quick=True, memory_limit=0)
    rows = {row.name: row for row in section.run()}
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
    full = [section.title for section in probing_plan(torch.device("cpu"), quick=False, memory_limit=0)]
    assert full[1] == "probing grid, CelebA: n=162770, d=100, C=2"

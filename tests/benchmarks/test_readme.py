import re

from benchmarks.records import DOCS


def test_the_cost_of_a_step_is_that_of_the_performance_page() -> None:
    tables = (DOCS / "performance.md").read_text(encoding="utf-8")
    (ratio,) = re.findall(r"\| whole step, fp32 .*?\n\| CMA, gram \| [\d.]+ \| ([\d.]+) \|", tables, flags=re.DOTALL)
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    assert f"ViT-S/16 takes {ratio} times as long" in readme
    small = re.search(r"\| CMA, gram \| 4.43 \| ([\d.]+) \| 3.30 \| ([\d.]+) \|", tables)
    assert small is not None
    assert (round(float(small[1])), round(float(small[2]))) == (3, 4)
    assert "three to four times as long" in readme

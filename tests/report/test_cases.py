"""Which runs represent a method where no rule selects any, and why a rule does not apply."""

from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from momentalign.report import _cases
from momentalign.report._cases import _chosen, _unavailable_reason

RUNS = pd.DataFrame(
    {"method": "ERM", "trial": 0, "test_domains": [["a"], ["a", "b"], []]}, index=["one", "two", "none"]
)


def test_without_a_choice_all_runs_with_one_test_domain_or_none_are_drawn() -> None:
    elsewhere = pd.DataFrame({"run": ["other"], "method": "ERM", "test_domain": "a", "trial": 0})
    chosen, rule = _chosen(RUNS, {"oracle": elsewhere})
    assert rule is None
    assert chosen["run"].tolist() == ["one", "none"]
    assert chosen["test_domain"].fillna("nothing").tolist() == ["a", "nothing"]


def test_the_first_rule_that_chose_one_of_the_runs_counts() -> None:
    def choice(run: str) -> pd.DataFrame:
        return pd.DataFrame({"run": [run], "method": "ERM", "test_domain": "a", "trial": 0}, index=[7])

    chosen, rule = _chosen(
        RUNS, {"extrapolated": choice("other"), "oracle": choice("two"), "worst-group": choice("one")}
    )
    assert (rule, chosen["run"].to_dict()) == ("oracle", {0: "two"})


@pytest.mark.parametrize(
    ("rule", "tests", "aside", "reason"),
    [
        ("oracle", [], 0, "no run is finished."),
        ("oracle", [["a"]], 1, "all runs that it could select diverged."),
        ("worst-class", [["a"]], 0, "no finished run recorded worst-class accuracies on 'val' and worst-group"),
        ("oracle", [["a", "b"]], 0, "no finished run has a single test domain."),
        ("leave-one-domain-out", [["a"]], 0, "needs finished runs with two test domains, and there are none."),
        ("leave-one-domain-out", [["a"], ["a", "b"]], 0, "and no test domain has all of them."),
        ("extrapolated", [["a"]], 0, "splits that it reads, from 2% of their steps on."),
        ("oracle", [["a"]], 0, "no accuracies on the splits that it reads."),
    ],
)
def test_a_rule_that_does_not_apply_says_why(
    rule: str, tests: list[list[str]], aside: int, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_cases, "set_aside", lambda sweep, rule: [None] * aside)
    finished = pd.DataFrame({"test_domains": pd.Series(tests, dtype=object)})
    sweep: Any = SimpleNamespace(finished=lambda: finished)
    assert reason in _unavailable_reason(sweep, rule)

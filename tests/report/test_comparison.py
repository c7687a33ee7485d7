"""Differences from ERM: paired, and stated only where they exceed their uncertainty."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

from momentalign.report import paired_differences
from momentalign.report._cases import group_cases
from momentalign.report._comparison import headlines
from momentalign.selection import read_runs
from tests.runs.fake_sweep import make_config, record, write_fake_probes, write_run

DOMAINS = ("a", "b", "c")


def frame(tests: dict[tuple[str, int, str | None], float]) -> pd.DataFrame:
    rows = [(algorithm, trial, domain, value) for (algorithm, trial, domain), value in tests.items()]
    return pd.DataFrame(rows, columns=["algorithm", "trial", "test_domain", "test"])


def write(folder: Path, tests: dict[str, list[list[float]]]) -> list[str]:
    """Headlines of runs whose accuracies on test domains are given by algorithm, trial and domain."""
    for algorithm, trials in tests.items():
        for trial, values in enumerate(trials):
            for domain, value in zip(DOMAINS, values, strict=False):
                lines = [record(300, "accuracy", value, name, split) for name in DOMAINS for split in ("in", "out")]
                config = make_config(dataset="toy", algorithm=algorithm, test_domains=[domain], trial=trial)
                write_run(folder, config, lines, domains=DOMAINS)
    return headlines(group_cases(read_runs(folder)))


def test_the_interval_is_that_of_a_paired_t_test_over_trials():
    rng = np.random.default_rng(0)
    accuracies = rng.random((2, 4, 3))  # algorithm, trial, domain
    tests = {
        (name, trial, DOMAINS[j]): accuracies[i, trial, j]
        for i, name in enumerate(("erm", "cma"))
        for trial in range(4)
        for j in range(3)
    }
    (difference,) = paired_differences(frame(tests))
    theirs = ttest_rel(100 * accuracies[1].mean(axis=1), 100 * accuracies[0].mean(axis=1))
    interval = theirs.confidence_interval(0.95)
    assert difference.points == pytest.approx((interval.low + interval.high) / 2)
    assert difference.error == pytest.approx((interval.high - interval.low) / 2)
    assert (difference.sample, difference.found) == ("4 trials", theirs.pvalue < 0.05)


def test_one_trial_is_compared_over_test_domains():
    accuracies = {"erm": (0.5, 0.6, 0.7), "cma": (0.6, 0.71, 0.8)}
    tests = {(name, 0, domain): v for name, own in accuracies.items() for domain, v in zip(DOMAINS, own, strict=True)}
    (difference,) = paired_differences(frame(tests))
    interval = ttest_rel(accuracies["cma"], accuracies["erm"]).confidence_interval(0.95)
    assert difference.points == pytest.approx(50 * (interval.low + interval.high))
    assert difference.error == pytest.approx(50 * (interval.high - interval.low))
    assert (difference.sample, difference.found) == ("3 test domains", True)


def test_only_common_trials_and_domains_are_compared():
    tests = {("erm", trial, "a"): 0.5 for trial in range(3)}
    tests |= {("cma", 1, "a"): 0.6, ("cma", 2, "a"): 0.8, ("cma", 3, "a"): 0.0, ("cma", 1, "b"): 0.0}
    (difference,) = paired_differences(frame(tests))
    assert difference.points == pytest.approx(20)
    assert difference.sample == "2 trials"


def test_incomplete_trials_are_compared_by_pairs_of_runs():
    tests = {("erm", trial, domain): 0.5 for trial in range(2) for domain in "ab"}
    tests |= {("cma", 0, "a"): 0.6, ("cma", 1, "b"): 0.8}
    (difference,) = paired_differences(frame(tests))
    assert difference.points == pytest.approx(20)
    assert (difference.sample, difference.found) == ("2 pairs of runs", False)


def test_worst_groups_are_compared_by_trial():
    tests = {
        (name, trial, None): value + trial / 10 for name, value in (("erm", 0.5), ("cma", 0.6)) for trial in (0, 1)
    }
    (difference,) = paired_differences(frame(tests))
    assert difference.points == pytest.approx(10)
    assert difference.found


def test_without_the_baseline_nothing_is_compared():
    assert paired_differences(frame({("cma", 0, "a"): 0.5})) == []


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_difference_is_found_beyond_its_interval_only(factor):
    quantile = 4.302652729749464  # Student's t, 97.5%, two degrees of freedom
    points = np.array([-1.0, 0.0, 1.0]) + factor * quantile / np.sqrt(3)
    tests = {("erm", trial, "a"): 0.5 for trial in range(3)}
    tests |= {("cma", trial, "a"): 0.5 + points[trial] / 100 for trial in range(3)}
    (difference,) = paired_differences(frame(tests))
    assert difference.error == pytest.approx(quantile / np.sqrt(3))
    assert difference.found == (factor > 1)


def test_headlines_state_what_was_found_and_what_was_not(tmp_path):
    erm = [[0.5, 0.6, 0.7], [0.52, 0.61, 0.69], [0.51, 0.6, 0.71]]
    better = [[value + 0.1 + 0.001 * trial for value in row] for trial, row in enumerate(erm)]
    worse = [[value - 0.1 + 0.001 * trial for value in row] for trial, row in enumerate(erm)]
    noisy = [[value + (0.1, -0.1, 0.02)[trial] for value in row] for trial, row in enumerate(erm)]
    lines = write(tmp_path, {"erm": erm, "cma": better, "coral": noisy, "fishr": worse, "irm": erm})
    # Four methods: Student's t, 1 - 0.025 / 4, two degrees of freedom, is 8.9; the standard error is 0.058.
    found = (
        "Fishr is 9.9 points below ERM (joint 95% interval 9.4 to 10.4, 3 trials). "
        "CMA is 10.1 points above ERM (joint 95% interval 9.6 to 10.6, 3 trials). "
    )
    for line, rule in zip(lines, ("training-domain", "extrapolated"), strict=True):
        start = f"toy, {rule} selection: "
        assert line.startswith(start)
        for sentence in found.split(". "):
            assert sentence.rstrip(".") in line
        assert line.endswith("No difference from ERM found for IRM and CORAL.")


def test_noise_makes_one_headline_in_twenty_at_most():
    """Six methods that equal ERM; each by itself is named once in twenty times, a sweep once in twenty as a whole."""
    rng = np.random.default_rng(0)
    names = ("erm", "irm", "vrex", "mmd", "coral", "fishr", "cma")
    named = {True: 0, False: 0}
    for _ in range(60):
        accuracies = rng.normal(0.7, 0.02, (len(names), 3))
        chosen = frame({(name, trial, "a"): accuracies[i, trial] for i, name in enumerate(names) for trial in range(3)})
        for jointly in named:
            named[jointly] += any(each.found for each in paired_differences(chosen, jointly=jointly))
    assert named[True] <= 6 < named[False]  # 3 expected of 60, and 6 is 1.8 standard deviations more


def test_headlines_without_any_difference(tmp_path):
    same = [[0.5, 0.6, 0.7], [0.52, 0.61, 0.69]]
    lines = write(tmp_path, {"erm": same, "cma": same})
    assert lines[0] == "toy, training-domain selection: No difference from ERM found for CMA."


def test_headlines_say_what_is_missing(tmp_path):
    (first, _) = write(tmp_path / "none", {"cma": [[0.5]], "coral": [[0.6]]})
    assert "no run of ERM could be selected. Add erm to the sweep's --algorithms." in first
    (first, _) = write(tmp_path / "alone", {"erm": [[0.5]]})
    assert "only ERM could be selected" in first
    (first, _) = write(tmp_path / "single", {"erm": [[0.5]], "cma": [[0.9]]})
    assert first.endswith("One trial of one test domain cannot show a difference from ERM for CMA.")
    (first, _) = write(tmp_path / "apart", {"erm": [[0.5]], "cma": [[], [0.9]]})
    assert first.endswith("No trial and test domain in common with ERM: CMA.")


def test_probes_are_compared_under_their_rule(tmp_path):
    write_fake_probes(tmp_path, trials=3, hparams=2)
    (line,) = headlines(group_cases(read_runs(tmp_path)))
    assert line.startswith("waterbirds, worst-group selection: ")

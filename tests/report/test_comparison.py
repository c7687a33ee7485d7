"""Differences from ERM as data, and the words that are made of them."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

from momentalign.report import PairedDifference, paired_differences
from momentalign.report._answer import describe
from momentalign.report._comparison import MOST_TRIALS, Comparison, Finding, compare

DOMAINS = ("a", "b", "c")


def frame(tests: dict[tuple[str, int, str | None], float]) -> pd.DataFrame:
    rows = [(algorithm, trial, domain, value, value) for (algorithm, trial, domain), value in tests.items()]
    return pd.DataFrame(rows, columns=["algorithm", "trial", "test_domain", "test", "held_out"])


def means(chosen: pd.DataFrame) -> dict[str, PairedDifference]:
    return {each.algorithm: each for each in paired_differences(chosen) if each.domain is None}


@pytest.fixture
def accuracies() -> np.ndarray:
    return np.random.default_rng(0).random((2, 4, 3))  # algorithm, trial, domain


@pytest.mark.parametrize("domain", [*DOMAINS, None])
def test_intervals_are_those_of_a_paired_t_test_over_trials(accuracies: np.ndarray, domain: str | None) -> None:
    tests = {
        (name, trial, DOMAINS[j]): accuracies[i, trial, j]
        for i, name in enumerate(("erm", "cma"))
        for trial, j in product(range(4), range(3))
    }
    (difference,) = (each for each in paired_differences(frame(tests)) if each.domain == domain)
    values = accuracies.mean(axis=2) if domain is None else accuracies[:, :, DOMAINS.index(domain)]
    theirs = ttest_rel(100 * values[1], 100 * values[0])
    assert difference.interval == pytest.approx(tuple(theirs.confidence_interval(0.95)))
    assert (difference.trials, difference.found) == (4, theirs.pvalue < 0.05)


def test_averaged_weights_are_compared_with_averaged_weights() -> None:
    values = {"erm": 0.5, "erm+sma": 0.3, "cma": 0.6, "cma+sma": 0.7, "irm+ema": 0.9}
    tests = {(name, trial, "a"): value for name, value in values.items() for trial in (0, 1)}
    found = {name: (each.baseline, round(each.points)) for name, each in means(frame(tests)).items()}
    assert found == {"cma": ("erm", 10), "cma+sma": ("erm+sma", 40)}


def test_only_common_trials_and_domains_are_compared() -> None:
    tests = {("erm", trial, "a"): 0.5 for trial in range(3)}
    tests |= {("cma", 1, "a"): 0.6, ("cma", 2, "a"): 0.8, ("cma", 3, "a"): 0.0, ("cma", 1, "b"): 0.0}
    found = paired_differences(frame(tests))
    assert [(each.domain, each.trials) for each in found] == [("a", 2), (None, 2)]
    assert [each.points for each in found] == pytest.approx([20, 20])
    assert paired_differences(frame({("cma", 0, "a"): 0.5})) == []


def test_means_are_over_the_trials_that_have_all_domains() -> None:
    tests = {("erm", trial, domain): 0.5 for trial in range(3) for domain in "ab"}
    tests |= {("cma", 0, "a"): 0.6, ("cma", 1, "a"): 0.6, ("cma", 1, "b"): 0.8, ("cma", 2, "b"): 0.8}
    *by_domain, mean = paired_differences(frame(tests))
    assert [each.trials for each in by_domain] == [2, 2]
    assert (mean.points, mean.trials, mean.error) == (pytest.approx(20), 1, None)


def difference(points: float, error: float | None, trials: int = 3, **more: str | None) -> PairedDifference:
    about = {"algorithm": "cma", "baseline": "erm", "domain": "a", **more}
    return PairedDifference(**about, points=points, error=error, trials=trials)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("points", "error", "verdict"),
    [
        (39, 12, Finding.BETTER),
        (0.5, 0.4, Finding.BETTER),
        (-11, 10.9, Finding.WORSE),
        (-0.5, 1.5, Finding.LEVEL),
        (0.6, 1.5, Finding.UNCERTAIN),
        (0, 0, Finding.LEVEL),
        (1e-9, 0, Finding.LEVEL),
        (-11, 11.1, Finding.UNCERTAIN),
        (40, None, Finding.UNCERTAIN),
    ],
)
def test_a_difference_is_better_worse_level_or_uncertain(points: float, error: float | None, verdict: Finding) -> None:
    found = difference(points, error)
    assert found.verdict == verdict
    assert found.found == (verdict in ("better", "worse"))


@pytest.mark.parametrize(("deviation", "trials"), [(0.2, 2), (0.8, 3), (3.0, 12), (6.0, 38), (7.1, MOST_TRIALS + 1)])
def test_trials_that_would_tell_two_points(deviation: float, trials: int) -> None:
    """Smallest n with t(n - 1) · deviation / √n ≤ 2, by hand."""
    error = deviation * 4.302652729749464 / np.sqrt(3)  # Student's t, 97.5%, two degrees of freedom
    assert difference(0, error).trials_needed == trials


def sweep(gains: dict[str, list[float]], trials: int = 3, noise: float = 0.004) -> Comparison:
    """Methods with gains over ERM on test domains a, b, c …, the same in all trials but for a little noise."""
    tests, size = {}, len(next(iter(gains.values())))
    for trial, domain in product(range(trials), range(size)):
        for name in {"erm", *(f"erm+{name.split('+')[1]}" for name in gains if "+" in name)}:
            tests[name, trial, "abcdefgh"[domain]] = 0.5
        for name, own in gains.items():
            tests[name, trial, "abcdefgh"[domain]] = 0.5 + own[domain] / 100 + noise * (trial - 1)
    runs = [("s", name, (domain,), trial, 0, "cpu", 9.0) for name, trial, domain in tests]
    columns = ["dataset", "algorithm", "test_domains", "trial", "hparams_seed", "device", "seconds"]
    times = pd.DataFrame(runs, columns=columns)
    times.loc[times["algorithm"] != "erm", "seconds"] = 11.0
    found = compare(frame(tests), times)
    assert found is not None
    return found


def test_the_answer_names_gains_levels_losses_and_costs() -> None:
    note, sentence = describe(sweep({"cma": [39, 0, -5]}))
    assert note.startswith("4 comparisons with ERM, paired by trial; ")
    assert sentence == (
        "On a, CMA is 39.0 points better than ERM (95% interval 38.0 to 40.0, 3 trials); on c it is 5.0 points worse "
        "(4.0 to 6.0); on b it is level (within 1 point); where it differs most it gained 39.0 points on the held-out "
        "rows of its training domains and its runs took about 1.2 times as long."
    )


def test_better_worse_and_uncertain_are_three_sentences() -> None:
    """A method eleven points below ERM once counted as one without a difference."""
    tests = {("erm", trial, "a"): 0.5 for trial in range(3)}
    for name, gains in {"cma": (0.3, 0.31, 0.32), "irm": (-0.1, -0.11, -0.12), "mmd": (0.1, -0.1, 0.03)}.items():
        tests |= {(name, trial, "a"): 0.5 + gain for trial, gain in enumerate(gains)}
    tests |= {("vrex", trial, "a"): 0.45 + trial / 500 for trial in range(3)}
    comparison = Comparison(paired_differences(frame(tests)), {}, {})
    _, worse, uncertain, sentence = describe(comparison)
    assert worse == "Worse than ERM: IRM on a by 11.0 (8.5 to 13.5), VREx on a by 4.8 (4.3 to 5.3)."
    assert uncertain.startswith("Too uncertain to tell: MMD on a by 1.0 (-24.")
    assert uncertain.endswith("; more than 50 trials would tell 2 points.")
    assert sentence == "On a, CMA is 31.0 points better than ERM (95% interval 28.5 to 33.5, 3 trials)."


def test_averaged_weights_come_first_if_they_gain() -> None:
    both = sweep({"cma": [40, 0], "cma+sma": [30, 0]})
    assert both.best.algorithm == "cma+sma"
    _, line, sentence = describe(both)
    assert line == "Better than ERM: CMA on a by 40.0 (39.0 to 41.0)."
    assert sentence.startswith("On a, CMA + SMA is 30.0 points better than ERM + SMA")
    assert sweep({"cma": [40, 0], "cma+sma": [-1, -1]}).best.algorithm == "cma"


def test_many_methods_and_domains_stay_short() -> None:
    algorithms = [f"m{number:02d}" for number in range(20)]
    gains = {name: [number - 8.0] * 5 + [30.0] for number, name in enumerate(algorithms)}
    _, better, worse, sentence = lines = describe(sweep(gains))
    assert better.startswith("Better than ERM, on average over domains: m18 by 13.3 (")
    assert better.endswith(" and 12 more.")
    assert worse.startswith("Worse than ERM, on average over domains: m00 by 1.7")
    assert sentence.startswith("On average over domains, m19 is 14.2 points better than ERM (")
    assert "on f it is 30.0 points better" in sentence
    assert max(map(len, lines)) < 400


def test_where_nothing_is_better_the_sentence_says_so() -> None:
    _, sentence = describe(sweep({"cma": [0.0, -5.0], "irm": [0.0, 0.0]}))[-2:]
    assert sentence.startswith(
        "Nothing is better than ERM: on a and b, IRM, with the largest mean, is level with ERM ("
    )


def test_one_trial_has_no_interval() -> None:
    (line,) = describe(sweep({"cma": [39.0], "irm": [1.0]}, trials=1))
    assert line.startswith(
        "With one trial there is no interval: on a, CMA is too uncertain to tell apart from ERM (38.6"
    )


def test_a_trial_that_lacks_domains_counts_on_the_others() -> None:
    tests = {(name, trial, domain): 0.5 for name in ("erm", "cma") for trial in range(3) for domain in "ab"}
    del tests["cma", 1, "b"], tests["cma", 2, "b"]
    _, sentence = describe(Comparison(paired_differences(frame(tests)), {}, {}))
    assert sentence.startswith("Nothing is better than ERM: on a, CMA, with the largest mean, is level with ERM (")
    assert sentence.endswith("; on b it is too uncertain to tell (0.0 points, one trial).")


def test_without_erm_the_answer_asks_for_it() -> None:
    runs = pd.DataFrame(columns=["test_domains", "trial", "hparams_seed", "device", "algorithm", "seconds"])
    tests = {("cma", 0, "a"): 0.5, ("irm", 0, "a"): 0.6}
    (line,) = describe(compare(frame(tests), runs))
    assert "erm" in line
    assert compare(frame({("cma", 0, "a"): 0.5, ("cma+sma", 0, "a"): 0.6}), runs) is None
    assert describe(None) == []


def test_pauses_and_other_devices_do_not_count_as_time() -> None:
    tests = {(name, trial, "a"): 0.5 for name in ("erm", "cma") for trial in range(4)}
    seconds = {"erm": (10.0, 10.0, 10.0, 0.0), "cma": (20.0, 20.0, 900.0, 5.0)}
    rows = [(("a",), t, 0, None, name, own[t]) for name, own in seconds.items() for t in range(4)]
    rows[4:4] = [(("a",), 9, 0, "NVIDIA H200", "erm", 1.0), (("a",), 9, 0, None, "cma", 30.0)]
    columns = ["test_domains", "trial", "hparams_seed", "device", "algorithm", "seconds"]
    found = compare(frame(tests), pd.DataFrame(rows, columns=columns))
    assert found is not None
    assert found.times == {"cma": 2.0}

"""The paper's numbers against each other: a slip in copying them would break a sum."""

import pytest

from momentalign.published import (
    AVERAGE,
    BEST_PROBES,
    published_accuracy,
    published_averages,
    published_costs,
    published_probing,
)

DATASETS = {"colored-mnist": 3, "rotated-mnist": 6, "vlcs": 4, "pacs": 4, "terra-incognita": 4}


@pytest.mark.parametrize("dataset", DATASETS)
@pytest.mark.parametrize("rule", ["oracle", "training-domain"])
def test_domains_average_to_what_is_printed(rule, dataset):
    found = published_accuracy(rule, dataset)
    for algorithm in ("erm", "coral", "fishr", "cma"):
        numbers = {name: number.mean for name, number in found[algorithm].items()}
        printed = numbers.pop(AVERAGE)
        assert len(numbers) == DATASETS[dataset]
        assert sum(numbers.values()) / len(numbers) == pytest.approx(printed, abs=0.1)


@pytest.mark.parametrize("baselines", [False, True])
@pytest.mark.parametrize("rule", ["oracle", "training-domain"])
def test_data_sets_average_to_what_is_printed_but_for_the_erratum(rule, baselines):
    found = published_averages(rule, baselines=baselines)
    assert len(found) == (9 if baselines else 5)
    for numbers in found.values():
        means = [number.mean for name, number in numbers.items() if name != AVERAGE]
        assert len(means) == (2 if baselines else 5)
        average = sum(means) / len(means)
        if numbers[AVERAGE].note:
            assert average == pytest.approx(74.75)
            assert numbers[AVERAGE].mean == 75.8
        else:
            assert average == pytest.approx(numbers[AVERAGE].mean, abs=0.1)


def test_the_two_tables_of_averages_agree():
    for rule in ("oracle", "training-domain"):
        main, more = published_averages(rule), published_averages(rule, baselines=True)
        for algorithm in main.keys() & more.keys():
            for dataset in ("colored-mnist", "rotated-mnist"):
                assert main[algorithm][dataset] == more[algorithm][dataset]


def test_every_erratum_is_marked():
    notes = [
        (dataset, algorithm, name)
        for dataset in DATASETS
        for algorithm, numbers in published_accuracy("oracle", dataset).items()
        for name, number in numbers.items()
        if number.note
    ]
    assert notes == [("terra-incognita", "cma", "location_38"), ("terra-incognita", "cma", "location_43")]


def test_what_was_not_published_is_empty():
    assert published_accuracy("leave-one-domain-out", "pacs") == {}
    assert published_accuracy("oracle", "colored-digits") == {}
    assert published_probing("pacs") == {}


def test_probes():
    assert published_probing("celeba")["cma"]["worst group"].mean == 74.16
    assert published_probing("multinli")["fishr"]["worst group"].error == 1.20
    for dataset in ("waterbirds", "celeba", "multinli"):
        assert set(published_probing(dataset)) == {"erm-balanced", "coral", "fishr", "hgp", "cma"}
        for numbers in published_probing(dataset).values():
            assert numbers["worst group"].mean < numbers[AVERAGE].mean
    assert BEST_PROBES["cma"]["hessian_weight"]["waterbirds"] == 1000.0


def test_costs():
    costs = published_costs()
    assert set(costs) == {"erm", "coral", "fishr", "hgp", "hutchinson", "cma-speed", "cma-memory"}
    assert costs["cma-speed"]["office-home"] == (None, 75.0)
    assert costs["hutchinson"]["rotated-mnist"] == (9.7935, 0.3496)
    assert all(len(row) == 6 for row in costs.values())

"""Configurations of single probes: the published settings of each solver, and the length of a run."""

import math

import pytest

from momentalign.probing import make_probe_config
from tests.probing.problems import spurious_data

DATA = spurious_data(160, 80, features=4)


def test_the_converged_solver_has_a_little_l2_and_a_tolerance() -> None:
    config = make_probe_config("spurious", "erm", data=DATA)
    assert (config.hparams["l2"], config.hparams["tol"]) == (1e-3, 1e-5)
    assert not {"lr", "batch_size", "epochs"} & set(config.hparams)
    assert (config.steps, config.record_every) == (500, 1)
    assert (config.hparams["components"], config.hparams["isr"], config.hparams["isr_scale"]) == (100, True, 0.0)


def test_sgd_is_the_papers_without_l2() -> None:
    config = make_probe_config("spurious", "erm", solver="sgd", data=DATA)
    assert (config.hparams["l2"], config.hparams["lr"], config.hparams["batch_size"]) == (0.0, 1e-3, 500)
    assert "tol" not in config.hparams


@pytest.mark.parametrize(("batch", "epochs", "every"), [(7, 100, None), (50, 3, None), (7, 10, 5)])
def test_sgd_takes_whole_epochs_and_records_about_a_hundred_times(batch: int, epochs: int, every: int | None) -> None:
    hparams = {"batch_size": batch, "epochs": epochs}
    config = make_probe_config("spurious", "erm", solver="sgd", data=DATA, hparams=hparams, record_every=every)
    assert config.steps == math.ceil(len(DATA.rows("train")) / batch) * epochs
    if every is None:
        assert config.record_every == max(1, math.floor(config.steps / 100))
    else:
        assert config.record_every == every


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hparams_seed": 1}, "'hparams_seed' should be below 1, the number of sets of 'erm', but is 1"),
        ({"hparams_seed": -1}, "'hparams_seed' should be at least 0"),
        ({"trial": -1}, "'trial' should be at least 0"),
        ({"record_every": 0}, "'record_every' should be at least 1"),
        ({"hparams": {"tolerance": 1}}, "A probe by 'erm' has .*but no 'tolerance'"),
        ({"solver": "sgd", "hparams": {"batch_size": 0}}, "'batch_size' should be at least 1"),
        ({"solver": "sgd", "hparams": {"epochs": 0}}, "'epochs' should be at least 1"),
    ],
)
def test_what_no_probe_has_is_refused(options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_probe_config("spurious", "erm", data=DATA, **options)

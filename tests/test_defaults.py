"""Defaults of public functions and classes: a change of one changes the results of everyone who relies on it."""

import importlib
import inspect
from typing import Any

import pytest

WEIGHTS = {"gradient_weight": 1.0, "hessian_weight": 1.0}
SOLVER = {"bias": True, "tol": 1e-4, "max_iter": 1000}
PATH = {**SOLVER, "l2": 1e-3, "scaling": "relative"}
REACH = {"reach": 2.0}

DEFAULTS: dict[str, dict[str, Any]] = {
    "penalties.DomainPenalty": {"anneal_steps": 0, "loss": "cross_entropy", "bias": True, "gather": True},
    "penalties.CMA": {
        **{**WEIGHTS, "anneal_steps": 0, "momentum": 0.0, "bias": True, "loss": "cross_entropy"},
        **{"route": "auto", "scaling": "none", "gather": True},
    },
    "penalties.CORAL": {"weight": 1.0},
    "penalties.Fishr": {"weight": 1.0, "momentum": 0.95},
    "penalties.GradientMatching": {"gradient_weight": 1.0},
    "penalties.HGP": {**WEIGHTS, "center": "mean"},
    "penalties.HessianMatching": {"hessian_weight": 1.0},
    "penalties.Hutchinson": {**WEIGHTS, "scaling": "none"},
    "penalties.IRM": {"weight": 1.0, "version": "head"},
    "penalties.MMD": {"weight": 1.0},
    "penalties.MomentAlignment": {"momentum": 0.0, "route": "auto", "scaling": "none"},
    "penalties.VREx": {"weight": 1.0},
    "linear.AlignmentObjective": {"scaling": "none"},
    "linear.fit_group_dro": SOLVER,
    "linear.fit_path": {**PATH, "loss": "cross_entropy"},
    "linear.fit_sgd": {"l2": 0.0, "bias": False, "epochs": 50, "batch_size": 500, "learning_rate": 1e-3, "seed": 0},
    "linear.rescale": {"l2": 1e-3},
    "selection.candidates": REACH,
    "selection.finalists": {"top": 5},
    "selection.record_scores": REACH,
    "selection.select": REACH,
    "selection.set_aside": REACH,
    "selection.worst_group_candidates": {"rule": "worst-group"},
    "theory.DomainLosses": {"l2": 0.01, "loss": "cross_entropy", "bias": True},
    "theory.derivative_distances": {"resamples": 200, "order": 3},
    "theory.hull_check": {"resamples": 200},
    "theory.transfer_report": {"l2": 0.01, "radius": 1.0, "order": 3, "loss": "cross_entropy"},
    "probing.ProbeSolver": {
        **{"l2": 1e-3, "tol": 1e-5, "max_iter": 500},
        **{"epochs": 50, "batch_size": 500, "learning_rate": 1e-3},
    },
    "probing.make_probe_config": {
        **{"method": "erm", "solver": "converged", "recipe": "table"},
        **{"hparams_seed": 0, "trial": 0},
    },
    "probing.project": {"components": 100, "isr": True, "isr_scale": 0.0, "unit_scale": True},
    "probing.run_probe": {"save": True},
    "probing.run_protocol": {
        **{"solver": "converged", "select": "worst-group", "seeds": 5, "top": 5, "recipe": "table"},
        **{"components": 100, "isr": True, "tol": 1e-5, "max_iter": 500},
    },
    "report.accuracy_table": REACH,
    "report.paired_differences": {"baseline": "erm", "column": "test"},
    "report.write_diagnosis": {"title": "Diagnosis", "lines": ()},
    "report.write_report": {**REACH, "title": ""},
}


@pytest.mark.parametrize("name", DEFAULTS)
def test_defaults_stay(name: str) -> None:
    package, _, attribute = name.partition(".")
    parameters = inspect.signature(getattr(importlib.import_module(f"momentalign.{package}"), attribute)).parameters
    found = {key: parameter.default for key, parameter in parameters.items()}
    left_out = (inspect.Parameter.empty, None)
    assert {key: value for key, value in found.items() if value not in left_out} == DEFAULTS[name]

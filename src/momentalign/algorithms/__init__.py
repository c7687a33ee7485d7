"""Algorithms: how one step changes a network. Each has a name or an import path, and a search space.

>>> sorted(find_algorithm("coral").space("mnist", steps=5001))
['anneal_steps', 'batch_size', 'clip', 'dropout', 'lr', 'optimizer', 'schedule', 'weight', 'weight_decay']
"""

from momentalign.algorithms._averaging import AVERAGES, WeightAverage, make_average
from momentalign.algorithms._base import Algorithm, Backward, Batch, Network, reset_optimizer
from momentalign.algorithms._catalogue import (
    PLAIN_MODELS,
    algorithm_names,
    find_algorithm,
)
from momentalign.algorithms._dann import CDANN, DANN
from momentalign.algorithms._domain_gradients import IGA, ANDMask, Fish
from momentalign.algorithms._erm import ERM
from momentalign.algorithms._group_dro import GroupDRO
from momentalign.algorithms._recipes import Recipe, find_training_recipe
from momentalign.algorithms._search_space import (
    Hyperparameter,
    SearchSpace,
    annealing,
    check_hyperparameters,
    draw_hyperparameters,
    one_of,
    power_of_ten,
    power_of_two,
    uniform,
    whole,
)
from momentalign.algorithms._selfreg import SelfReg
from momentalign.algorithms._spec import PRESETS, SAFE_WEIGHTS, AlgorithmSpec, has_safe_weights

__all__ = [
    "AVERAGES",
    "CDANN",
    "DANN",
    "ERM",
    "IGA",
    "PLAIN_MODELS",
    "PRESETS",
    "SAFE_WEIGHTS",
    "ANDMask",
    "Algorithm",
    "AlgorithmSpec",
    "Backward",
    "Batch",
    "Fish",
    "GroupDRO",
    "Hyperparameter",
    "Network",
    "Recipe",
    "SearchSpace",
    "SelfReg",
    "WeightAverage",
    "algorithm_names",
    "annealing",
    "check_hyperparameters",
    "draw_hyperparameters",
    "find_algorithm",
    "find_training_recipe",
    "has_safe_weights",
    "make_average",
    "one_of",
    "power_of_ten",
    "power_of_two",
    "reset_optimizer",
    "uniform",
    "whole",
]

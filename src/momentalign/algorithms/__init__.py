"""Algorithms: how one step changes a network. A name or an import path finds one, with what to search.

>>> sorted(find_algorithm("coral").space("mnist", steps=5001))
['anneal_steps', 'batch_size', 'clip', 'dropout', 'lr', 'optimizer', 'schedule', 'weight', 'weight_decay']
"""

from momentalign.algorithms._and_mask import ANDMask
from momentalign.algorithms._base import Algorithm, Backward
from momentalign.algorithms._batch import Batch
from momentalign.algorithms._dann import CDANN, DANN
from momentalign.algorithms._erm import ERM
from momentalign.algorithms._find import algorithm_names, find_algorithm
from momentalign.algorithms._fish import Fish
from momentalign.algorithms._group_dro import GroupDRO
from momentalign.algorithms._iga import IGA
from momentalign.algorithms._network import Network
from momentalign.algorithms._optimizers import reset_optimizer
from momentalign.algorithms._search import Hyperparameter, SearchSpace, check_hyperparameters, draw_hyperparameters
from momentalign.algorithms._selfreg import SelfReg
from momentalign.algorithms._specs import AlgorithmSpec

__all__ = [
    "CDANN",
    "DANN",
    "ERM",
    "IGA",
    "ANDMask",
    "Algorithm",
    "AlgorithmSpec",
    "Backward",
    "Batch",
    "Fish",
    "GroupDRO",
    "Hyperparameter",
    "Network",
    "SearchSpace",
    "SelfReg",
    "algorithm_names",
    "check_hyperparameters",
    "draw_hyperparameters",
    "find_algorithm",
    "reset_optimizer",
]

"""Model soups (Wortsman et al. 2022): averages of the weights of several runs from one initialisation."""

import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from momentalign._format import join_first, pluralize
from momentalign._model_file import MODEL, check_version, read_model, write_model
from momentalign._table_spec import spec_path
from momentalign.algorithms import PLAIN_MODELS
from momentalign.data import DomainDataset
from momentalign.runs import Record, RunConfig, RunFolder, data_stamp
from momentalign.training._data import describe_data, open_dataset, open_rows
from momentalign.training._devices import make_fabric
from momentalign.training._evaluator import Evaluator, count_held_out, held_out_mean
from momentalign.training._model import describe_network, device_name, training_domains
from momentalign.training._options import RunOptions
from momentalign.training._predictor import load_run

if TYPE_CHECKING:
    import pandas as pd

MIXED = "all"
"""Algorithm of a soup of several algorithms' runs."""

_SAME = ("encoder", "holdout")
"""Settings that the runs of a soup share beside data set, test domains and trial, for the same initialisation."""


@dataclass(frozen=True)
class SoupPlan:
    """Runs to average, of one data set, test domains and trial, and so of one initialisation.

    Args:
        algorithm: Name of their algorithm, or :data:`MIXED`.
        config: Configuration of the first of them.
        folders: Folders of the runs by name, in the order of their sets of hyper-parameters.
    """

    algorithm: str
    config: RunConfig
    folders: Mapping[str, Path]

    def describe(self) -> str:
        """Algorithm, data set, test domains and trial in one phrase."""
        without = f" without {', '.join(self.config.test_domains)}" if self.config.test_domains else ""
        return f"{self.algorithm} on {spec_path(self.config.dataset)}{without}, trial {self.config.trial}"


class SoupScore(NamedTuple):
    """One line of a soup's table.

    Args:
        name: "best single run", "uniform soup" or "greedy soup".
        runs: Names of the runs in it.
        held_out: Mean accuracy on the held-out rows of the training domains.
        test: Mean accuracy on the test domains' first split; NaN where there are none.
        folder: Folder of the run or of the soup.
    """

    name: str
    runs: tuple[str, ...]
    held_out: float
    test: float
    folder: Path


def plan_soups(folders: str | Path | Iterable[str | Path], *, mix: bool = False) -> tuple[list[SoupPlan], list[str]]:
    """Group the finished runs in folders into soups: by data set, algorithm, test domains and trial.

    Args:
        folders: As for :func:`momentalign.runs.read_runs`.
        mix: Average runs of different algorithms too.

    Returns:
        The plans, and what was left out, one line each.

    Raises:
        ValueError: Runs have no weights or several initialisations, or there are not two to average.
    """
    from momentalign.runs import read_runs  # with pandas, which training does without

    sweep = read_runs(folders)
    problems = list(sweep.problems)
    finished = sweep.finished()
    finished = finished[~finished["algorithm"].isin(PLAIN_MODELS)]
    finished = finished[(finished["setting"] == "finetune") & ~finished.index.isin(sweep.diverged().index)]
    bare = [str(name) for name, run in finished["folder"].items() if not (run / MODEL).exists()]
    if bare:
        check_version(finished.at[bare[0], "folder"])
        raise ValueError(
            f"A soup needs the weights of all its runs, but {len(bare)} of {len(finished)} finished runs have none: "
            f"{join_first(bare)}. Remove their folders and run the sweep again without --no-weights."
        )
    keys = ["dataset", "test_domains", "trial", *([] if mix else ["algorithm"])]
    plans: list[SoupPlan] = []
    for _, runs in finished.sort_values(["algorithm", "hparams_seed"], kind="stable").groupby(keys, sort=False):
        plan = _plan(runs, mix=mix)
        _check_initialisation(plan, runs)
        if len(plan.folders) > 1:
            plans.append(plan)
        else:
            problems.append(f"{plan.describe()}: one run only, nothing to average.")
    if not plans:
        raise ValueError(
            "A soup needs two finished runs or more of one data set, algorithm, choice of test domains and trial, but "
            f"there are none among {pluralize(len(sweep.runs), 'run')}. Run a sweep with --hparams 2 or more."
        )
    return plans, problems


def make_soup(
    plan: SoupPlan,
    out: str | Path,
    *,
    root: str | Path | None = None,
    accelerator: str = "auto",
    workers: int | None = None,
    skip_bad_files: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> list[SoupScore]:
    """Average the weights of runs, evenly and greedily, and evaluate the soups on all domains in float32.

    The greedy soup starts with the run of the highest mean accuracy on the held-out rows of the training domains and
    goes through the others in descending order; a run stays in it if that accuracy does not fall. Ties go to the higher
    number of a set of hyper-parameters. Parameters and floating-point buffers are averaged, others are the best run's.

    Args:
        plan: What to average.
        out: Parent of the soups' folders, which are those of finished runs with one record.
        root: Data folder.
        accelerator: "cpu", "cuda" or "auto".
        workers: Processes that read images; None for one per core.
        skip_bad_files: Skip unreadable images.
        progress: Called with evaluations done and the number of all.

    Returns:
        The best single run, the uniform and the greedy soup.
    """
    evaluator = _SoupEvaluator(plan, root=root, accelerator=accelerator, workers=workers, skip_bad_files=skip_bad_files)
    number, done = len(plan.folders), 0

    def count() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, 2 * number + 2)

    alone = {}
    for name in plan.folders:
        alone[name] = evaluator.held_out([name])
        count()
    names = list(alone)
    order = sorted(names, key=lambda name: (alone[name], names.index(name)), reverse=True)
    greedy, best = order[:1], alone[order[0]]
    for name in order[1:]:
        score = evaluator.held_out([*greedy, name])
        if score >= best:
            greedy, best = [*greedy, name], score
        count()
    scores = []
    for kind, chosen in (("best single run", order[:1]), ("uniform soup", order), ("greedy soup", greedy)):
        folder = plan.folders[chosen[0]]
        records = evaluator.evaluate(chosen)
        if kind != "best single run":
            folder = evaluator.save(Path(out), kind.replace(" ", "-"), chosen, records)
        test_rows = [(domain, evaluator.data.training_split) for domain in plan.config.test_domains]
        test = held_out_mean(records, test_rows, "accuracy") if test_rows else float("nan")
        held_out = held_out_mean(records, evaluator.validation, "accuracy")
        scores.append(SoupScore(kind, tuple(chosen), held_out, test, folder))
        count()
    return scores


class _SoupEvaluator:
    """The data and the network that all runs of a soup share."""

    def __init__(
        self, plan: SoupPlan, *, root: str | Path | None, accelerator: str, workers: int | None, skip_bad_files: bool
    ) -> None:
        self.plan = plan
        config = plan.config
        self.fabric = make_fabric(devices=1, accelerator=accelerator, precision="32")
        model = load_run(next(iter(plan.folders.values())))
        self.network = model.network.to(self.fabric.device)
        self.data = open_dataset(config, root, skip_bad_files=skip_bad_files)
        if self.data.classes != model.classes:
            raise ValueError(f"{config.dataset} should have the classes of its runs, but has changed since.")
        self.domains = training_domains(config, self.data)
        split = self.data.validation_split
        self.validation = [(domain, split) for domain in self.domains]
        self.rows = open_rows(self.data, model.preprocessing, self.fabric.device)
        count_held_out(self.rows, self.validation, "momentalign soup")
        some = {domain: {split: self.data.domains[domain][split]} for domain in self.domains}
        held_out = DomainDataset(self.data.name, self.data.num_classes, some, self.data.classes)
        few = open_rows(held_out, model.preprocessing, self.fabric.device)
        readers = RunOptions(workers=workers).workers_for(self.rows, 1)
        self._everything, self._held_out = (
            Evaluator(self.fabric, self.network, data, rows, self.domains, config.trial, readers)
            for data, rows in ((self.data, self.rows), (held_out, few))
        )
        self.steps = config.steps

    def held_out(self, names: list[str]) -> float:
        """Mean accuracy of some runs' average on the held-out rows of the training domains."""
        self.network.load_state_dict(self._mean(names))
        return held_out_mean(self._held_out(0, lambda _: None), self.validation, "accuracy")

    def evaluate(self, names: list[str]) -> list[Record]:
        """Records of some runs' average; the network keeps these weights."""
        self.network.load_state_dict(self._mean(names))
        return self._everything(self.steps - 1, lambda _: None)

    def save(self, out: Path, kind: str, names: list[str], records: list[Record]) -> Path:
        """Write the network as a finished run."""
        text = "\n".join(sorted(str(folder.name) for folder in self.plan.folders.values()))
        hparams = {"runs": len(self.plan.folders), "digest": hashlib.sha256(text.encode()).hexdigest()[:16]}
        config = dataclasses.replace(
            self.plan.config,
            algorithm=f"{self.plan.algorithm}+{kind}",
            hparams_seed=0,
            hparams=hparams,
            average="none",
            precision="32",
        )
        folder = RunFolder(out / config.hash(), config, data_stamp(config.dataset))
        with folder.recording_failure():
            folder.begin(
                **describe_data(self.data),
                device=device_name(self.fabric.device),
                threads=torch.get_num_threads(),
                soup={"kind": kind, "runs": names, "of": list(self.plan.folders)},
            )
            folder.append(records)
            write_model(folder.path / MODEL, self.network.state_dict(), describe_network(self.network, self.data))
            folder.finish()
        return folder.path

    def _mean(self, names: list[str]) -> dict[str, Tensor]:
        """Mean of the weights of runs, added up in float64; one run's weights at a time are in memory."""
        total: dict[str, Tensor] = {}
        first: dict[str, Tensor] = {}
        for name in names:
            _, weights = read_model(self.plan.folders[name] / MODEL)
            if not first:
                first = weights
            for key, tensor in weights.items():
                if tensor.is_floating_point():
                    total[key] = total[key].add_(tensor) if key in total else tensor.double()
        return {key: (total[key] / len(names)).to(t.dtype) if key in total else t for key, t in first.items()}


def _plan(runs: "pd.DataFrame", *, mix: bool) -> SoupPlan:
    config = runs["config"].iloc[0]
    known = {field.name for field in dataclasses.fields(RunConfig)}
    values = {key: value for key, value in config.items() if key in known}
    first = RunConfig(**{**values, "test_domains": tuple(config["test_domains"])})
    algorithms = list(dict.fromkeys(runs["algorithm"]))
    folders = {str(name): Path(folder) for name, folder in runs["folder"].items()}
    return SoupPlan(MIXED if mix and len(algorithms) > 1 else algorithms[0], first, folders)


def _check_initialisation(plan: SoupPlan, runs: "pd.DataFrame") -> None:
    """Raise ValueError if the runs did not start from the same weights, or were not trained on the same rows."""
    stamp, before = data_stamp(plan.config.dataset), runs["data"].iloc[0]
    if None not in (stamp, before) and stamp != before:
        raise ValueError(f"{plan.describe()}: the data set has changed since the runs. Train them again.")
    for one, other in pairwise(runs.itertuples()):
        shared = {key: (one.config.get(key), other.config.get(key)) for key in _SAME}
        shared |= {"the content of the data set": (one.data, other.data)}
        shared |= {"the list of classes": (one.classes, other.classes)}
        for key, (mine, theirs) in shared.items():
            if mine != theirs:
                raise ValueError(
                    f"{plan.describe()}: the runs of a soup should have one initialisation and one split, but {key} is "
                    f"{mine!r} in {one.Index} and {theirs!r} in {other.Index}. Give them in separate folders."
                )

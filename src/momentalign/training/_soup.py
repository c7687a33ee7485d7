"""Model soups (Wortsman et al. 2022): averages of the weights of several runs from one initialisation."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from momentalign._format import join_first, pluralize
from momentalign._model_file import MODEL, check_version, read_model, write_model
from momentalign._table_spec import spec_path
from momentalign.algorithms import PLAIN_MODELS, Network
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
    config, fabric = plan.config, make_fabric(devices=1, accelerator=accelerator, precision="32")
    model = load_run(next(iter(plan.folders.values())))
    network = model.network.to(fabric.device)
    data = open_dataset(config, root, skip_bad_files=skip_bad_files)
    if data.classes != model.classes:
        raise ValueError(f"{config.dataset} should have the classes of its runs, but has changed since.")
    domains = training_domains(config, data)
    validation = [(domain, data.validation_split) for domain in domains]
    test_rows = [(domain, data.training_split) for domain in config.test_domains]
    some = {domain: {split: data.domains[domain][split]} for domain, split in validation}
    held_out = DomainDataset(data.name, data.num_classes, some, data.classes)
    evaluators = {}
    for part in (held_out, data):
        rows = open_rows(part, model.preprocessing, fabric.device)
        count_held_out(rows, validation, "momentalign soup")
        readers = RunOptions(workers=workers).workers_for(rows, 1)
        evaluators[part] = Evaluator(fabric, network, part, rows, domains, config.trial, readers)
    done = count(1)

    def records_of(names: Sequence[str], part: DomainDataset) -> list[Record]:
        """Records of the mean of some runs; the network keeps these weights."""
        network.load_state_dict(_mean([plan.folders[name] for name in names]))
        records = evaluators[part](config.steps - 1, lambda _: None)
        if progress is not None:
            progress(next(done), 2 * len(plan.folders) + 2)
        return records

    def score_of(names: Sequence[str]) -> float:
        return held_out_mean(records_of(names, held_out), validation, "accuracy")

    alone = {name: score_of([name]) for name in plan.folders}
    names = list(alone)
    order = sorted(names, key=lambda name: (alone[name], names.index(name)), reverse=True)
    greedy, best = order[:1], alone[order[0]]
    for name in order[1:]:
        score = score_of([*greedy, name])
        if score >= best:
            greedy, best = [*greedy, name], score
    scores = []
    for kind, chosen in (("best single run", order[:1]), ("uniform soup", order), ("greedy soup", greedy)):
        folder, records = plan.folders[chosen[0]], records_of(chosen, data)
        if kind != "best single run":
            folder = _save(plan, Path(out), kind.replace(" ", "-"), chosen, records, network, data)
        test = held_out_mean(records, test_rows, "accuracy") if test_rows else float("nan")
        scores.append(SoupScore(kind, tuple(chosen), held_out_mean(records, validation, "accuracy"), test, folder))
    return scores


def _save(
    plan: SoupPlan,
    out: Path,
    kind: str,
    names: Sequence[str],
    records: list[Record],
    network: Network,
    data: DomainDataset,
) -> Path:
    """Write a network as a finished run; returns its folder."""
    text = "\n".join(sorted(folder.name for folder in plan.folders.values()))
    own: dict[str, Any] = {"hparams": {"runs": len(plan.folders), "digest": sha256(text.encode()).hexdigest()[:16]}}
    own |= {"algorithm": f"{plan.algorithm}+{kind}", "hparams_seed": 0, "average": "none", "precision": "32"}
    config = dataclasses.replace(plan.config, **own, keep="last", reach=RunConfig.reach)
    folder = RunFolder(out / config.hash(), config, data_stamp(config.dataset))
    with folder.recording_failure():
        folder.begin(
            **describe_data(data),
            device=device_name(next(network.parameters()).device),
            threads=torch.get_num_threads(),
            soup={"kind": kind, "runs": names, "of": list(plan.folders)},
        )
        folder.append(records)
        write_model(folder.path / MODEL, network.state_dict(), describe_network(network, data))
        folder.finish()
    return folder.path


def _mean(folders: Sequence[Path]) -> dict[str, Tensor]:
    """Mean of the weights of runs, added up in float64; one run's weights at a time are in memory."""
    _, first = read_model(folders[0] / MODEL)
    total = {key: tensor.double() for key, tensor in first.items() if tensor.is_floating_point()}
    for folder in folders[1:]:
        _, weights = read_model(folder / MODEL)
        for key, tensor in total.items():
            tensor += weights[key]
    return first | {key: (tensor / len(folders)).to(first[key].dtype) for key, tensor in total.items()}


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
    shared: dict[str, list[Any]] = {key: [config.get(key) for config in runs["config"]] for key in _SAME}
    shared |= {"content of the data set": list(runs["data"]), "list of classes": list(runs["classes"])}
    for key, values in shared.items():
        if other := [value for value in values if value != values[0]]:
            raise ValueError(
                f"{plan.describe()}: the runs of a soup should have one {key}, not {values[0]!r} and {other[0]!r}. "
                "Give them in separate folders."
            )

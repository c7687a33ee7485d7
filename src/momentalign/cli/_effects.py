"""What options need to have an effect: one given without it is an error.

A need is another option, "--predict", an option with its value, "--engine ray", or a fact; "no --list" is the opposite.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from momentalign._datasets import DATASET_NAMES, EMBEDDED
from momentalign._table_spec import TABLE_OPTIONS, is_table, spec_path, table_spec

Given = Mapping[str, Any]
"""Values of a command's parameters by their names, of options as they are typed."""

_DATA = {"anything in the data folder": "--root", "image files": "--workers --skip-bad-files --augment"}
_RUN = {"an alignment penalty": "--preset", "a large encoder": "--augment", "rows to split": "--holdout"} | _DATA
_GPU = {"no --device cpu": "--per-gpu", "no --jobs on this machine": "--per-gpu"}
_NETWORK = "--encoder --precision --preset --augment --average --device --per-gpu --skip-bad-files"
NEEDS: Mapping[str, Mapping[str, str]] = {
    "bench": {
        "no --training": "--memory",
        "no --probing-grid": "--memory --device",
        "no --sweeps": "--memory --device",
    },
    "embed": {"rows to split": "--with-split"} | _DATA,
    "evaluate": {"a network": "--root --device --batch-size --workers --skip-bad-files --split"} | _DATA,
    **{name: {"a download": "--from --root --keep --dry-run"} for name in ("fetch", "path", "verify")},
    "groups": _DATA,
    "probe": {"--predict": "--id", "no --predict": "path --split --test-domain --task --components --seed --overwrite"},
    "reproduce": {
        "no --list": "name --scale --preset --skip-bad-files --out --device --dry-run",
        "no --features": "--encoder --skip-bad-files --root --device",
        "a recipe with data": "--preset",
        "several data sets": "--skip-missing",
        "an encoder to replace": "--encoder",
        "probes": "--features",
        "a table of probes": "--solver",
        "runs to train": "--retry-failed --jobs --per-gpu",
    }
    | _GPU
    | _DATA,
    "report": {"runs with a test domain": "--reach"},
    "soup": _DATA,
    "sweep": {
        "no --setting probe": f"{_NETWORK} --test-domains --steps --train-accuracy --holdout --root --baselines",
        "an algorithm to train": f"{_NETWORK} --hparams --record-every --set --weights",
        "a table": "--baselines",
        "--setting probe": "--solver --recipe",
        "--engine ray": "--address --cpus",
    }
    | _GPU
    | _RUN,
    "table": {"--select extrapolated": "--reach"},
    "train": {"--keep extrapolated": "--reach"} | _RUN,
}
"""Options of each command by what they need; others always have an effect."""


def find_lack(command: str, option: str, given: Given) -> str | None:
    """What an option lacks to have an effect beside the values of the others, as in "without --engine ray", if any."""
    for need in (need for need, options in NEEDS.get(command, {}).items() if option in options.split()):
        what = need.removeprefix("no ")
        name, _, value = what.partition(" ")
        found = FACTS[what](given) if what in FACTS else given[name] == value if value else given[name]
        if bool(found) != (what == need):
            return f"{'without' if what == need else 'with'} {what}"
    return None


def _lib(module: str) -> Any:
    """Import a package when a fact is asked for, which is rare: imports take seconds."""
    return import_module(f"momentalign.{module}")


def _read_runs(given: Given) -> Any:
    return _lib("runs").read_runs([Path(folder) for folder in given["folders"]]).runs


def _datasets(given: Given) -> Iterable[str]:
    """Data sets of a command, of recipes or of the runs of a soup, with the options for reading tables."""
    if "folders" in given:
        return list(_read_runs(given)["dataset"])
    if "--list" in given:
        return DATASET_NAMES if given["--list"] else _recipe(given).datasets
    reading = {option: given[f"--{option}"] for option in TABLE_OPTIONS}
    return [table_spec(name, **reading) for name in given.get("datasets") or [given["dataset"]]]


def _reads_root(given: Given) -> bool:
    encoder = re.sub(r"^hf(-config)?:|\?.*", "", given.get("--encoder") or "")
    paths = {name: Path(spec_path(name)).expanduser() for name in _datasets(given) if name not in EMBEDDED}
    named = any(name in DATASET_NAMES or not path.exists() for name, path in paths.items())
    return named or (encoder != "" and Path(given["--root"], encoder).is_dir())


def _methods(given: Given) -> set[str]:
    """Algorithms of a command but for plain models, which train no network and have no hyper-parameters."""
    names = given["--algorithms"].split(",") if "--algorithms" in given else [given["--algorithm"]]
    return {name.strip() for name in names} - set(_lib("algorithms").PLAIN_MODELS)


def _has_preset(given: Given) -> bool:
    asked = {"safe", "released"} & {given["--preset"]} or {"safe", "released"}  # all have the published one
    return any(_lib("algorithms").find_algorithm(name).has_space(each) for name in _methods(given) for each in asked)


def _recipe(given: Given) -> Any:
    name = "costs" if given["--list"] or given["name"] is None else given["name"]
    return _lib("reproduce").find_recipe(name, given["--scale"], given["--preset"])


FACTS: Mapping[str, Callable[[Given], object]] = {
    "a table": lambda given: any(is_table(spec_path(name)) for name in _datasets(given)),
    "image files": lambda given: any(
        not is_table(spec_path(name)) and name not in (*EMBEDDED, "colored-mnist", "rotated-mnist", "multinli")
        for name in _datasets(given)
    ),
    "anything in the data folder": _reads_root,
    "rows to split": lambda given: any(
        {"in", "out"} >= set(_lib("data").load_dataset(name, root=given["--root"]).split_names)
        for name in _datasets(given)
    ),
    "a large encoder": lambda given: (
        given["--encoder"] and not _lib("encoders").is_small_network(given["--encoder"], given["--root"])
    ),
    "an alignment penalty": _has_preset,
    "an algorithm to train": _methods,
    "a network": lambda given: not _lib("training").is_linear_model(given["run"]),
    "runs with a test domain": lambda given: any(_read_runs(given)["test_domains"]),
    "--jobs on this machine": lambda given: given["--jobs"] is not None and given.get("--engine") != "ray",
    "a download": lambda given: given["name"] not in EMBEDDED,
    "a recipe with data": lambda given: _recipe(given).datasets,
    "several data sets": lambda given: len(_recipe(given).datasets) > 1,
    "an encoder to replace": lambda given: any(_recipe(given).encoder(name) for name in _recipe(given).datasets),
    "runs to train": lambda given: isinstance(_recipe(given), _lib("reproduce").SweepRecipe),
    "probes": lambda given: isinstance(_recipe(given), _lib("reproduce").ProbingRecipe),
    "a table of probes": lambda given: FACTS["probes"](given) and not _recipe(given).figure,
}

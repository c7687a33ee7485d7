"""Options shared by several commands, and parsing of their values."""

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from momentalign._json import parse_json

DATA, MACHINE, TRAINING = "Data", "Machine", "Training"
"""Panels of the help, after the main one."""
DatasetArgument = Annotated[
    str, typer.Argument(help="Name of a data set, a folder domain/class/image, or a table.", show_default=False)
]
RootOption = Annotated[
    Path | None,
    typer.Option(
        "--root", help="Data folder.", show_default="$MOMENTALIGN_DATA, else ~/.cache/momentalign", rich_help_panel=DATA
    ),
]
ConfigOptions = Annotated[
    Mapping[str, Any],
    {
        "steps": Annotated[
            int | None,
            typer.Option(help="Training steps.", show_default="5001; 800 for colored-digits, three epochs for texts"),
        ],
        "record_every": Annotated[int | None, typer.Option(help="Steps between records.", rich_help_panel=TRAINING)],
        "encoder": Annotated[
            str | None,
            typer.Option(
                help="mnist-cnn, mlp, pixels, hf:NAME, a folder in Hugging Face format, hf-config:FOLDER, or a run.",
                show_default="mnist-cnn for small images, mlp for tables and colored-digits",
            ),
        ],
        "precision": Annotated[
            str | None, typer.Option(help="32 or bf16.", show_default="32", rich_help_panel=MACHINE)
        ],
        "preset": Annotated[
            str | None,
            typer.Option(
                help="Search space of alignment penalties: published, safe (relative scaling), released (annealing of "
                "the public code), or auto for the published one where the paper has weights for data set and encoder.",
                show_default="auto",
                rich_help_panel=TRAINING,
            ),
        ],
        "augment": Annotated[
            str | None,
            typer.Option(
                help="Of images: none, domainbed, no-flip, or auto for domainbed without flips of digits and letters.",
                show_default="auto",
                rich_help_panel=DATA,
            ),
        ],
        "average": Annotated[
            str | None,
            typer.Option(
                help="Average of the weights to record beside them: none, ema, sma or swad.",
                show_default="sma for colored-digits, else none",
                rich_help_panel=TRAINING,
            ),
        ],
        "holdout": Annotated[
            float | None,
            typer.Option(
                help="Fraction of each domain held out from training.", show_default="0.2", rich_help_panel=DATA
            ),
        ],
    },
]
"""Of a run's configuration, which has the defaults."""
SettingsOption = Annotated[
    list[str] | None, typer.Option("--set", help="NAME=VALUE: set a hyper-parameter; repeatable.", show_default=False)
]
ReachOption = Annotated[
    float | None,
    typer.Option(
        "--reach",
        help="For extrapolated selection: how far outside the training domains' hull a new domain may lie.",
        show_default="2",
    ),
]
AcceleratorOption = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.", rich_help_panel=MACHINE)]
DeviceOption = Annotated[
    str, typer.Option("--device", help="auto, cpu, cuda, or cuda:1 and so on.", rich_help_panel=MACHINE)
]
SkipBadFilesOption = Annotated[
    bool, typer.Option("--skip-bad-files", help="Leave out images that cannot be decoded.", rich_help_panel=DATA)
]
ReadingOptions = Annotated[
    Mapping[str, Any],
    {
        "root": RootOption,
        "workers": Annotated[int | None, typer.Option(help="Processes that read images.", rich_help_panel=MACHINE)],
        "skip_bad_files": SkipBadFilesOption,
    },
]
TrainAccuracyOption = Annotated[
    bool,
    typer.Option(
        "--train-accuracy/--no-train-accuracy",
        help="Record the accuracy on training rows too; of the selection rules only train-groups needs it.",
        rich_help_panel=TRAINING,
    ),
]
JobsOption = Annotated[
    int | None,
    typer.Option("--jobs", help="Runs at once.", show_default="one per core, or per GPU", rich_help_panel=MACHINE),
]
PerGpuOption = Annotated[int, typer.Option("--per-gpu", help="Runs that share a GPU.", rich_help_panel=MACHINE)]
RetryFailedOption = Annotated[bool, typer.Option("--retry-failed", help="Retry failed runs.")]
SolverOption = Annotated[str, typer.Option("--solver", help="For probes: converged, or sgd as in the paper.")]


def option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Replace parameters that are groups of options by these; the command gets a mapping of those that were given."""
    signature = inspect.signature(command)
    notes = {name: getattr(each.annotation, "__metadata__", ()) for name, each in signature.parameters.items()}
    groups = {name: own[0] for name, own in notes.items() if own and isinstance(own[0], dict)}
    parameters: list[inspect.Parameter] = []
    for name, each in signature.parameters.items():
        own = groups.get(name, {name: each.annotation})
        default = None if name in groups else each.default
        parameters += [
            each.replace(name=n, kind=each.KEYWORD_ONLY, default=default, annotation=a) for n, a in own.items()
        ]

    @functools.wraps(command)
    def with_groups(**values: Any) -> None:
        for name, options in groups.items():
            given = {option: values.pop(option) for option in options}
            values[name] = {option: value for option, value in given.items() if value is not None}
        command(**values)

    with_groups.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    with_groups.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_groups


def parse_settings(pairs: list[str]) -> dict[str, Any]:
    """Parse values of `--set NAME=VALUE`, as JSON if possible, else as text.

    Example:
        >>> parse_settings(["lr=1e-3", "solver=sgd"])
        {'lr': 0.001, 'solver': 'sgd'}
    """
    settings: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ValueError(f"'--set' should look like NAME=VALUE, but is '{pair}'.")
        try:
            settings[name] = parse_json(value.encode(), nonfinite=True)
        except ValueError:
            settings[name] = value
    return settings


def split_names(*texts: str) -> list[str]:
    """Split names separated by commas; spaces around them are dropped.

    Example:
        >>> split_names("dog, guitar", "polar bear")
        ['dog', 'guitar', 'polar bear']
    """
    return [name.strip() for text in texts for name in text.split(",") if name.strip()]


def find_device(name: str) -> str:
    """Resolve "auto" to CUDA or CPU, and check that torch can use the device."""
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    try:
        torch.empty(1, device=name)
    except (RuntimeError, AssertionError):
        raise ValueError(
            f"'--device' should be auto or a device that torch can use (cpu, cuda, cuda:1), but is '{name}'. Use cpu."
        ) from None
    return name

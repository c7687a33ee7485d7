"""Options shared by several commands, and parsing of their values."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.models import OptionInfo

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
EncoderOption = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        help="mnist-cnn, mlp, pixels, hf:NAME, a folder in Hugging Face format, hf-config:FOLDER, or a run.",
        show_default="mnist-cnn for small images, mlp for tables and colored-digits",
    ),
]
SettingsOption = Annotated[
    list[str] | None, typer.Option("--set", help="NAME=VALUE: set a hyper-parameter; repeatable.", show_default=False)
]
StepsOption = Annotated[
    int | None,
    typer.Option(
        "--steps", help="Training steps.", show_default="5001; 800 for colored-digits, three epochs for texts"
    ),
]
ReachOption = Annotated[
    float | None,
    typer.Option(
        "--reach",
        help="For extrapolated selection: how far outside the training domains' hull a new domain may lie.",
        show_default="2",
    ),
]
RecordEveryOption = Annotated[
    int | None, typer.Option("--record-every", help="Steps between records.", rich_help_panel=TRAINING)
]
HoldoutOption = Annotated[
    float, typer.Option("--holdout", help="Fraction of each domain held out from training.", rich_help_panel=DATA)
]
PrecisionOption = Annotated[str, typer.Option("--precision", help="32 or bf16.", rich_help_panel=MACHINE)]
AverageOption = Annotated[
    str | None,
    typer.Option(
        "--average",
        help="Average of the weights to record beside them: none, ema, sma or swad.",
        show_default="sma for colored-digits, else none",
        rich_help_panel=TRAINING,
    ),
]
PresetOption = Annotated[
    str,
    typer.Option(
        "--preset",
        help="Search space of alignment penalties: published, safe (relative scaling), released "
        "(annealing of the public code), or auto for the published one where the paper has weights for data set and "
        "encoder.",
        rich_help_panel=TRAINING,
    ),
]
AugmentOption = Annotated[
    str,
    typer.Option(
        "--augment",
        help="Of images: none, domainbed, no-flip, or auto for domainbed without flips of digits and letters.",
        rich_help_panel=DATA,
    ),
]
AcceleratorOption = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.", rich_help_panel=MACHINE)]
DeviceOption = Annotated[
    str, typer.Option("--device", help="auto, cpu, cuda, or cuda:1 and so on.", rich_help_panel=MACHINE)
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", help="Processes that read images.", rich_help_panel=MACHINE)
]
SkipBadFilesOption = Annotated[
    bool, typer.Option("--skip-bad-files", help="Leave out images that cannot be decoded.", rich_help_panel=DATA)
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


def name_options(message: str, command: Callable[..., None]) -> str:
    """Name arguments at the start of a message as the options of a command: 'test_domain' as '--test-domain'."""
    options = {}
    for parameter in inspect.signature(command).parameters.values():
        for option in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(option, OptionInfo):
                # The first name of an annotation is in `default` until typer reads it.
                given = [str(name) for name in (option.default, *(option.param_decls or ()))]
                names = [name.partition("/")[0] for name in given if name.startswith("--")]
                options[parameter.name] = names[0] if names else f"--{parameter.name.replace('_', '-')}"
    subject = re.match(r"'\w+'( and '\w+')* should ", message)
    if subject is None:
        return message
    named = re.sub(r"'(\w+)'", lambda found: f"'{options.get(found[1], found[1])}'", subject[0])
    return named + message[subject.end() :]


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

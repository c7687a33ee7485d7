"""`momentalign table`."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from momentalign.cli._options import ReachOption
from momentalign.cli._output import make_console, print_block, print_lines, terminal_width

_FORMATS = {".txt": "text", ".md": "markdown", ".tex": "latex", ".csv": "csv"}
_NEEDS = {
    "worst-group": "groups (a val and a test split)",
    "worst-class": "groups and a worst class's accuracy on val",
    "train-groups": "groups and a worst group's accuracy on train",
}


def table(
    folders: Annotated[list[Path], typer.Argument(help="Folders of runs: a sweep's --out, or DomainBed's.")],
    rule: Annotated[
        str,
        typer.Option(
            "--select",
            help="training-domain, extrapolated, leave-one-domain-out; with groups worst-group, worst-class, "
            "train-groups; oracle reads labels of the test domain.",
        ),
    ] = "training-domain",
    reach: ReachOption = None,
    with_chosen: Annotated[
        bool,
        typer.Option(
            "--chosen", help="Add which set of hyper-parameters and which step each cell shows; in csv only these."
        ),
    ] = False,
    form: Annotated[
        str | None,
        typer.Option(
            "--format", help="text, markdown, latex or csv.", show_default="by the suffix of --out, else text"
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write a file instead: .txt, .md, .tex or .csv.")
    ] = None,
) -> None:
    """Print the test accuracy of a sweep, per domain and averaged, under one selection rule."""
    from momentalign._outputs import check_output, write_output
    from momentalign._validation import check_choice, check_nonnegative
    from momentalign.runs import read_runs
    from momentalign.selection import REACH, RULES

    check_choice("--select", rule, RULES)
    reach = REACH if reach is None else check_nonnegative("--reach", reach)
    if form is not None:
        check_choice("--format", form, tuple(_FORMATS.values()))
    if out is not None:
        check_output(out, tuple(_FORMATS))
    chosen = form or _FORMATS.get(out.suffix if out is not None else "", "text")
    if with_chosen and chosen == "latex":
        raise ValueError("'--chosen' is written as text, markdown or csv, but --format is latex. Omit it.")
    sweep = read_runs(folders)
    print_lines(make_console(stderr=True), sweep.problems)
    from momentalign.report import accuracy_table, chosen_table  # takes seconds

    result = accuracy_table(sweep, rule, reach=reach)
    if not result.sections:
        needed = _NEEDS.get(rule, "one test domain")
        fitting = [other for other in RULES if other != rule and accuracy_table(sweep, other).sections]
        raise ValueError(
            f"None of the {len(sweep.runs)} runs can be selected by {rule}, which needs runs with {needed}."
            + (f" Use --select {fitting[0]}." if fitting else "")
        )
    console = make_console()
    width = {"width": terminal_width(console)} if out is None and chosen == "text" else {}
    content: str = getattr(result, f"to_{chosen}")(**width)
    if with_chosen:
        choices = chosen_table(sweep, rule, chosen, reach=reach)
        content = choices if chosen == "csv" else f"{content}\n{choices}"
    if out is None:
        print_block(console, content.removesuffix("\n"))
        return
    write_output(out, content)
    following = f"momentalign report {shlex.join(map(str, folders))} -o report.html"
    console.print(f"Saved the table to {out}. Next: {following}")

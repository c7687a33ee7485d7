"""`momentalign soup`."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from momentalign._format import pluralize
from momentalign._table_spec import spec_path
from momentalign.cli._options import AcceleratorOption, ReadingOptions, option_groups
from momentalign.cli._output import (
    exit_on_interrupt,
    format_percent,
    make_console,
    numbers_table,
    print_lines,
    print_warnings,
    progress_bar,
)


@option_groups
def soup(
    folders: Annotated[list[Path], typer.Argument(help="Folders of runs: a sweep's --out.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Parent of the soups' folders.", show_default=False)],
    reading: ReadingOptions,
    mix: Annotated[bool, typer.Option("--mix", help="Average runs of different algorithms too.")] = False,
    device: AcceleratorOption = "auto",
) -> None:
    """Average the weights of a sweep's runs from one initialisation: all of them, and the greedy choice."""
    from momentalign._outputs import check_folder, check_writable
    from momentalign.training import make_soup, plan_soups

    check_folder(out)
    check_writable(out.absolute())
    console = make_console()
    with exit_on_interrupt(console, "Interrupted. Run the same command again."), print_warnings(console):
        plans, problems = plan_soups(folders, mix=mix)
        print_lines(make_console(stderr=True), problems)
        number = sum(len(plan.folders) for plan in plans)
        console.print(f"{pluralize(number, 'run')} in {pluralize(len(plans), 'group')} of one initialisation.")
        with progress_bar(console) as bar:
            for position, plan in enumerate(plans):
                task = bar.add_task(f"evaluations, {position + 1} of {len(plans)}")
                scores = make_soup(
                    plan,
                    out,
                    accelerator=device,
                    **reading,
                    progress=lambda done, total, task=task: bar.update(task, completed=done, total=total),  # type: ignore[misc]
                )
                bar.remove_task(task)
                table = numbers_table(f"{plan.describe()}: accuracy, %", "weights", "runs", "held out", "test")
                for score in scores:
                    accuracies = map(format_percent, (score.held_out, score.test))
                    table.add_row(score.name, str(len(score.runs)), *accuracies)
                console.print(table)
    console.print(
        "Held out: mean over the training domains, which the greedy choice maximises. Test rows chose nothing."
    )
    following = shlex.join(["momentalign", "evaluate", str(scores[-1].folder), spec_path(plan.config.dataset)])
    console.print(f"Saved the soups to {out}. Next: {following}")

"""`momentalign diagnose`."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from momentalign.cli._options import option_groups
from momentalign.cli._output import exit_on_interrupt, make_console, print_lines, print_warnings, share_bar
from momentalign.cli._table_options import TABLE_HELP, TableOptions, check_exists, words_of


@option_groups
def diagnose(
    path: Annotated[Path, typer.Argument(help=TABLE_HELP)],
    table: TableOptions,
    test_domain: Annotated[
        str | None, typer.Option(help="A domain that is the unseen target instead of a source.")
    ] = None,
    loss: Annotated[
        str, typer.Option(help="cross_entropy, squared_error, or auto: the latter for more than 20 distinct numbers.")
    ] = "auto",
    l2: Annotated[float, typer.Option(help="Adds l2/2 times the head's squared norm to every loss.")] = 1e-2,
    radius: Annotated[float, typer.Option(help="Of the ball of heads, on standardised features.")] = 1.0,
    order: Annotated[int, typer.Option(help="Highest order of derivatives, 1 to 3; any for squared error.")] = 3,
    components: Annotated[int, typer.Option(help="Principal components to keep of wider features.")] = 50,
    seed: Annotated[int, typer.Option(help="Seed of everything random.")] = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="The HTML page to write.")] = Path("transfer.html"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and stop.")] = False,
) -> None:
    """Say in plain words how domains differ, what that costs a plain model and what to try; the page has bounds too."""
    check_exists(path)
    from momentalign._outputs import check_output
    from momentalign._validation import check_count
    from momentalign.tables import plan_diagnosis

    check_output(out, (".html", ".htm"), inputs=[path])
    check_count("--seed", seed, 0)
    console = make_console()
    plan = plan_diagnosis(path, test_domain=test_domain, loss=loss, components=components, **table)
    print_lines(console, plan.lines)
    if dry_run:
        console.print("Nothing was written.")
        return
    from momentalign.report import write_diagnosis  # before the work, in case a package is missing

    interrupted = exit_on_interrupt(console, "Interrupted. Nothing was written.")
    with interrupted, print_warnings(console), share_bar(console) as progress:
        diagnosis = plan.run(l2=l2, radius=radius, order=order, seed=seed, progress=progress)
    advice = (f"- {line}" for line in diagnosis.advice())
    print_lines(console, ["", *diagnosis.findings(), "", "What to try:", *advice, ""])
    write_diagnosis(diagnosis, out, title=f"Domains of {path.name}", lines=plan.lines)
    following = shlex.join(["momentalign", "probe", str(path), *words_of(table)])
    console.print(f"Saved pictures, transfer measures and bounds to {out}. Next: {following}")

"""Options of the command line."""

import typer.main

from momentalign import cli


def test_help_has_no_square_brackets() -> None:
    """rich takes text in square brackets as markup and drops it; defaults go into `show_default`."""
    commands = typer.main.get_group(cli.app).commands
    helps = {(name, option.name): getattr(option, "help", "") for name in commands for option in commands[name].params}
    assert len(helps) > 100
    assert [option for option, text in helps.items() if "[" in (text or "")] == []

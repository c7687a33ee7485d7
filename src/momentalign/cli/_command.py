"""What all commands do: refuse options without effect, name options in errors, answer an interrupt with a line."""

import re
import warnings
from typing import Any

import typer
from typer.core import TyperCommand

from momentalign._signals import exit_code, print_interrupted
from momentalign.cli._effects import find_lack


class Command(TyperCommand):
    """A command whose errors name options as they are typed, not the arguments of functions."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command if all options that were given have an effect."""
        try:
            self._check_effects(ctx)
            return super().invoke(ctx)
        except EOFError as error:  # typer would take it for the end of the input and abort
            raise ValueError(f"A file ended too early: {error}") from error
        except (ValueError, TypeError) as error:
            if error.args == (str(error),):
                error.args = (self.name_options(str(error)),)
            raise
        except KeyboardInterrupt as error:  # that the command does not handle itself
            print_interrupted()
            raise typer.Exit(exit_code(error)) from None

    def _check_effects(self, ctx: Any) -> None:
        values = {each.opts[0]: ctx.params[each.name] for each in self.params}
        for each in (each for each in self.params if ctx.get_parameter_source(each.name).name != "DEFAULT"):
            with warnings.catch_warnings(action="ignore"):  # on data, which the command reads too
                lack = find_lack(str(self.name), each.opts[0], values)
            if lack is not None:
                typed = each.secondary_opts if values[each.opts[0]] is False else each.opts
                raise ValueError(f"'{typed[0]}' has no effect {lack}. Omit it.")

    def name_options(self, message: str) -> str:
        """Name arguments at the start of a message as options: 'test_domain' as '--test-domain'."""
        options = {each.name: each.opts[0] for each in self.params if each.opts[0].startswith("-")}
        subject = re.match(r"'\w+'( and '\w+')* should ", message)
        if subject is None:
            return message
        named = re.sub(r"'(\w+)'", lambda found: f"'{options.get(found[1], found[1])}'", subject[0])
        return named + message[subject.end() :]

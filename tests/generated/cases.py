"""Profiles of the generated tests, and how many cases they tried."""

import functools
import os
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, settings

TRIED: dict[str, int] = {}
"""Cases tried so far, by the test's name."""

PROFILE = os.environ.get("MOMENTALIGN_CASES", "default")
"""`default`, a few hundred cases in all, always the same; or `long`, ten thousand, others in each run."""

_common = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
settings.register_profile("default", settings(_common, max_examples=10, derandomize=True))
settings.register_profile("long", settings(_common, max_examples=200, print_blob=True))
settings.load_profile(PROFILE)


_ACCEPTED = "accepted"
_answers: Counter[str] = Counter()
"""Calls of :func:`answer` in the test that runs: accepted, or the message."""


def cases(least: float = 0.25, **strategies: Any) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Like hypothesis' `given`; counts the cases, and of those that may be refused asks for a least share of others.

    Takes strategies by the names of the test's arguments.
    """

    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(test)
        def counted(*args: Any, **arguments: Any) -> None:
            TRIED[test.__name__] = TRIED.get(test.__name__, 0) + 1
            test(*args, **arguments)

        generated = given(**strategies)(counted)

        @functools.wraps(generated)
        def whole(*args: Any, **arguments: Any) -> None:
            _answers.clear()
            generated(*args, **arguments)
            assert _answers[_ACCEPTED] >= least * _answers.total(), _answers.most_common()

        return whole

    return decorate


class LostError(AssertionError):
    """A file was changed or removed by a call that should have left it alone."""


def answer(call: Callable[[], Any]) -> Any:
    """The result of a call; None where it raised a TypeError or ValueError that says something.

    What the package says about one domain, or a fit that was stopped, does not count.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        try:
            found = call()
        except (TypeError, ValueError) as error:
            says_something(error)
            _answers[str(error)] += 1
            return None
    _answers[_ACCEPTED] += 1
    return found


def says_something(error: Exception) -> None:
    """Check that a message is a sentence: of ours what was expected and found, or one of scikit-learn's."""
    message = str(error)
    assert len(message) > 15, repr(error)
    assert message.endswith((".", "?")) or "\n" in message or "sklearn" in (error_module(error) or ""), repr(error)


def error_module(error: Exception) -> str | None:
    """Name of the module that raised an error."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return None if trace is None else str(trace.tb_frame.f_globals.get("__name__"))

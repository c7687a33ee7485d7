"""Programs that tests start."""

import signal


def listen() -> None:
    """For `preexec_fn`: a program can be interrupted even where tests run in the background, which ignores it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)

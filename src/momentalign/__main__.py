"""The command `momentalign`, also as `python -m momentalign`."""

from momentalign._signals import INTERRUPTED, Interrupts, ignore_signals


def start() -> None:
    """Run the command line, interruptible from before its imports on."""
    Interrupts().install()
    from momentalign.cli import main

    try:
        main()
    except SystemExit as end:
        if end.code in INTERRUPTED:
            ignore_signals()
        raise


if __name__ == "__main__":
    start()

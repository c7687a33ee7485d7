"""The command `momentalign`, also as `python -m momentalign`."""

from momentalign._signals import Interrupts


def start() -> None:
    """Run the command line, interruptible from before its imports on."""
    Interrupts().install()
    from momentalign.cli import main

    main()


if __name__ == "__main__":
    start()

"""Algorithms that end badly, for processes to import by path."""

import multiprocessing
import os
import signal
import time
from pathlib import Path

from momentalign.algorithms import ERM


class Raises(ERM):
    def update(self, batch, optimizers, backward):
        raise RuntimeError("no such luck\nand more")


class Dies(ERM):
    def update(self, batch, optimizers, backward):
        os.kill(os.getpid(), signal.SIGKILL)


class DiesOnce(ERM):
    """Dies at its first record unless it has done so before."""

    def update(self, batch, optimizers, backward):
        sign = Path(os.environ["MOMENTALIGN_TEST_SIGN"])
        if not sign.exists():
            sign.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().update(batch, optimizers, backward)


class Slow(ERM):
    """Leaves a sign that it is under way, and takes its time."""

    def update(self, batch, optimizers, backward):
        sign = os.environ.get("MOMENTALIGN_TEST_SIGN")
        if sign:
            with Path(sign).open("a") as file:
                file.write(f"{os.getpid()}\n")
        time.sleep(0.05)
        return super().update(batch, optimizers, backward)


class Tells(ERM):
    """Says how its process would start others."""

    def update(self, batch, optimizers, backward):
        raise ValueError(multiprocessing.get_start_method())

"""Algorithms that end badly, for processes to import by path."""

import errno
import multiprocessing
import os
import signal
import sys
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
    """Dies in its second step unless the sign shows that it has done so before."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.steps = 0

    def update(self, batch, optimizers, backward):
        sign = Path(os.environ["MOMENTALIGN_TEST_SIGN"])
        self.steps += 1
        if self.steps == 2 and not sign.exists():
            sign.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().update(batch, optimizers, backward)


class Exits(ERM):
    def update(self, batch, optimizers, backward):
        sys.exit("enough")


class Full(ERM):
    def update(self, batch, optimizers, backward):
        raise OSError(errno.ENOSPC, "no room")


class Slow(ERM):
    def update(self, batch, optimizers, backward):
        time.sleep(0.05)
        return super().update(batch, optimizers, backward)


class Tells(ERM):
    """Says how its process would start others."""

    def update(self, batch, optimizers, backward):
        raise ValueError(multiprocessing.get_start_method())

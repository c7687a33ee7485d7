"""An engine without processes, and small plans."""

from pathlib import Path

from momentalign.sweep import Engine, make_plan
from momentalign.sweep._jobs import execute

BAD = "tests.sweep.algorithms"
ROWS = str(Path(__file__).with_name("rows.csv"))
"""A table whose runs take milliseconds, so that it is the sweep that takes the time."""


def plan_of(*algorithms, **options):
    chosen = {"trials": 1, "hparams": 1, "steps": 3, "test_domains": ["c"], "baselines": False, **options}
    return make_plan([ROWS], algorithms or ["erm"], **chosen)


class Here(Engine):
    """Jobs done in this process, where tests can take its disk away."""

    slots, description = 1, "1 process"

    def __init__(self):
        self.done = []

    def submit(self, job):
        self.done.append(execute(job))

    def wait(self, seconds):
        done, self.done = self.done, []
        return done

    def close(self):
        pass

"""An engine without processes."""

from momentalign.sweep import Engine
from momentalign.sweep._jobs import execute


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

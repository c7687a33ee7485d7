"""Runs on this machine: processes that are started once and do run after run."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from momentalign._machine import available_cores
from momentalign._validation import check_choice, check_count
from momentalign.runs import RunState, record_failure
from momentalign.sweep._jobs import Advance, Engine, Job, Outcome, execute

_REPORT_SECONDS = 0.5


class LocalEngine(Engine):
    """Processes of this machine.

    Args:
        jobs: Number of processes; None takes one a core, or `per_gpu` for each GPU.
        accelerator: "auto" takes GPUs where there are any, "cpu" never, "cuda" insists.
        per_gpu: Processes that share a GPU.

    Raises:
        ValueError: If GPUs are asked for and there are none.
    """

    def __init__(self, jobs: int | None = None, *, accelerator: str = "auto", per_gpu: int = 1) -> None:
        check_choice("device", accelerator, ("auto", "cpu", "cuda"))
        check_count("per-gpu", per_gpu, 1)
        self.gpus = [] if accelerator == "cpu" else visible_gpus()
        if accelerator == "cuda" and not self.gpus:
            raise ValueError("'--device' asks for cuda, but torch sees no GPU here. Use --device cpu.")
        self.accelerator = "cuda" if self.gpus else "cpu"
        cores = available_cores()
        self.jobs = check_count("jobs", jobs, 1) if jobs is not None else max(1, len(self.gpus) * per_gpu or cores)
        self.threads = max(1, cores // self.jobs)
        self._workers: list[_Worker] = []

    @property
    def slots(self) -> int:
        """The number of processes."""
        return self.jobs

    @property
    def description(self) -> str:
        """Processes, threads and GPUs."""
        processes = f"{self.jobs} process" + ("es" if self.jobs > 1 else "")
        if self.gpus:
            return f"{processes} on {len(self.gpus)} GPU" + ("s" if len(self.gpus) > 1 else "")
        return f"{processes} of {self.threads} thread" + ("s" if self.threads > 1 else "")

    def submit(self, job: Job) -> None:
        """Begin a job in a process that waits for one, or in a new process."""
        for worker in [worker for worker in self._workers if worker.job is None]:
            if worker.process.is_alive() and worker.begin(job):
                return
            # It ended while it had nothing to do, which is no fault of this job.
            self._workers.remove(worker)
            worker.end()
        # The GPU with the fewest: a process that ended leaves its place.
        given = [worker.gpu for worker in self._workers]
        worker = _Worker(min(self.gpus, key=given.count) if self.gpus else None, self.threads)
        self._workers.append(worker)
        worker.begin(job)  # one that ends before it hears of the job is found out when we listen

    def wait(self, seconds: float) -> list[Outcome | Advance]:
        """What the processes say; one that died has failed its job."""
        at_work = {worker.connection: worker for worker in self._workers if worker.job is not None}
        found: list[Outcome | Advance] = []
        if not at_work:
            time.sleep(seconds)
        for connection in wait(list(at_work), timeout=seconds):
            worker = at_work[connection]  # type: ignore[index]
            message = worker.hear()
            if message is not None:
                found.append(message)
            if not worker.alive:
                self._workers.remove(worker)
        return found

    def close(self) -> None:
        """End the processes at once."""
        for worker in self._workers:
            worker.end()
        self._workers.clear()


class _Worker:
    """One process, seen from the sweep."""

    def __init__(self, gpu: str | None, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.gpu = gpu
        self.connection, theirs = context.Pipe()
        # Not a daemon: it may need processes of its own to read images.
        self.process: BaseProcess = context.Process(
            target=_serve, args=(theirs, threads, multiprocessing.get_start_method())
        )
        self.job: Job | None = None
        self.alive, self.ready, self.ended = True, False, False
        environment = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        if gpu is not None:
            environment["CUDA_VISIBLE_DEVICES"] = gpu
        with _environment(environment), _no_interrupts():
            self.process.start()
        theirs.close()

    def begin(self, job: Job) -> bool:
        """Hand over a job; False if the process is gone."""
        self.job = job
        try:
            self.connection.send(job)
        except OSError:
            return False
        return True

    def hear(self) -> Outcome | Advance | None:
        assert self.job is not None
        try:
            message = self.connection.recv()
        except (EOFError, OSError):
            return self._died()
        if message is None:
            self.ready = True
            return None
        if isinstance(message, Outcome):
            self.job = None
            return message
        return Advance(self.job, message)

    def _died(self) -> Outcome:
        job, self.job, self.alive = self.job, None, False
        assert job is not None
        self.process.join(5)
        code = self.process.exitcode or 0
        how = f"by signal {-code}" if code < 0 else f"with code {code}"
        error = f"Its process ended {how}" + (", perhaps for want of memory." if code == -signal.SIGKILL else ".")
        self.end()
        if not self.ready:
            # Not the run's fault, and the next process would end likewise.
            raise OSError(f"{error.replace('Its', 'A')[:-1]} before its first run. What it said stands above.")
        if not job.measure:
            record_failure(job.folder, job.config, job.domains, error)
        return Outcome(job, RunState.FAILED, error)

    def end(self) -> None:
        if self.ended:
            return
        self.ended = True
        self.connection.close()
        self.process.terminate()
        self.process.join(5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()


def _serve(connection: Connection, threads: int, start_method: str) -> None:
    """What a process does until the sweep hangs up."""
    # A process that was spawned would spawn those that read its images, and importing torch in each takes seconds.
    multiprocessing.set_start_method(start_method, force=True)
    # Ctrl-C reaches the whole group; the sweep decides what becomes of the runs.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    warnings.simplefilter("ignore")  # they would be said once a process, across the progress bar
    import torch

    torch.set_num_threads(threads)
    last = 0.0
    connection.send(None)

    def report(share: float) -> None:
        nonlocal last
        if time.monotonic() - last < _REPORT_SECONDS:
            return
        last = time.monotonic()
        try:
            connection.send(share)
        except OSError:
            # The sweep is gone. Not an error of the run, which must not be recorded as failed.
            raise SystemExit(1) from None

    while True:
        try:
            job = connection.recv()
        except (EOFError, OSError):
            return
        outcome = execute(job, report)
        with contextlib.suppress(OSError):
            connection.send(outcome)


def visible_gpus() -> list[str]:
    """Names of the GPUs that processes may be given, without starting CUDA here."""
    import torch

    number = torch.cuda.device_count() if torch.cuda.is_available() else 0
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = named.split(",") if named else [str(index) for index in range(number)]
    return names[:number]


@contextlib.contextmanager
def _no_interrupts() -> Iterator[None]:
    """Let processes that start now ignore Ctrl-C from their first moment; only the main thread can."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

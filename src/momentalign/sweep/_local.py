"""Engine of local worker processes, which are started once and execute run after run."""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from momentalign._format import pluralize
from momentalign._machine import available_cores
from momentalign._signals import block_interrupts, deferred_signals
from momentalign._validation import check_choice, check_count
from momentalign.runs import RunState, record_failure
from momentalign.sweep._jobs import Advance, Engine, Job, Outcome, execute

_REPORT_SECONDS = 0.5
_RETRIES = 3
_STOP_SECONDS = 5.0
_ENVIRONMENT = threading.Lock()
"""Held while the environment is changed, so that sweeps in two threads do not restore each other's."""


class LocalEngine(Engine):
    """Worker processes on this machine.

    A run whose process dies, out of memory for instance, is resumed from its last checkpoint by another one, up to
    three times.

    Args:
        jobs: Number of processes; None takes one per core, or `per_gpu` per GPU.
        accelerator: "cpu", "cuda", or "auto" for GPUs if there are any.
        per_gpu: Processes that share a GPU.

    Raises:
        ValueError: CUDA is requested, but there is no GPU.
    """

    def __init__(self, jobs: int | None = None, *, accelerator: str = "auto", per_gpu: int = 1) -> None:
        check_choice("device", accelerator, ("auto", "cpu", "cuda"))
        check_count("per_gpu", per_gpu, 1)
        self.gpus = [] if accelerator == "cpu" else visible_gpus()
        if accelerator == "cuda" and not self.gpus:
            raise ValueError("'--device' is cuda, but torch finds no GPU. Use --device cpu.")
        self.accelerator = "cuda" if self.gpus else "cpu"
        cores = available_cores()
        self.jobs = check_count("jobs", jobs, 1) if jobs is not None else max(1, len(self.gpus) * per_gpu or cores)
        self.threads = max(1, cores // self.jobs)
        self._workers: list[_Worker] = []
        self._deaths: Counter[Path] = Counter()

    @property
    def slots(self) -> int:
        return self.jobs

    @property
    def per_gpu(self) -> int:
        return -(-self.jobs // len(self.gpus)) if self.gpus else 1

    @property
    def description(self) -> str:
        """Processes, threads and GPUs."""
        processes = pluralize(self.jobs, "process")
        if self.gpus:
            return f"{processes} on {pluralize(len(self.gpus), 'GPU')}"
        return f"{processes} of {pluralize(self.threads, 'thread')}"

    def submit(self, job: Job) -> None:
        """Start a job in an idle process, or in a new one."""
        for worker in [worker for worker in self._workers if worker.job is None]:
            if worker.process.is_alive() and worker.send(job):
                return
            # It died while idle, which is not a failure of this job.
            self._workers.remove(worker)
            worker.terminate()
        # The GPU with the fewest processes.
        used = [worker.gpu for worker in self._workers]
        with deferred_signals():  # a process that is not in the list would be left behind
            worker = _Worker(min(self.gpus, key=used.count) if self.gpus else None, self.threads)
            self._workers.append(worker)
        worker.send(job)  # a worker that dies here is detected in wait()

    def wait(self, seconds: float) -> list[Outcome | Advance]:
        """Messages of the processes; the job of one that died is submitted again, or has failed."""
        busy = {worker.connection: worker for worker in self._workers if worker.job is not None}
        events: list[Outcome | Advance] = []
        if not busy:
            time.sleep(seconds)
        for connection in wait(list(busy), timeout=seconds):
            worker = busy[connection]  # type: ignore[index]
            message = worker.receive()
            if not worker.alive:
                self._workers.remove(worker)
                message = self._retry(message) if isinstance(message, Outcome) else message
            if message is not None:
                events.append(message)
        return events

    def _retry(self, death: Outcome) -> Outcome | None:
        """Submit the job of a process that died again; after too many deaths, record its failure."""
        job = death.job
        if job.measure:
            return death
        self._deaths[job.folder] += 1
        if self._deaths[job.folder] <= _RETRIES:
            self.submit(job)
            return None
        error = f"Lost {self._deaths.pop(job.folder)} times: {death.error}"
        record_failure(job.folder, job.config, job.domains, error)
        return Outcome(job, RunState.FAILED, error)

    def close(self) -> None:
        """Terminate the processes; signals that arrive meanwhile are handled afterwards."""
        with deferred_signals():
            for worker in self._workers:
                worker.stop()
            for worker in self._workers:
                worker.terminate()
            self._workers.clear()


class _Worker:
    """One process, as seen by the engine."""

    def __init__(self, gpu: str | None, threads: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.gpu = gpu
        self.connection, remote = context.Pipe()
        # Not a daemon: it may start processes that read images.
        self.process: BaseProcess = context.Process(
            target=_serve, args=(remote, threads, multiprocessing.get_start_method())
        )
        self.job: Job | None = None
        self.alive, self.ready, self.ended = True, False, False
        environment = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
        if gpu is not None:
            environment["CUDA_VISIBLE_DEVICES"] = gpu
        with _environment(environment):
            self.process.start()
        remote.close()

    def send(self, job: Job) -> bool:
        """Send a job; False if the process is gone."""
        self.job = job
        try:
            self.connection.send(job)
        except OSError:
            return False
        return True

    def receive(self) -> Outcome | Advance | None:
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
        self.process.join(_STOP_SECONDS)
        code = self.process.exitcode or 0
        how = f"by signal {-code}" if code < 0 else f"with code {code}"
        error = f"Its process ended {how}" + (", perhaps out of memory." if code == -signal.SIGKILL else ".")
        self.terminate()
        if not self.ready:
            # Not a failure of the run, and the next process would end the same way.
            raise OSError(f"{error.replace('Its', 'A')[:-1]} before its first run. See its output above.")
        return Outcome(job, RunState.FAILED, error)

    def stop(self) -> None:
        """Ask the process to end."""
        if not self.ended:
            self.process.terminate()

    def terminate(self) -> None:
        """End the process, with force if it does not end by itself."""
        if self.ended:
            return
        self.ended = True
        self.process.terminate()
        self.connection.close()
        self.process.join(_STOP_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()


def _serve(connection: Connection, threads: int, start_method: str) -> None:
    """Main loop of a process: execute jobs until the connection closes."""
    # Readers of images should not be spawned: importing torch in each takes seconds.
    multiprocessing.set_start_method(start_method, force=True)
    # Ctrl-C reaches the whole process group; the parent decides how to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    block_interrupts(False)
    # From here on there may be processes that read images, which the default action would leave behind.
    signal.signal(signal.SIGTERM, lambda number, frame: _exit_with_children(128 + number))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    warnings.simplefilter("ignore")  # printed once per process, they would break the progress bar
    import torch

    torch.set_num_threads(threads)
    last = 0.0
    connection.send(None)

    def report_progress(share: float) -> None:
        nonlocal last
        if time.monotonic() - last < _REPORT_SECONDS:
            return
        last = time.monotonic()
        try:
            connection.send(share)
        except OSError:
            # The parent is gone; the run must not be recorded as failed.
            raise SystemExit(1) from None

    while True:
        try:
            job = connection.recv()
        except (EOFError, OSError):
            return
        outcome = execute(job, report_progress)
        with contextlib.suppress(OSError):
            connection.send(outcome)


def _end_with_parent() -> None:
    """Exit when the parent is gone, killed for instance: unfinished runs are resumed by the next sweep."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    _exit_with_children(1)


def _exit_with_children(code: int) -> None:
    """End this process and those that read images for it, at once: all files are written atomically."""
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(code)


def visible_gpus() -> list[str]:
    """Names of the visible GPUs, without initializing CUDA."""
    import torch

    number = torch.cuda.device_count() if torch.cuda.is_available() else 0
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = named.split(",") if named else [str(index) for index in range(number)]
    return names[:number]


@contextlib.contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    with _ENVIRONMENT:
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

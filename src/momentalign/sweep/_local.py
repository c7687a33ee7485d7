"""Engine of local worker processes, which are started once and execute run after run."""

import contextlib
import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor
from concurrent.futures import wait as wait_for
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import Connection

from momentalign._format import pluralize
from momentalign._machine import available_cores
from momentalign._signals import blocked_interrupts
from momentalign._validation import check_choice, check_count
from momentalign.sweep._jobs import RETRIES, Advance, Engine, Job, Outcome, execute


class LocalEngine(Engine):
    """Worker processes on this machine.

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
        gpus: list[str | None] = [*self.gpus] or [None]
        self._workers = [_Worker(gpus[index % len(gpus)], self.threads) for index in range(self.jobs)]

    @property
    def slots(self) -> int:
        return self.jobs

    @property
    def description(self) -> str:
        """Processes, threads and GPUs."""
        processes = pluralize(self.jobs, "process")
        if self.gpus:
            return f"{processes} on {pluralize(len(self.gpus), 'GPU')}"
        return f"{processes} of {pluralize(self.threads, 'thread')}"

    def submit(self, job: Job) -> None:
        worker = next(worker for worker in self._workers if worker.task is None)
        worker.lost = 0
        worker.start(job)

    def wait(self, seconds: float) -> list[Outcome | Advance]:
        """Progress and outcomes; the run of a process that died is resumed, or has failed."""
        busy = [worker for worker in self._workers if worker.task is not None]
        wait_for([worker.task[1] for worker in busy if worker.task], seconds, FIRST_COMPLETED)
        return [event for worker in busy for event in worker.events()]

    def close(self) -> None:
        for worker in self._workers:  # all at once
            worker.stop()
        for worker in self._workers:
            worker.join()


class _Worker:
    """A pool of one process: where it breaks, it is known which run died, and a new one takes its place."""

    def __init__(self, gpu: str | None, threads: int) -> None:
        self._about = gpu, threads, multiprocessing.get_start_method()
        self._pool: ProcessPoolExecutor | None = None
        self._connection: Connection | None = None
        self._ready = False
        self.task: tuple[Job, Future[Outcome]] | None = None
        self.lost = 0

    def start(self, job: Job) -> None:
        """Start a job, in a new process where there is none."""
        if self._pool is None:
            context = multiprocessing.get_context("spawn")
            self._connection, remote = context.Pipe()
            self._pool, self._ready = ProcessPoolExecutor(1, context, _begin, (remote, *self._about)), False
        try:
            with blocked_interrupts():  # which the process inherits: the engine decides how to stop
                self.task = job, self._pool.submit(_execute, job)
        except BrokenProcessPool:  # it died while idle, which is not a failure of this job
            self._pool = None
            self.start(job)

    def events(self) -> Iterator[Outcome | Advance]:
        """Progress and outcome of the job, if any."""
        assert self.task is not None
        assert self._connection is not None
        job, future = self.task
        done = future.done()  # before its last message is looked for
        with contextlib.suppress(EOFError, OSError):
            while self._connection.poll():
                yield Advance(job, self._connection.recv())
                self._ready = True
        if not done:
            return
        self.task = None
        try:
            yield future.result()
        except BrokenProcessPool:
            self._pool = None
            if not self._ready:  # not a failure of the run, and the next process would end the same way
                raise OSError("A worker process ended before its first run. See its output above.") from None
            self.lost += 1
            if self.lost <= RETRIES:
                self.start(job)
            else:
                yield job.lost(f"Lost {self.lost} times: its process ended, perhaps out of memory.")

    def stop(self) -> None:
        """Let the process end at once."""
        if self._connection is not None:
            self._connection.close()

    def join(self) -> None:
        """Wait until the process has ended."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._pool = self.task = None


_engine: Connection
"""In a worker process: to its engine."""


def _begin(engine: Connection, gpu: str | None, threads: int, start_method: str) -> None:
    """Prepare a worker process."""
    global _engine
    _engine = engine
    import torch
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # ships no types

    os.environ["OMP_NUM_THREADS"] = str(threads)  # of libraries that are still to be loaded
    if gpu is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpu
    # Readers of images should not be spawned: importing torch in each takes seconds.
    multiprocessing.set_start_method(start_method, force=True)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # on Windows it cannot be blocked
    warnings.simplefilter("ignore")  # printed once per process, they would break the progress bar
    threading.Thread(target=_end_with_engine, daemon=True).start()
    threadpool_limits(threads)
    torch.set_num_threads(threads)
    _engine.send(0.0)


def _execute(job: Job) -> Outcome:
    return execute(job, _report)


def _report(share: float) -> None:
    try:
        _engine.send(share)
    except OSError:
        _exit()  # as the other thread is about to; the run must not be recorded as failed


def _end_with_engine() -> None:
    """Exit when the engine is closed or its process is gone, killed for instance."""
    with contextlib.suppress(EOFError, OSError):
        _engine.recv()
    _exit()


def _exit() -> None:
    """End this process and those that read images for it, at once: all files are written atomically."""
    for child in multiprocessing.active_children():
        child.kill()
    os._exit(1)


def visible_gpus() -> list[str]:
    """Names of the visible GPUs, without initializing CUDA."""
    import torch

    number = torch.cuda.device_count() if torch.cuda.is_available() else 0
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = named.split(",") if named else [str(index) for index in range(number)]
    return names[:number]

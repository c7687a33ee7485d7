"""Engine of a Ray cluster: an existing one, or a new one on this machine."""

import dataclasses
import logging
import os
import signal
import socket
import tempfile
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from momentalign._errors import describe_error, first_line
from momentalign._extras import require
from momentalign._files import is_disk_full
from momentalign._format import pluralize
from momentalign._validation import check_choice, check_count
from momentalign.runs import RunState, record_failure
from momentalign.sweep._jobs import Advance, Engine, Job, Outcome, execute, pack_folder

_RETRIES = 3
_CONNECT_SECONDS = 5
# HTTP/2's greeting and empty settings, which every gRPC server answers with its own settings.
_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_SETTINGS = 4  # type of frame, the fourth byte


class RayEngine(Engine):
    """Tasks on a Ray cluster.

    A run whose machine is lost is retried on another one, up to three times; if the machines share the sweep's folder,
    it resumes from its last checkpoint. A machine without access to that folder returns the finished run's folder,
    which is written here.

    Args:
        out: The sweep's folder.
        address: "host:port" or "ray://host:port" of a cluster, "auto" for the local one; None starts a new one.
        jobs: Most runs at once; None uses the whole cluster.
        cpus: Cores per run.
        accelerator: "cpu", "cuda", or "auto" for GPUs if the cluster has any now.
        per_gpu: Runs that share a GPU.

    Raises:
        ModuleNotFoundError: Ray is not installed.
        ValueError: The cluster cannot be reached, or lacks the resources of a run.
    """

    def __init__(
        self,
        out: str | Path,
        address: str | None = None,
        *,
        jobs: int | None = None,
        cpus: int = 1,
        accelerator: str = "auto",
        per_gpu: int = 1,
    ) -> None:
        ray = require("ray", "The engine 'ray' needs", extra="ray")
        check_choice("device", accelerator, ("auto", "cpu", "cuda"))
        self.ray = ray
        self.cpus, self._per_gpu = check_count("cpus", cpus, 1), check_count("per_gpu", per_gpu, 1)
        self.jobs = None if jobs is None else check_count("jobs", jobs, 1)
        self._ours = not ray.is_initialized()
        if self._ours:
            _connect(ray, address, jobs, cpus)
        if accelerator == "auto":
            accelerator = "cuda" if ray.cluster_resources().get("GPU", 0) else "cpu"
        self.accelerator = accelerator
        gpus = 1 / per_gpu if accelerator == "cuda" else 0.0
        # Visible to the machines that share the sweep's folder.
        self._marker = Path(out).absolute() / f".sweep-{uuid.uuid4().hex}"
        self._marker.parent.mkdir(parents=True, exist_ok=True)
        self._marker.touch()
        self._tasks: dict[Any, Job] = {}
        if self._capacity() < 1:
            self.close()
            needs = f"{cpus} cores" + (f" and {gpus:g} GPUs" if gpus else "")
            advice = " Use --device cpu to run without GPUs." if gpus else ""
            raise ValueError(f"A run needs {needs} on one machine of the Ray cluster, which has {self._has}.{advice}")
        # Keep processes for the next run, also those with a GPU: starting one takes longer than a small run.
        self._execute = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=_RETRIES, max_calls=0)(_task)

    @property
    def slots(self) -> int:
        """Runs that fit on the cluster at once, at its current size."""
        return max(1, self._capacity())

    @property
    def per_gpu(self) -> int:
        return self._per_gpu if self.accelerator == "cuda" else 1

    @property
    def description(self) -> str:
        """Size of the cluster, and whether runs use its GPUs."""
        nodes = sum(node["Alive"] for node in self.ray.nodes())
        where = " on GPUs" if self.accelerator == "cuda" else ""
        return f"a Ray cluster of {pluralize(nodes, 'node')}, {self.slots} at once{where}"

    def submit(self, job: Job) -> None:
        self._tasks[self._execute.remote(job, self._marker, self.cpus)] = job

    def wait(self, seconds: float) -> list[Outcome | Advance]:
        """Outcomes of finished jobs; Ray tasks report no progress."""
        if not self._tasks:
            time.sleep(seconds)
            return []
        done, _ = self.ray.wait(list(self._tasks), num_returns=1, timeout=seconds)
        return [self._outcome(reference) for reference in done]

    def close(self) -> None:
        """Cancel running jobs and disconnect; a cluster that was started here is shut down."""
        for reference in self._tasks:
            self.ray.cancel(reference, force=True)
        self._tasks.clear()
        self._marker.unlink(missing_ok=True)
        if self._ours:
            self.ray.shutdown()

    def _outcome(self, reference: Any) -> Outcome:
        job = self._tasks.pop(reference)
        try:
            outcome: Outcome = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            full, message = _describe_loss(self.ray.exceptions, error)
            if full:
                return Outcome(job, RunState.DISK_FULL, message)
            if not job.measure:
                record_failure(job.folder, job.config, job.domains, message)
            return Outcome(job, RunState.FAILED, message)
        return outcome

    def _capacity(self) -> int:
        """Runs that fit, machine by machine: a run does not span machines."""
        alive = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        cores, gpus = (sum(node.get(what, 0) for node in alive) for what in ("CPU", "GPU"))
        self._has = f"{cores:g} cores and {gpus:g} GPUs"
        fit = 0
        for node in alive:
            by_gpu = node.get("GPU", 0) * self.per_gpu if self.accelerator == "cuda" else float("inf")
            fit += int(min(node.get("CPU", 0) // self.cpus, by_gpu))
        return fit if self.jobs is None else min(fit, self.jobs)


def _task(job: Job, marker: Path, cpus: int) -> Outcome:
    """Execute a job in the sweep's folder if it is visible, else in a temporary folder that is returned."""
    import torch

    torch.set_num_threads(cpus)
    if job.measure or marker.exists():
        return execute(job)
    with tempfile.TemporaryDirectory(prefix="momentalign-") as temporary:
        here = dataclasses.replace(job, folder=Path(temporary) / job.name)
        outcome = execute(here)
        archive = (
            pack_folder(here.folder) if here.folder.exists() and outcome.status is not RunState.DISK_FULL else None
        )
        return dataclasses.replace(outcome, job=job, archive=archive)


def _describe_loss(kinds: Any, error: Exception) -> tuple[bool, str]:
    """Whether the disk was full, and one line on the error of a task; Ray retries only lost ones."""
    if isinstance(error, kinds.RayTaskError):
        return is_disk_full(error.cause), f"On the Ray cluster: {describe_error(error.cause)}"
    message = first_line(error)
    if isinstance(error, kinds.WorkerCrashedError | kinds.NodeDiedError | kinds.LocalRayletDiedError):
        return False, f"Lost {_RETRIES + 1} times: {message}"
    if isinstance(error, kinds.OutOfMemoryError):
        return False, f"Ended by Ray, out of memory: {message}"
    return isinstance(error, kinds.OutOfDiskError), f"Failed in Ray ({type(error).__name__}): {message}"


def _connect(ray: Any, address: str | None, jobs: int | None, cpus: int) -> None:
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
    # By default Ray hides GPUs from tasks that request none.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    if address is None:
        cores = None if jobs is None else jobs * cpus
        _init(ray, num_cpus=cores, include_dashboard=False, **quiet)
        return
    _check_reachable(address)
    try:
        _init(ray, address=address, **quiet)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise ValueError(f"The Ray cluster at {address} cannot be reached: {first_line(error)}") from None


def _init(ray: Any, **options: Any) -> None:
    """Connect to a cluster or start one, and keep this process's handler of SIGTERM, which Ray replaces."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(**options)
    finally:
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _check_reachable(address: str) -> None:
    """Raise ValueError if nothing listens at the address or it is no Ray, which Ray notices after minutes or never."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if address == "auto" or address == "local":
        return
    if not host or not port.isdigit():
        raise ValueError(f"'--address' should be host:port, ray://host:port or auto, but is '{address}'.")
    try:
        with socket.create_connection((host, int(port)), timeout=_CONNECT_SECONDS) as connection:
            if os.environ.get("RAY_USE_TLS", "0") in ("", "0"):  # an encrypted cluster gives no answer in the clear
                _check_answer(connection)
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise ValueError(
            f"The Ray cluster at {address} cannot be reached: {reason}. Is 'ray start' running there?"
        ) from None


def _check_answer(connection: socket.socket) -> None:
    """Raise ConnectionError or TimeoutError unless a gRPC server answers."""
    connection.sendall(_GREETING)
    answer = b""
    while len(answer) < 4 and (more := connection.recv(64)):
        answer += more
    if answer[3:4] != bytes([_SETTINGS]):
        raise ConnectionError("something else than Ray answers there")

"""Engine of a Ray cluster: an existing one, or a new one on this machine."""

import logging
import os
import signal
import socket
import threading
import uuid
from pathlib import Path
from typing import Any

from momentalign._errors import describe_error, first_line
from momentalign._extras import require
from momentalign._files import is_disk_full
from momentalign._format import pluralize
from momentalign._validation import check_choice, check_count
from momentalign.runs import RunState
from momentalign.sweep._jobs import RETRIES, Advance, Engine, Job, Outcome, execute

_CONNECT_SECONDS = 5


class RayEngine(Engine):
    """Tasks on a Ray cluster, whose machines share the sweep's folder.

    Args:
        out: The sweep's folder.
        address: "host:port" or "ray://host:port" of a cluster, "auto" for the local one; None starts a new one.
        jobs: Most runs at once; None uses the whole cluster.
        cpus: Cores per run.
        accelerator: "cpu", "cuda", or "auto" for GPUs if the cluster has any now.
        per_gpu: Runs that share a GPU.

    Raises:
        ModuleNotFoundError: Ray is not installed.
        ValueError: The cluster cannot be reached, lacks the resources of a run, or a machine does not see `out`.
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
        self.cpus, self.per_gpu = check_count("cpus", cpus, 1), check_count("per_gpu", per_gpu, 1)
        self.jobs = None if jobs is None else check_count("jobs", jobs, 1)
        self._ours = not ray.is_initialized()
        if self._ours:
            _connect(ray, address, jobs, cpus)
        if accelerator == "auto":
            accelerator = "cuda" if ray.cluster_resources().get("GPU", 0) else "cpu"
        self.accelerator = accelerator
        gpus = 1 / per_gpu if accelerator == "cuda" else 0.0
        self._tasks: dict[Any, Job] = {}
        self._marker = Path(out).absolute() / f".sweep-{uuid.uuid4().hex}"
        try:
            self._check_resources(gpus)
            self._marker.parent.mkdir(parents=True, exist_ok=True)
            self._marker.touch()
            self._check_folder()
        except BaseException:
            self.close()
            raise
        # Keep processes for the next run, also those with a GPU: starting one takes longer than a small run.
        self._execute = ray.remote(num_cpus=cpus, num_gpus=gpus, max_retries=RETRIES, max_calls=0)(_task)

    @property
    def slots(self) -> int:
        """Runs that fit on the cluster at once, at its current size: a run does not span machines."""
        fit = 0
        for node in self._nodes():
            by_gpu = node.get("GPU", 0) * self.per_gpu if self.accelerator == "cuda" else float("inf")
            fit += int(min(node.get("CPU", 0) // self.cpus, by_gpu))
        return max(1, fit if self.jobs is None else min(fit, self.jobs))

    @property
    def description(self) -> str:
        """Size of the cluster, and whether runs use its GPUs."""
        where = " on GPUs" if self.accelerator == "cuda" else ""
        return f"a Ray cluster of {pluralize(len(self._nodes()), 'node')}, {self.slots} at once{where}"

    def submit(self, job: Job) -> None:
        self._tasks[self._execute.remote(job, self._marker, self.cpus)] = job

    def wait(self, seconds: float) -> list[Outcome | Advance]:
        """Outcomes of finished jobs; Ray tasks report no progress."""
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
            outcome: Outcome | None = self.ray.get(reference)
        except self.ray.exceptions.RayError as error:
            full, message = _describe_loss(self.ray.exceptions, error)
            return Outcome(job, RunState.DISK_FULL, message) if full else job.lost(message)
        if outcome is None:  # of a machine that joined later
            raise _unseen(self._marker.parent)
        return outcome

    def _nodes(self) -> list[dict[str, float]]:
        return [node["Resources"] for node in self.ray.nodes() if node["Alive"]]

    def _check_resources(self, gpus: float) -> None:
        nodes = self._nodes()
        if not any(node.get("CPU", 0) >= self.cpus and node.get("GPU", 0) >= gpus for node in nodes):
            has = [sum(node.get(what, 0) for node in nodes) for what in ("CPU", "GPU")]
            needs = f"{self.cpus} cores" + (f" and {gpus:g} GPUs" if gpus else "")
            advice = " Use --device cpu to run without GPUs." if gpus else ""
            raise ValueError(
                f"A run needs {needs} on one machine of the Ray cluster, which has {has[0]:g} cores and {has[1]:g} "
                f"GPUs.{advice}"
            )

    def _check_folder(self) -> None:
        """Raise ValueError if a machine of the cluster does not see the sweep's folder."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        sees = self.ray.remote(num_cpus=0)(Path.exists)
        there = [
            sees.options(scheduling_strategy=NodeAffinitySchedulingStrategy(node["NodeID"], soft=True)).remote(
                self._marker
            )
            for node in self.ray.nodes()
            if node["Alive"]
        ]
        if not all(self.ray.get(there)):
            raise _unseen(self._marker.parent)


def _task(job: Job, marker: Path, cpus: int) -> Outcome | None:
    """Execute a job; None where the sweep's folder is not visible."""
    import torch

    torch.set_num_threads(cpus)
    return execute(job) if marker.exists() else None


def _unseen(folder: Path) -> ValueError:
    return ValueError(
        f"Machines of the Ray cluster do not see {folder}. Use an --out in a folder that all of them share."
    )


def _describe_loss(kinds: Any, error: Exception) -> tuple[bool, str]:
    """Whether the disk was full, and one line on the error of a task; Ray retries only lost ones."""
    if isinstance(error, kinds.RayTaskError):
        return is_disk_full(error.cause), f"On the Ray cluster: {describe_error(error.cause)}"
    message = first_line(error)
    if isinstance(error, kinds.WorkerCrashedError | kinds.NodeDiedError | kinds.LocalRayletDiedError):
        return False, f"Lost {RETRIES + 1} times: {message}"
    return isinstance(error, kinds.OutOfDiskError), f"Failed in Ray ({type(error).__name__}): {message}"


def _connect(ray: Any, address: str | None, jobs: int | None, cpus: int) -> None:
    # By default Ray hides GPUs from tasks that request none.
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": False}
    if address is None:
        options |= {"num_cpus": None if jobs is None else jobs * cpus, "include_dashboard": False}
    before = signal.getsignal(signal.SIGTERM)
    try:
        if address not in (None, "auto"):
            _check_listening(address)
        ray.init(address or "local", **options)  # without "local" it joins a cluster that runs here
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        if address is None:
            raise
        raise ValueError(
            f"The Ray cluster at {address} cannot be reached: {first_line(error)}. Is 'ray start' running there?"
        ) from None
    finally:  # Ray replaces the handler
        if before is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, before)


def _check_listening(address: str) -> None:
    """Raise an error if nothing listens at an address, which Ray notices after a quarter of an hour."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise ValueError("it should be host:port, ray://host:port or auto")
    socket.create_connection((host, int(port)), _CONNECT_SECONDS).close()

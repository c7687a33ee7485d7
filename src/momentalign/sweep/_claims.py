"""Who does which run: several sweeps may share a folder."""

import contextlib
import json
from pathlib import Path

from filelock import FileLock, Timeout

from momentalign.training import RunConfig
from momentalign.training._run_json import FORMAT, same_data

_ATTEMPTS = 100


class Claims:
    """Locks on the runs of a folder. The system lets go of them when the sweep ends, however it ends.

    Args:
        out: The folder of the runs.
    """

    def __init__(self, out: Path) -> None:
        self.folder = out / ".locks"
        self.folder.mkdir(parents=True, exist_ok=True)
        self._held: dict[str, FileLock] = {}

    def take(self, name: str) -> bool:
        """Claim a run; False if another sweep has it."""
        lock = FileLock(self.folder / name)
        for attempt in range(_ATTEMPTS):
            try:
                lock.acquire(timeout=0)
                break
            except Timeout:
                return False
            except FileNotFoundError:
                # Another sweep that is through removes the folder while it is empty.
                if attempt == _ATTEMPTS - 1:
                    raise
                self.folder.mkdir(parents=True, exist_ok=True)
        self._held[name] = lock
        return True

    def give(self, name: str, *, finished: bool) -> None:
        """Let go of a run. Nobody needs the lock of a finished one: whoever gets hold of it finds the run done."""
        if finished:
            (self.folder / name).unlink(missing_ok=True)
        self._held.pop(name).release()

    def give_all(self) -> None:
        """Let go of everything."""
        for name in list(self._held):
            self.give(name, finished=False)
        with contextlib.suppress(OSError):  # not empty: failed runs, or another sweep
            self.folder.rmdir()


def state_of(folder: Path, config: RunConfig, stamp: str | None = None) -> tuple[str, str | None]:
    """What a run's folder says of it.

    Args:
        folder: The run's folder, which may not exist.
        config: The run.
        stamp: Of the data that lie at the run's path, where they do.

    Returns:
        "new", "running", "finished", "failed" with its error, "full" with the error of a run that a full disk ended,
        "broken" where it cannot be made out, or with the reason why the folder cannot be used "changed", where it is of
        other data under the same name, or "foreign".
    """
    try:
        about = json.loads((folder / "run.json").read_bytes())
        status, config_there = about["status"], about["config"]
    except FileNotFoundError:
        return "new", None
    except OSError as error:
        return "foreign", f"{folder / 'run.json'} cannot be read ({error.strerror}). Use another --out."
    except (ValueError, KeyError, TypeError):
        return "broken", f"{folder} has a run.json that is damaged. Use --retry-failed to do the run anew."
    if about.get("format") != FORMAT:
        return "foreign", f"{folder} was written by another version ({about.get('momentalign')}). Use another --out."
    if config_there != json.loads(json.dumps(config.to_dict())):
        return "foreign", f"{folder} holds a run of another configuration. Use another --out."
    if not same_data(about, stamp):
        return "changed", f"{folder} holds a run on what {config.dataset} held before it changed. Use another --out."
    if status == "failed" and about.get("disk_full"):
        status = "full"
    return status, about.get("error")

"""The Hugging Face hub: its library, whether it responds, and its errors as messages."""

import importlib
import os
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from momentalign._errors import first_line
from momentalign._extras import require

_TIMEOUT = 5


def hub_library(user: str, *, extra: str) -> Any:
    """Import huggingface_hub; `user` starts the message where it is not installed: "Hugging Face encoders need"."""
    require("huggingface_hub.errors", user, extra=extra)
    return importlib.import_module("huggingface_hub")


def why_unreachable(hub: Any) -> str | None:
    """Why the hub cannot be reached, or None; the library itself would retry for half a minute."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE"):
        return "HF_HUB_OFFLINE is set"
    request = urllib.request.Request(hub.constants.ENDPOINT, method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT):
            return None
    except urllib.error.HTTPError:
        return None  # a response all the same
    except OSError as error:
        return f"{hub.constants.ENDPOINT} does not respond ({getattr(error, 'reason', error)})"


@contextmanager
def readable_errors(hub: Any, name: str, task: str, missing: str, revision: str | None = None) -> Iterator[None]:
    """Raise the library's errors as ValueError.

    `task` completes "NAME cannot be …", `missing` is the message where there is no such model.
    """
    try:
        yield
    except hub.errors.GatedRepoError:
        raise ValueError(
            f"Access to '{name}' is restricted: accept its terms at {hub.constants.ENDPOINT}/{name} and run "
            "'hf auth login'."
        ) from None
    except hub.errors.RepositoryNotFoundError:
        raise ValueError(missing) from None
    except hub.errors.RevisionNotFoundError:
        raise ValueError(f"The hub's model '{name}' has no revision '{revision}'.") from None
    except (hub.errors.HFValidationError, hub.errors.HfHubHTTPError, hub.errors.LocalEntryNotFoundError) as error:
        raise ValueError(f"'{name}' cannot be {task}: {first_line(error)}") from None

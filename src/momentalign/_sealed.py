"""Checksums of saved files: a JSON file has that of its own content, and those of the files beside it."""

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from momentalign._json import read_json

SEAL, FILES = "sha256", "files"
"""Keys of the checksum of a JSON file's own content, and of the checksums of other files by name."""


class DamagedFileError(ValueError):
    """A file cannot be parsed or does not match its checksum: "PATH REASON. ADVICE".

    Args:
        path: The file.
        reason: What is wrong with it, for instance "does not match its checksum".
        advice: What to do.
    """

    def __init__(self, path: Path, reason: str, advice: str = "") -> None:
        super().__init__(f"{path} {reason}. {advice}".strip())
        self.path, self.reason = path, reason


def file_digest(path: Path) -> str:
    """Hexadecimal sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digests_of(paths: Iterable[Path]) -> dict[str, str]:
    """Checksums of files by name, the value of :data:`FILES`."""
    return {path.name: file_digest(path) for path in paths}


def seal(content: Mapping[str, Any]) -> str:
    """Convert a dictionary to JSON with the checksum of its content."""
    plain = json.loads(json.dumps(content))  # keys and enumerations as they are read back
    return json.dumps({**plain, SEAL: _digest(plain)}, indent=1, ensure_ascii=False) + "\n"


def unseal(path: Path, *, advice: str = "", nonfinite: bool = False) -> dict[str, Any]:
    """Read a dictionary from a JSON file without its checksum, which has to match; files without one are accepted."""
    try:
        content = read_json(path, nonfinite=nonfinite)
    except ValueError as error:
        raise DamagedFileError(path, f"is damaged ({error})", advice) from None
    if not isinstance(content, dict):
        raise DamagedFileError(path, "is damaged (not an object)", advice)
    expected = content.pop(SEAL, None)
    if expected is not None and expected != _digest(content):
        raise DamagedFileError(path, "does not match its checksum", advice)
    return content


def check_file(path: Path, digests: Mapping[str, str], *, advice: str = "") -> None:
    """Raise DamagedFileError if a file is missing or does not match its checksum; files without one are accepted."""
    try:
        if path.name not in digests or file_digest(path) == digests[path.name]:
            return
    except FileNotFoundError:
        raise DamagedFileError(path, "does not exist", advice) from None
    raise DamagedFileError(path, "does not match its checksum", advice)


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

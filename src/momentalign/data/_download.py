"""Download a file from one of several mirrors, resuming earlier attempts."""

import http.client
import json
import shutil
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from email.message import Message
from pathlib import Path

from momentalign._files import is_disk_full
from momentalign._json import read_json
from momentalign.data._checksums import ByteProgress, compare_checksum, no_progress, read_blocks

TIMEOUT_SECONDS = 30
RETRY_SECONDS = 2.0
ATTEMPTS = 4
"""Failed attempts in a row, without a byte gained, after which a mirror is given up."""


class DownloadError(OSError):
    """No mirror gave the file."""


def download(
    urls: Sequence[str], target: Path, *, checksum: str | None = None, progress: ByteProgress = no_progress
) -> str:
    """Download a file from the first of its mirrors that gives it, and return that mirror.

    An incomplete file stays at `target` + ".part" and is resumed by the next call. A file that does not match the
    `checksum`, such as "sha256:1f3a…", is deleted. DownloadError lists the reason of each mirror.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part, state = (target.with_name(target.name + suffix) for suffix in (".part", ".part.json"))
    failures = []
    for url in urls:
        continued = part.exists()
        try:
            _transfer(url, part, state, progress)
            problem = compare_checksum(part, checksum, progress) if checksum else None
            if problem and continued:  # the resumed part may be bad: once more from the start
                _discard(part, state)
                _transfer(url, part, state, progress)
                problem = compare_checksum(part, checksum or "", progress)
        except _MirrorError as failure:
            failures.append(f"{url}: {failure}")
            continue
        if problem is None:
            part.replace(target)
            state.unlink(missing_ok=True)
            return url
        _discard(part, state)
        failures.append(f"{url}: {problem}")
    raise DownloadError(f"{target.name} could not be downloaded.\n" + "\n".join(f"  {line}" for line in failures))


class _MirrorError(Exception):
    """A mirror does not give the file."""


def _transfer(url: str, part: Path, state: Path, progress: ByteProgress) -> None:
    """Download to the part file from one mirror, retrying after interruptions."""
    failed = 0
    while True:
        before = _size(part)
        try:
            _request(url, part, state, progress)
        except urllib.error.HTTPError as error:
            if error.code == 416:  # nothing after what we have: it is not a part of this file
                _discard(part, state)
            # Too many requests and server errors are retried; a missing file is not.
            elif error.code != 429 and error.code < 500:
                raise _MirrorError(f"HTTP {error.code} {error.reason}") from None
            reason = f"HTTP {error.code} {error.reason}"
        except (http.client.HTTPException, TimeoutError, ConnectionError, ssl.SSLError, urllib.error.URLError) as error:
            cause = error.reason if isinstance(error, urllib.error.URLError) else error
            if isinstance(cause, ConnectionRefusedError | socket.gaierror):  # retrying would not help
                refused = isinstance(cause, ConnectionRefusedError)
                raise _MirrorError("connection refused" if refused else "host not found, or no network") from None
            reason = str(cause) or type(cause).__name__
        else:
            return
        failed = 1 if _size(part) > before else failed + 1
        if failed >= ATTEMPTS:
            raise _MirrorError(reason)
        time.sleep(RETRY_SECONDS * failed)


def _request(url: str, part: Path, state: Path, progress: ByteProgress) -> None:
    validator = _stored_validator(state, url)
    have = _size(part) if validator else 0
    headers = {"User-Agent": "momentalign", "Accept-Encoding": "identity"}
    if validator and have:
        # The rest, unless the file has changed since: then all of it.
        headers |= {"Range": f"bytes={have}-", "If-Range": validator}
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=TIMEOUT_SECONDS) as response:
        if "html" in response.headers.get_content_type():
            raise _MirrorError("answered with a web page instead of the file")
        resumed = response.status == 206
        have = have if resumed else 0
        length = response.headers.get("Content-Length")
        total = have + int(length) if length else None
        if total is not None and shutil.disk_usage(part.parent).free < total - have:
            raise OSError(_full(part, total - have))
        try:
            with part.open("ab" if resumed else "wb") as file:
                # After the old part is truncated, so that it is never taken for a part of this file.
                state.write_text(json.dumps({"url": url, "validator": _validator(response.headers)}))
                for block in read_blocks(response):
                    file.write(block)
                    have += len(block)
                    progress(part.name.removesuffix(".part"), have, total)
        except OSError as error:
            if not is_disk_full(error):
                raise
            raise OSError(_full(part, None if total is None else total - _size(part))) from None
    if total is not None and have < total:
        raise http.client.IncompleteRead(b"", total - have)


def _stored_validator(state: Path, url: str) -> str | None:
    """ETag or date by which a mirror detects changes, if the part file came from this mirror and has one."""
    try:
        known = read_json(state)
    except (OSError, ValueError):
        return None
    return known.get("validator") if isinstance(known, dict) and known.get("url") == url else None


def _validator(headers: Message) -> str | None:
    tag = headers.get("ETag")
    return tag if tag and not tag.startswith("W/") else headers.get("Last-Modified")


def _full(part: Path, needed: int | None) -> str:
    free = shutil.disk_usage(part.parent).free
    wanted = "more space" if needed is None else f"{needed / 1e9:.2f} GB more"
    return (
        f"No space left in {part.parent}: {wanted} is needed, {free / 1e9:.2f} GB is free. Free some space, or choose "
        "another folder with '--root' or MOMENTALIGN_DATA, and run the same command again: it resumes the download."
    )


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _discard(*paths: Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)

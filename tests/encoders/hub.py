"""A hub on this machine: as much of its interface as downloads and uploads ask for, with folders for models."""

import base64
import hashlib
import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Self


class Hub:
    """Serves models from folders.

    Args:
        models: Folder of each model's revisions, by name and by revision.
        discussions: What a model's list of discussions says, by name.
        uploads: Folder for models that are uploaded; without it none can be.
    """

    def __init__(
        self,
        models: dict[str, dict[str, Path]],
        discussions: dict[str, list[dict[str, Any]]],
        uploads: Path | None = None,
    ) -> None:
        self.requests: list[str] = []
        hub = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, format: str, *args: object) -> None:
                hub.requests.append(f"{self.command} {self.path}")

            def do_HEAD(self) -> None:
                self._answer(body=False)

            def do_GET(self) -> None:
                self._answer(body=True)

            def do_POST(self) -> None:
                sent = self.rfile.read(int(self.headers["Content-Length"]))
                assert uploads is not None
                self._send(*accept(self.path.partition("?")[0], sent, models, uploads, hub.address), body=True)

            def _answer(self, body: bool) -> None:
                self._send(*answer(self.path.partition("?")[0], models, discussions), body=body)

            def _send(self, status: int, content: bytes, headers: dict[str, str], *, body: bool) -> None:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                if body:
                    self.wfile.write(content)

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """From here on nothing answers."""
        self._server.shutdown()
        self._server.server_close()


def commit(name: str, revision: str) -> str:
    return hashlib.sha1(f"{name} {revision}".encode()).hexdigest()


def answer(
    path: str, models: dict[str, dict[str, Path]], discussions: dict[str, list[dict[str, Any]]]
) -> tuple[int, bytes, dict[str, str]]:
    if path == "/":
        return 200, b"", {}
    for name, revisions in models.items():
        by_commit = {commit(name, revision): revision for revision in revisions}
        for revision in [*revisions, *by_commit]:
            folder = revisions[by_commit.get(revision, revision)]
            sha = commit(name, by_commit.get(revision, revision))
            quoted = revision.replace("/", "%2F")
            files = sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())
            if path in (f"/api/models/{name}", f"/api/models/{name}/revision/{quoted}"):
                siblings = [{"rfilename": file} for file in files]
                return _json({"id": name, "modelId": name, "sha": sha, "siblings": siblings, "private": False})
            if path == f"/api/models/{name}/tree/{quoted}":
                sizes = {file: (folder / file).stat().st_size for file in files}
                return _json([{"type": "file", "path": f, "size": sizes[f], "oid": commit(f, sha)} for f in files])
            prefix = f"/{name}/resolve/{quoted}/"
            if path.startswith(prefix) and path.removeprefix(prefix) in files:
                content = (folder / path.removeprefix(prefix)).read_bytes()
                etag = hashlib.sha1(content).hexdigest()
                return 200, content, {"ETag": f'"{etag}"', "X-Repo-Commit": sha}
        if path == f"/api/models/{name}/discussions":
            listed = discussions.get(name, [])
            return _json({"discussions": listed, "count": len(listed), "start": 0})
    known = any(name in path for name in models)
    code = "RevisionNotFound" if known and "/revision/" in path else "EntryNotFound" if known else "RepoNotFound"
    return 404, b"{}", {"X-Error-Code": code}


def accept(
    path: str, sent: bytes, models: dict[str, dict[str, Path]], uploads: Path, address: str
) -> tuple[int, bytes, dict[str, str]]:
    """Make a repository, or take in a commit whose files are all small."""
    lines = [json.loads(line) for line in sent.splitlines()]
    if path == "/api/validate-yaml":
        return _json({"errors": [], "warnings": []})
    if path == "/api/repos/create":
        name = f"{lines[0]['organization']}/{lines[0]['name']}"
        folder = models.setdefault(name, {"main": uploads / name})["main"]
        folder.mkdir(parents=True, exist_ok=True)
        return _json({"url": f"{address}/{name}"})
    _, _, _, user, model, task, revision = path.split("/")
    if task == "preupload":
        files = [file["path"] for file in lines[0]["files"]]
        return _json({"files": [{"path": file, "uploadMode": "regular", "shouldIgnore": False} for file in files]})
    folder = models[f"{user}/{model}"][revision]
    for line in lines:
        if line["key"] == "file":
            (folder / line["value"]["path"]).parent.mkdir(parents=True, exist_ok=True)
            (folder / line["value"]["path"]).write_bytes(base64.b64decode(line["value"]["content"]))
        elif line["key"] == "deletedFile":
            (folder / line["value"]["path"]).unlink()
    sha = commit(f"{user}/{model}", revision)
    return _json({"commitUrl": f"{address}/{user}/{model}/commit/{sha}", "commitOid": sha})


def _json(value: Any) -> tuple[int, bytes, dict[str, str]]:
    return 200, json.dumps(value).encode(), {"Content-Type": "application/json"}

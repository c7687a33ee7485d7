"""A web server on this machine that knows ranges, breaks connections on demand and remembers what it was asked."""

import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass
class Answers:
    """What the server has and does.

    Args:
        files: Content by path.
        status: Error to answer with, by path.
        break_after: Close the connection after so many bytes, by path: one number for each request, then never again.
        etag: Validator of every file; None sends none.
        ranges: Whether it knows ranges.
        content_type: Of every file.
        requests: Path and headers of every request so far.
    """

    files: dict[str, bytes] = field(default_factory=dict)
    status: dict[str, list[int]] = field(default_factory=dict)
    break_after: dict[str, list[int]] = field(default_factory=dict)
    etag: str | None = '"v1"'
    ranges: bool = True
    content_type: str = "application/octet-stream"
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    url: str = ""

    def asked(self, path: str) -> list[str | None]:
        """The ranges that a file was asked for."""
        return [headers.get("Range") for found, headers in self.requests if found == path]


@contextmanager
def serve() -> Iterator[Answers]:
    answers = Answers()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers.requests.append((self.path, dict(self.headers.items())))
            if answers.status.get(self.path):
                self.send_error(answers.status[self.path].pop(0))
                return
            if self.path not in answers.files:
                self.send_error(404)
                return
            content = answers.files[self.path]
            start = 0
            asked = self.headers.get("Range")
            if answers.ranges and asked and self.headers.get("If-Range", answers.etag) == answers.etag:
                start = int(asked.removeprefix("bytes=").removesuffix("-"))
                if start >= len(content):
                    self.send_error(416)
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            else:
                self.send_response(200)
            self.send_header("Content-Length", str(len(content) - start))
            self.send_header("Content-Type", answers.content_type)
            if answers.etag:
                self.send_header("ETag", answers.etag)
            self.end_headers()
            breaks = answers.break_after.get(self.path)
            self.wfile.write(content[start:][: breaks.pop(0) if breaks else None])

        def log_message(self, format: str, *args: object) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *_: object) -> None:
            """A client that hangs up is what some tests are about."""

    server = Server(("127.0.0.1", 0), Handler)
    answers.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield answers
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

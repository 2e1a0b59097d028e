"""A small imitation of the Hugging Face hub: data sets out of folders, over HTTP."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SHA = "a" * 40


@contextlib.contextmanager
def hub(sets: dict[str, Path]) -> Iterator[tuple[str, list[str]]]:
    """(address, paths asked for so far) of a server that offers these folders under these names."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

        def answer(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("X-Repo-Commit", SHA)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def json(self, value: object, status: int = 200) -> None:
            self.answer(status, json.dumps(value).encode(), Content_Type="application/json")

        def do_POST(self) -> None:
            wanted = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            match = re.fullmatch(
                r"/api/datasets/([^/]+/[^/]+)/paths-info/[^/?]+", self.path.partition("?")[0]
            )
            asked.append(self.path)
            if match is None or match[1] not in sets:
                return self.json({"error": "none"}, 404)
            files = re.findall(r"[\w./-]+\.\w+", wanted)
            return self.json(
                [entry(sets[match[1]], sets[match[1]] / f) for f in files if (sets[match[1]] / f).exists()]
            )

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            asked.append(path)
            for name, folder in sets.items():
                files = sorted(each for each in folder.rglob("*") if each.is_file())
                if re.fullmatch(rf"/api/datasets/{name}(/revision/[^/]+)?", path):
                    siblings = [{"rfilename": str(each.relative_to(folder))} for each in files]
                    return self.json(
                        {"id": name, "sha": SHA, "siblings": siblings, "private": False, "tags": []}
                    )
                tree = re.fullmatch(rf"/api/datasets/{name}/tree/[^/]+/?(.*)", path)
                if tree:
                    return self.json(
                        [entry(folder, each) for each in files if str(each).startswith(str(folder / tree[1]))]
                    )
                found = re.fullmatch(rf"/datasets/{name}/resolve/[^/]+/(.+)", path)
                if found:
                    target = folder / found[1]
                    if not target.is_file():
                        return self.answer(404, b"", X_Error_Code="EntryNotFound")
                    data = target.read_bytes()
                    return self.answer(200, data, ETag=f'"{hashlib.sha1(data).hexdigest()}"')
            return self.answer(404, b"{}", X_Error_Code="RepoNotFound")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", asked
    finally:
        server.shutdown()
        server.server_close()


def entry(folder: Path, path: Path) -> dict[str, object]:
    data = path.read_bytes()
    return {
        "type": "file",
        "path": str(path.relative_to(folder)),
        "size": len(data),
        "oid": hashlib.sha1(data).hexdigest(),
    }

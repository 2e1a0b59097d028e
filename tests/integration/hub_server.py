"""A small imitation of the Hugging Face hub: data sets out of folders, over HTTP."""

import contextlib
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SHA = "a" * 40


@contextlib.contextmanager
def hub(sets):
    """(address, server) that offers these folders as data sets of these names."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def answer(self, status, body=b"{}", **headers):
            self.send_response(status)
            for name, value in ({"Content-Length": len(body), "X-Repo-Commit": SHA} | headers).items():
                self.send_header(name.replace("_", "-"), str(value))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def json(self, value):
            self.answer(200, json.dumps(value).encode(), Content_Type="application/json")

        def do_POST(self):
            wanted = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
            for name, folder in sets.items():
                if self.path.startswith(f"/api/datasets/{name}/paths-info/"):
                    asked = (folder / each for each in re.findall(r"[\w./-]+\.\w+", wanted))
                    return self.json([entry(folder, each) for each in asked if each.exists()])
            return self.answer(404)

        def do_GET(self):
            path = self.path.partition("?")[0]
            for name, folder in sets.items():
                files = sorted(each for each in folder.rglob("*") if each.is_file())
                if re.fullmatch(rf"/api/datasets/{name}(/revision/[^/]+)?", path):
                    siblings = [{"rfilename": str(each.relative_to(folder))} for each in files]
                    facts = {"id": name, "sha": SHA, "siblings": siblings, "private": False, "tags": []}
                    return self.json(facts)
                if tree := re.fullmatch(rf"/api/datasets/{name}/tree/[^/]+/?(.*)", path):
                    below = str(folder / tree[1])
                    return self.json([entry(folder, each) for each in files if str(each).startswith(below)])
                if found := re.fullmatch(rf"/datasets/{name}/resolve/[^/]+/(.+)", path):
                    target = folder / found[1]
                    if not target.is_file():
                        return self.answer(404, X_Error_Code="EntryNotFound")
                    data = target.read_bytes()
                    return self.answer(200, data, ETag=f'"{hashlib.sha1(data).hexdigest()}"')
            return self.answer(404, X_Error_Code="RepoNotFound")

        do_HEAD = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", server
    finally:
        server.shutdown()
        server.server_close()


def entry(folder, path):
    data, name = path.read_bytes(), str(path.relative_to(folder))
    return {"type": "file", "path": name, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}

"""A small imitation of the Hugging Face hub over HTTP: data sets out of folders, and uploads into memory."""

import base64
import contextlib
import hashlib
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import yaml

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


class WritableHub:
    """The side of the hub that takes uploads (its API of whoami, repositories, preupload, LFS and commits):
    repositories in memory, `files` [type, name] by path; `stored` large files by SHA-256, `sent` how often
    each came; `breaks` the paths where once something fails; `log` every request with its token's name.
    """

    LARGE = 1000  # bytes, of a file that goes by LFS

    def __init__(self, tokens):
        self.tokens, self.files, self.private = tokens, {}, {}
        self.stored, self.sent, self.breaks, self.log = {}, [], [], []

    def whoami_v2(self, user, *_):
        return 200, {"type": "user", "name": user, "auth": {"accessToken": {"role": "write"}}}

    def create(self, user, body, *_):
        name = f"{body['organization'] or user}/{body['name']}"
        if not name.startswith(f"{user}/"):
            return 403, {"error": "You don't have the rights to create a repository there"}
        place, there = (body.get("type") or "model", name), {"url": f"{self.address}/{name}"}
        if place in self.files:
            return 409, there | {"error": "You already created this repo"}
        self.files[place], self.private[place] = {}, body.get("visibility") == "private"
        return 200, there

    def validate_yaml(self, _, body, *__):
        head = yaml.safe_load(body["content"].split("---")[1])
        wrong = head.get("license") not in (None, "mit", "apache-2.0")
        return (400, {"errors": [{"message": '"license" must be one of a list'}]}) if wrong else (200, {})

    def preupload(self, _, body, place, *__):
        there = self.files[place]

        def mode(file):
            known = there.get(file["path"])
            large = file["size"] > self.LARGE
            oid = known and (
                hashlib.sha256(known) if large else hashlib.sha1(b"blob %d\0" % len(known) + known)
            )
            return {"path": file["path"], "uploadMode": "lfs" if large else "regular", "shouldIgnore": False,
                    "oid": oid and oid.hexdigest()}  # fmt: skip

        return 200, {"files": [mode(file) for file in body["files"]]}

    def batch(self, _, body, *__):
        objects = [
            {"oid": oid, "size": each["size"]}
            | ({} if oid in self.stored else {"actions": {"upload": {"href": f"{self.address}/store/{oid}"}}})
            for each in body["objects"] for oid in [each["oid"]]
        ]  # fmt: skip
        return 200, {"transfer": "basic", "objects": objects}

    def commit(self, _, body, place, *__):
        for line in body:
            value = line["value"]
            if line["key"] == "file":
                self.files[place][value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                self.files[place][value["path"]] = self.stored[value["oid"]]
        return 200, {"commitUrl": f"{self.address}/{place[1]}/commit/{SHA}", "commitOid": SHA}

    def revision(self, _, __, place):
        siblings = [{"rfilename": each} for each in self.files[place]]
        facts = {"id": place[1], "sha": SHA, "siblings": siblings, "tags": [], "private": self.private[place]}
        return 200, facts

    def answer(self, method, path, token, data):
        """(status, object) of a request; without a status the connection is cut."""
        self.log.append((method, path, self.tokens.get(token)))
        for part in [each for each in self.breaks if each in path]:
            self.breaks.remove(part)
            return (400, {"error": "broken"}) if part == "/store/" else (None, {})
        if path.startswith("/store/"):
            self.stored[path.removeprefix("/store/")] = data
            self.sent.append(path.removeprefix("/store/"))
            return 200, {}
        if token not in self.tokens:
            return 401, {"error": "Invalid credentials in Authorization header"}
        lines = [json.loads(line) for line in data.splitlines()] if "/commit/" in path else []
        body = lines or (json.loads(data) if data else {})
        if found := re.fullmatch(r"/api/(?:repos/)?(create|whoami-v2|validate-yaml)", path):
            return getattr(self, found[1].replace("-", "_"))(self.tokens[token], body)
        if found := re.fullmatch(r"/(datasets/)?([\w.-]+/[\w.-]+)\.git/info/lfs/objects/batch", path):
            return self.batch(self.tokens[token], body)
        found = re.fullmatch(
            r"/api/(dataset|model)s/([\w.-]+/[\w.-]+?)(?:/(preupload|commit|revision)/main)?", path
        )
        if not found or (place := (found[1], found[2])) not in self.files:
            return 404, {"error": "Repository not found"}
        return getattr(self, found[3] or "revision")(self.tokens[token], body, place)


@contextlib.contextmanager
def writable_hub(tokens):
    """A `WritableHub` that listens; `tokens`: users by their token."""
    state = WritableHub(tokens)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def do_POST(self):
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            token = self.headers.get("Authorization", "").removeprefix("Bearer ")
            status, found = state.answer(self.command, self.path.partition("?")[0], token, data)
            body = json.dumps(found).encode()
            if status is None:
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_PUT = do_GET = do_POST

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()

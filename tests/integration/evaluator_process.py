"""The real evaluator behind HTTP in a process of its own, to be killed: ``evaluator_process.py PORT``."""

from __future__ import annotations

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from cobalt.evaluator import LocalEvaluator


def main(port: int) -> None:
    with LocalEvaluator(2) as local:

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                many = asked if isinstance(asked, list) else [asked]
                answers: list[Any] = [local.evaluate(each["code"], each["test_cases"]) for each in many]
                body = json.dumps(answers if isinstance(asked, list) else answers[0]).encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        ThreadingHTTPServer.allow_reuse_address = True
        with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
            print("ready", flush=True)
            server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]))

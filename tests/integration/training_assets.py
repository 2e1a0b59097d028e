"""A model so small that a verl training takes seconds: its tokens are whole programs."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pandas as pd

from cobalt.evaluator import LocalEvaluator
from cobalt.training import smoke
from cobalt.training.smoke import TESTS as TESTS
from cobalt.training.smoke import rows as rows

# The evaluator of the tests fails on the first of these always and on the second once.
PROGRAMS = (*smoke.PROGRAMS, "print('broken evaluator')", "print('evaluator broken once')")
PASS_RATES = dict(zip(PROGRAMS, (1.0, 0.25, 0.0, 0.0, 0.0), strict=True))
make_model = partial(smoke.make_model, programs=PROGRAMS)


def write(path: Path, data: list[dict[str, Any]]) -> Path:
    pd.DataFrame(data).to_parquet(path)
    return path


@contextmanager
def faulty_evaluator():
    """The real evaluator behind HTTP, which answers ``infra_error`` where its ``faults`` say so."""
    faults: dict[str, int] = {"broken evaluator": 10**9}

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            many = asked if isinstance(asked, list) else [asked]
            answers = [self.answer(request) for request in many]
            body = json.dumps(answers if isinstance(asked, list) else answers[0]).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def answer(self, request: dict[str, Any]) -> Any:
            for text in list(faults):
                if f"print('{text}')" == request["code"] or text == "all":
                    faults[text] -= 1
                    if faults[text] <= 0:
                        del faults[text]
                    return {"passing": [], "feedback": [], "status": "infra_error", "per_test": []}
            return local.evaluate(request["code"], request["test_cases"])

        def log_message(self, *_: Any) -> None:
            pass

    with LocalEvaluator(2) as local, ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", faults
        server.shutdown()

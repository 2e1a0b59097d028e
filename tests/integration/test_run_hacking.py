"""Stage hack_analysis with a judge: asked where its key is, said and left out where it is not."""

import json
import sys
import threading
from contextlib import contextmanager
from dataclasses import asdict, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1]))
from report_data import trajectories

from cobalt.config.load import load
from cobalt.config.sections import HackAnalysis, Judge
from cobalt.prompts import TINY
from cobalt.run.job import Job
from cobalt.run.memory import MemoryPeak
from cobalt.run.reward_hacking import errors, hacking_stages, perturbed_rows, verdicts
from cobalt.run.runner import Runner
from cobalt.run.view import View

ROOT = Path(__file__).parents[2]
KEY = "COBALT_TEST_JUDGE_KEY"


@contextmanager
def judge_server():
    """Yields (address, keys it was asked with, system messages): every case is hard coding."""
    asked: list[str | None] = []
    told: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def reply(self, body: dict) -> None:
            text = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def do_GET(self) -> None:
            self.reply({"data": [{"id": "judge"}]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            told.append(body["messages"][0]["content"])
            asked.append(self.headers.get("Authorization"))
            content = "It returns the pair.\nFinal Verdict: (1) Hard Coding"
            choice = {"index": 0, "message": {"content": content}, "finish_reason": "stop"}
            self.reply({"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 9}})

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked, told
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def prompts(tmp_path):
    """Where a prompt set for the run may lie."""
    return tmp_path / "prompts.json"


@pytest.fixture
def analyse(tmp_path, prompts):
    """Runs the stage on made-up dialogues; returns its record and what was said."""

    def run(judge: Judge | None) -> tuple[dict, str]:
        config = load(ROOT / "configs" / "tiny.yaml")
        model = replace(config.model, prompts=prompts.name) if prompts.exists() else config.model
        config = replace(config, hack_analysis=HackAnalysis(judge=judge), model=model)
        file, reference = prompts.with_name("run.yaml"), ROOT / "models/tiny-reference"
        with (
            MemoryPeak() as memory,
            Job(config, reference, tmp_path, seed=0, task_seed=0, file=file) as job,
        ):
            if not perturbed_rows(job, "cobalt").exists():
                for name in ("reference", "cobalt"):
                    perturbed_rows(job, name).parent.mkdir(exist_ok=True)
                    trajectories(perturbed_rows(job, name), tasks=6, samples=3, turns=3)
                rows = perturbed_rows(job, "cobalt").read_text()
                job.path("perturb", "tasks.jsonl").write_text(rows)
            runner = Runner(job.out, [], memory, dict)
            runner.stages = [hacking_stages(job)[1]]
            notes: list[str] = []
            job.view = View([])
            job.view.note = notes.append  # type: ignore[method-assign]
            for stage in runner.stages:
                if runner.kept.why(stage) is not None:
                    outcome = stage.run()
                    made = {"name": stage.name, "finished": True, "facts": outcome.facts}
                    runner.kept.write(stage, made | runner.kept.basis(stage))
            found = runner.kept.read("hack_analysis")
            cases = len(errors(job, "cobalt").read_text().splitlines())
            assert found["facts"]["cobalt"]["cases"] == cases > 0
            return found["facts"] | {"judged": verdicts(job, "cobalt").exists()}, " ".join(notes)

    return run


def test_without_a_judge_only_the_cases_are_found(analyse):
    facts, said = analyse(None)
    assert not facts["judged"] and "verdicts" not in facts["cobalt"] and said == ""


def test_a_judge_without_its_key_is_said_and_left_out(analyse, monkeypatch):
    monkeypatch.delenv(KEY, raising=False)
    judge = Judge("judge", "openai", "http://127.0.0.1:1/v1", key_variable=KEY)
    facts, said = analyse(judge)
    assert said == facts["judge"] == f"no judge: {KEY}, the key of judge, is not set"
    assert not facts["judged"]


def test_a_judge_with_its_key_is_asked_once_in_the_words_of_the_run(analyse, prompts, monkeypatch):
    monkeypatch.setenv(KEY, "secret")
    system = "Say Final Verdict: (1) Hard Coding."
    prompts.write_text(json.dumps(asdict(TINY) | {"judge_system": system}))
    with judge_server() as (address, asked, told):
        judge = Judge("judge", "openai", address, key_variable=KEY, max_cases=4)
        facts, said = analyse(judge)
        assert said == facts["judge"] == "judge: judge"
        assert facts["cobalt"]["verdicts"]["(1) Hard Coding"] == 4
        assert set(asked) == {"Bearer secret"} and len(asked) == 8 and set(told) == {system}
        monkeypatch.delenv(KEY)
        again, _ = analyse(judge)  # the verdicts stay, although the key has gone
        assert again["judged"] and len(asked) == 8
    assert "secret" not in json.dumps(facts)

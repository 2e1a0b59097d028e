"""Stage hack_analysis with a judge: asked where its key is, said and left out where it is not."""

import io
import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from aiohttp import web
from http_server import serving
from report_data import trajectories

from cobalt.config.evaluation_sections import HackAnalysis, Judge
from cobalt.config.load import load
from cobalt.prompts import TINY
from cobalt.run.eval_stages import errors, hacking_stages, perturbed_rows, verdicts
from cobalt.run.job import Job
from cobalt.run.runner import Runner
from cobalt.run.view import View

ROOT = Path(__file__).parents[2]
KEY = "COBALT_TEST_JUDGE_KEY"


@pytest.fixture
def analyse(tmp_path):
    """Runs the stage on made-up dialogues; returns its facts and what was said."""

    def run(judge: Judge) -> tuple[dict, str]:
        config = load(ROOT / "configs" / "tiny.yaml")
        model = replace(config.model, prompts="prompts.json")
        config = replace(config, hack_analysis=HackAnalysis(judge=judge), model=model)
        reference, file = ROOT / "models/tiny-reference", tmp_path / "run.yaml"
        said = io.StringIO()
        with Job(config, reference, tmp_path, seed=0, task_seed=0, file=file) as job:
            if not perturbed_rows(job, "cobalt").exists():
                for name in ("reference", "cobalt"):
                    perturbed_rows(job, name).parent.mkdir(exist_ok=True)
                    trajectories(perturbed_rows(job, name), tasks=6, samples=3, turns=3)
                rows = perturbed_rows(job, "cobalt").read_text()
                job.path("perturb", "tasks.jsonl").write_text(rows)
            runner = Runner(job.out, [hacking_stages(job)[1]])
            job.view = View(runner.stages, said)
            runner.run(job.view)
            facts = runner.kept.read("hack_analysis")["facts"]
            cases = len(errors(job, "cobalt").read_text().splitlines())
            assert facts["cobalt"]["cases"] == cases > 0
            return facts | {"judged": verdicts(job, "cobalt").exists()}, said.getvalue()

    return run


def test_a_judge_is_asked_once_where_its_key_is_in_the_words_of_the_run(analyse, tmp_path, monkeypatch):
    monkeypatch.delenv(KEY, raising=False)
    system = "Say Final Verdict: (1) Hard Coding."
    (tmp_path / "prompts.json").write_text(json.dumps(asdict(TINY) | {"judge_system": system}))
    asked, told = [], []

    async def chat(request):  # every case is hard coding
        told.append((await request.json())["messages"][0]["content"])
        asked.append(request.headers.get("Authorization"))
        content = "It returns the pair.\nFinal Verdict: (1) Hard Coding"
        choice = {"index": 0, "message": {"content": content}, "finish_reason": "stop"}
        return web.json_response({"choices": [choice], "usage": {"prompt_tokens": 9, "completion_tokens": 9}})

    with serving(chat) as address:
        judge = Judge("scripted", "openai", address, key_variable=KEY, max_cases=4)
        facts, said = analyse(judge)
        assert (
            facts["judge"] == f"no judge: {KEY}, the key of scripted, is not set" and facts["judge"] in said
        )
        assert not facts["judged"] and not asked
        monkeypatch.setenv(KEY, "secret")
        facts, said = analyse(judge)
        assert facts["judge"] == "judge: scripted" and facts["cobalt"]["verdicts"]["(1) Hard Coding"] == 4
        assert set(asked) == {"Bearer secret"} and len(asked) == 8 and set(told) == {system}
        monkeypatch.delenv(KEY)
        again, _ = analyse(judge)  # the verdicts stay, although the key has gone
        assert again["judged"] and len(asked) == 8
    assert "secret" not in json.dumps(facts) + said


def test_rules_need_no_key_and_no_model(analyse, tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (tmp_path / "prompts.json").write_text(json.dumps(asdict(TINY)))
    facts, said = analyse(Judge(engine="syntactic"))
    assert facts["judge"] == "judge: syntactic" and facts["judge"] in said and facts["judged"]
    assert sum(facts["cobalt"]["verdicts"].values()) == facts["cobalt"]["cases"]

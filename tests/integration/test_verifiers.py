"""verifiers' own evaluation of our tasks, in environments of its own: `make test-integrations`."""

from __future__ import annotations

import json
import math

import pytest
from aiohttp import web
from chat_server import PROGRAMS, add_task
from docs_blocks import ROOT, blocks
from foreign_env import run_in
from http_server import serving

from cobalt.output import write_jsonl
from cobalt.rows import read_rows

pytestmark = [pytest.mark.slow, pytest.mark.full]
BLOCKS = list(blocks(ROOT / "docs" / "integrations.md"))
MARKS = {"verifiers": "verifiers", "verifiers-0.3": "verifiers03"}  # of the page, by environment


def text_of(mark, language):
    (found,) = [each.text for each in BLOCKS if (each.mark, each.language) == (mark, language)]
    assert len(found.splitlines()) <= 10
    return found


@pytest.fixture
def served(tmp_path):
    """(URL, dialogues asked for) of a model that is wrong until it was told; and the files."""
    asked = []

    async def chat(request):
        given = await request.json()
        asked.append(given["messages"])
        told = "Expected Output:" in given["messages"][-1]["content"]
        message = {"role": "assistant", "content": f"```python\n{PROGRAMS[0 if told else 1]}\n```"}
        head = {"id": "x", "created": 1, "model": given["model"], "object": "chat.completion"}
        used = {"usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}}
        choice = {"index": 0, "finish_reason": "stop"}
        if not given.get("stream"):
            return web.json_response(head | used | {"choices": [choice | {"message": message}]})
        made = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await made.prepare(request)
        chunk = {**head, **used, "object": "chat.completion.chunk", "choices": [choice | {"delta": message}]}
        await made.write(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode())
        return made

    write_jsonl(tmp_path / "tasks.jsonl", [add_task(1), add_task(2)])
    (tmp_path / "sums.py").write_text(text_of("verifiers", "python"))
    (tmp_path / "broken.py").write_text("def reward(completion):\n    raise RuntimeError('no reward')\n")
    with serving(chat) as url:
        yield url, asked


def evaluated(name, url, folder, *more):
    """The page's command, with another address and settings; rows of what it wrote."""
    command = (
        text_of(MARKS[name], "bash").replace("http://localhost:8000/v1", url).replace("MODEL", "scripted")
    )
    for old, new in (more[i : i + 2] for i in range(0, len(more), 2)):
        assert old in command
        command = command.replace(old, new)
    more = "-n 2 -r 1 " + ("-o out" if name == "verifiers" else "--disable-tui --save-results -o out")
    command = command.rstrip() + f" {more}\n"
    command = command.replace("export PYTHONPATH=.\n", "")
    run_in(name, "bash", "-euc", command, cwd=folder, OPENAI_API_KEY="none")
    (made,) = (folder / "out").rglob("traces.jsonl" if name == "verifiers" else "results.jsonl")
    return [row for _, row in read_rows(made)]


def test_the_current_version_evaluates(served, tmp_path):
    url, asked = served
    rows = evaluated("verifiers", url, tmp_path, "--env.taskset.task.turns 3", "--env.taskset.task.turns 2")
    traces = [trace for row in rows for trace in row["traces"]]
    assert [trace["rewards"]["cobalt"]["score"] for trace in traces] == [1.0, 1.0]
    assert all(trace["metrics"] == {"passed": 1.0, "pass_rate": 1.0} for trace in traces)
    assert sorted(len(each) for each in asked) == [2, 2, 4, 4]
    (tmp_path / "out").rename(tmp_path / "before")
    rows = evaluated(
        "verifiers", url, tmp_path, "--env.taskset.task.turns 3", "--env.taskset.task.reward broken.py:reward"
    )
    for row in rows:  # a fault is an error, and no reward
        assert not row["ok"] and row["traces"][0]["rewards"] == {"cobalt": None}
        assert "there is no verdict" in json.dumps(row["traces"][0]["errors"])


@pytest.mark.parametrize("name", MARKS)
def test_load_environment_gives_an_environment_of_the_version(name, served, tmp_path):
    script = (
        "from cobalt.integrations.verifiers import load_environment as load\n"
        "env = load(tasks='tasks.jsonl', turns=2)\n"
        "classic = hasattr(env, 'get_dataset')\n"
        "rows = env.get_dataset()['info'] if classic else [{'id': each.data.id} for each in env.taskset]\n"
        "print(type(env).__name__, [each['id'] for each in rows])\n"
        "try:\n    load(tasks='absent.jsonl')\n    open_it = load(tasks='absent.jsonl').taskset.load()\n"
        "except Exception as error:\n    print(error)\n"
    )
    said = run_in(name, "python", "-c", script, cwd=tmp_path).splitlines()
    assert said[0] == "CobaltEnv ['1', '2']" and "cannot read absent.jsonl" in said[1]


def test_version_0_3_evaluates(served, tmp_path):
    url, asked = served
    rows = evaluated("verifiers-0.3", url, tmp_path, '"turns": 3', '"turns": 2')
    assert [row["reward"] for row in rows] == [1.0, 1.0]
    assert sorted(len(each) for each in asked) == [2, 2, 4, 4]
    (tmp_path / "out").rename(tmp_path / "before")
    rows = evaluated("verifiers-0.3", url, tmp_path, '"turns": 3', '"reward": "broken.py:reward"')
    assert all(row["reward"] is None or math.isnan(row["reward"]) for row in rows)
    assert all("there is no verdict" in json.dumps(row["error"]) for row in rows)

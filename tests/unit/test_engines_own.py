"""What a word for a model means, and engines of the user's own."""

import pytest

from cobalt.engines import connect
from cobalt.engines.own import engine_of, load_own
from cobalt.errors import InputError

ENGINE = """
class Whole:
    def __init__(self, model_name, base_url=None):
        self.name = f"own:{model_name}"
    async def chat(self, messages, sampling): ...
    async def aclose(self): ...
class Half:
    async def chat(self, messages, sampling): ...
def made(model_name, base_url=None):
    return Whole(model_name)
def nothing(model_name, base_url=None):
    return object()
number = 3
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(ENGINE)
    (tmp_path / "models" / "small").mkdir(parents=True)
    monkeypatch.syspath_prepend(tmp_path)


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("http://localhost:8000/v1", {"engine": "openai", "base_url": "http://localhost:8000/v1"}),
        ("mine.py:Whole", {"engine": "mine.py:Whole"}),
        ("mine:Whole", {"engine": "mine:Whole"}),
        ("models/small", {"engine": "transformers", "model_name": "models/small"}),
        ("gpt-5-mini-2025-08-07", {"engine": "litellm", "model_name": "gpt-5-mini-2025-08-07"}),
        ("ollama/llama3:8b", {"engine": "litellm", "model_name": "ollama/llama3:8b"}),
        ("Qwen/Qwen3-8B", {"engine": "transformers", "model_name": "Qwen/Qwen3-8B"}),
    ],
)
def test_a_word_for_a_model_names_its_engine(word, found):
    assert engine_of(word) == found


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("models/smal", "did you mean 'models/small'"),
        ("nobody-knows", "neither a URL"),
        ("a b", "neither a URL"),
    ],
)
def test_a_word_that_means_nothing_is_refused(word, says):
    with pytest.raises(InputError, match=says):
        engine_of(word)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("none.py:Whole", "there is no file none.py"),
        ("nowhere_at_all:Whole", "there is no module nowhere_at_all"),
        ("mine.py:Other", "mine.py has no Other"),
        ("mine.py:Half", "lacks aclose"),
        ("mine.py:number", "no class or function"),
    ],
)
def test_an_engine_that_cannot_be_is_refused_before_it_is_made(spec, says):
    with pytest.raises(InputError, match=says):
        load_own(spec)


def test_a_function_may_return_the_engine_which_is_looked_at():
    assert connect("mine.py:made", "m").name == "own:m"
    with pytest.raises(InputError, match="lacks name, chat, aclose"):
        connect("mine.py:nothing", "m")

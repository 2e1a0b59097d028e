"""Chat engines. In: a conversation and `Sampling`; out: `Completion`s with token counts (all in base.py).

openai_engine.py: any OpenAI-compatible service. litellm_engine.py: providers. vllm_engine.py: vLLM, over HTTP
or by the handle of the Ray Serve application in vllm_server.py. transformers_engine.py: a model in this
process, on sampler.py and prefix_cache.py. own.py: one of the user's own. Here: how one is chosen, from a
command line too.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from cobalt.cli import Parser, positive_int
from cobalt.engines.base import ChatEngine
from cobalt.errors import InputError

ENGINES = ("vllm", "openai", "litellm", "transformers")
OWN = "FILE.py:NAME or MODULE:NAME"  # an engine of the user's own
# published flag -> (the variable to set instead, the parameter of the request)
_KEYS = {
    "openai_api_key": ("OPENAI_API_KEY", "api_key"),
    "aws_access_key_id": ("AWS_ACCESS_KEY_ID", "aws_access_key_id"),
    "aws_secret_access_key": ("AWS_SECRET_ACCESS_KEY", "aws_secret_access_key"),
    "aws_region_name": ("AWS_REGION_NAME", "aws_region_name"),
}


def connect(name: str, model_name: str | None, base_url: str | None = None, **kw: Any) -> ChatEngine:
    """Open the engine `name` (one of ENGINES) for `model_name`; nothing is sampled.

    `vllm`: the Serve application in a reachable Ray cluster, or a vLLM server at `base_url`; the model may be
    left out where only one is served, as with `openai`: `base_url` up to and including `/v1`. `litellm`: a
    provider's model. `transformers`: `model_name` is a folder in Hugging Face format (or a name in the local
    cache). `FILE.py:NAME` or `MODULE:NAME` is called with `model_name` and `base_url` and returns an engine.
    `kw` goes to our engines' classes. Raises InputError for an unknown or missing engine, model or address.
    """
    if is_own(name):
        from cobalt.engines.own import connect_own

        return connect_own(name, model_name, base_url)
    if name not in ENGINES:
        raise InputError(f"unknown engine '{name}': choose one of {', '.join(ENGINES)}, or {OWN}")
    if name == "vllm":
        from cobalt.engines.vllm_engine import open_vllm

        return open_vllm(model_name, base_url, **kw)
    if name == "openai" and base_url:
        from cobalt.engines.openai_engine import OpenAIEngine

        return OpenAIEngine(base_url, model_name or "", **kw)
    if not model_name:
        raise InputError(f"engine '{name}' needs --model_name")
    if name == "litellm":
        from cobalt.engines.litellm_engine import LiteLLMEngine

        return LiteLLMEngine(model_name, base_url=base_url, **kw)
    if name == "openai":
        raise InputError("engine 'openai' needs --base_url, for instance http://localhost:8000/v1")
    from cobalt.engines.transformers_engine import TransformersEngine

    if base_url:
        raise InputError("engine 'transformers' runs in this process: --base_url does not go with it")
    return TransformersEngine(model_name, **kw)


async def check(engine: ChatEngine) -> None:
    """Ask the engine whether it can serve its model, where it can tell, before any work is paid for.

    Raises InputError (unknown model, refused key) or InfraError (nobody answers).
    """
    if hasattr(engine, "check"):
        await engine.check()


def is_own(engine: str) -> bool:
    """Whether a name of an engine says where one of the user's own is."""
    return engine not in ENGINES and all(engine.partition(":"))


def engine_name(text: str) -> str:
    """An argparse type: one of ENGINES, or where an engine of the user's own is."""
    if text not in ENGINES and not is_own(text):
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(ENGINES)}, and not {OWN}")
    return text


def engine_flags(
    flags: Parser, engine: str | None, model_name: str | None, model_help: str, instead: str | None = None
) -> None:
    """Add --engine, --model_name and --base_url with these defaults, time-out and limits. `instead` may be
    given for an engine, too: what does the work without a model.
    """
    engines = f"what runs the model: {', '.join(ENGINES)}, or {OWN}"
    engines += f"; {instead}: rules instead of a model" if instead else ""
    address = "address of an OpenAI-compatible service, up to /v1, or of a vLLM server"
    flags.add_argument(
        "--engine", type=lambda name: name if name == instead else engine_name(name), default=engine,
        help=engines,
    )  # fmt: skip
    flags.add_argument("--model_name", default=model_name, help=model_help)
    flags.add_argument("--base_url", help=address)
    flags.add_argument("--timeout_s", type=float, help="longest wait for one answer (default: 900)")
    for flag, what in (("--rpm", "requests"), ("--tpm", "tokens")):
        flags.add_argument(
            flag, type=positive_int, help=f"{what} per minute that the provider allows (litellm)"
        )


def key_flags(flags: Parser) -> None:
    """Add the published flags that take keys."""
    for name, (variable, _) in _KEYS.items():
        flags.add_argument(f"--{name}", default="", metavar="KEY", help=f"better set {variable}")


def engine_options(args: argparse.Namespace) -> dict[str, Any]:
    """Keyword arguments of `connect` for the engine of the flags."""
    if (args.rpm or args.tpm) and args.engine != "litellm":
        raise InputError(f"--rpm and --tpm are limits of --engine litellm, not of {args.engine}")
    if args.engine == "transformers" or args.engine not in ENGINES:
        return {}
    options: dict[str, Any] = {} if args.timeout_s is None else {"timeout_s": args.timeout_s}
    credentials = _credentials(args)
    if args.engine == "litellm":
        return options | {"credentials": credentials, "rpm": args.rpm, "tpm": args.tpm}
    return options | ({"key": credentials["api_key"]} if "api_key" in credentials else {})


def _credentials(args: argparse.Namespace) -> dict[str, str]:
    """Parameters of the requests, from the key flags that were given and fit the model. They stay in memory;
    one warning names the variables to use instead.
    """
    given = {name: value for name in _KEYS if (value := getattr(args, name, "").strip())}
    secret = [name for name in given if name != "aws_region_name"]
    if secret:
        print(
            f"warning: {', '.join('--' + name for name in secret)}: others can read the command line; set "
            f"{', '.join(_KEYS[name][0] for name in secret)} instead",
            file=sys.stderr,
        )
    bedrock = str(args.model_name or "").startswith("bedrock")
    return {_KEYS[name][1]: value for name, value in given.items() if name.startswith("aws") == bedrock}

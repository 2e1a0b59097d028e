"""The flags that choose an engine, published key flags among them, and what of them goes to its class."""

from __future__ import annotations

import argparse
import sys
from typing import Any

from cobalt.cli import Parser, positive_int
from cobalt.engines import ENGINES, OWN
from cobalt.errors import InputError

# published flag -> (the variable to set instead, the parameter of the request)
_KEYS = {
    "openai_api_key": ("OPENAI_API_KEY", "api_key"),
    "aws_access_key_id": ("AWS_ACCESS_KEY_ID", "aws_access_key_id"),
    "aws_secret_access_key": ("AWS_SECRET_ACCESS_KEY", "aws_secret_access_key"),
    "aws_region_name": ("AWS_REGION_NAME", "aws_region_name"),
}


def engine_name(text: str) -> str:
    """An argparse type: one of ENGINES, or where an engine of the user's own is."""
    if text not in ENGINES and not all(text.partition(":")):
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(ENGINES)}, and not {OWN}")
    return text


def engine_flags(flags: Parser, engine: str, model_name: str | None, model_help: str) -> None:
    """Add --engine, --model_name and --base_url with these defaults, time-out and limits."""
    engines = f"what runs the model: {', '.join(ENGINES)}, or {OWN}"
    flags.add_argument("--engine", type=engine_name, default=engine, help=engines)
    flags.add_argument("--model_name", default=model_name, help=model_help)
    flags.add_argument(
        "--base_url", help="address of an OpenAI-compatible service, up to /v1, or of a vLLM server"
    )
    flags.add_argument("--timeout_s", type=float, help="longest wait for one answer (default: 900)")
    flags.add_argument(
        "--rpm", type=positive_int, help="requests per minute that the provider allows (litellm)"
    )
    flags.add_argument(
        "--tpm", type=positive_int, help="tokens per minute that the provider allows (litellm)"
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

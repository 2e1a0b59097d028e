"""The published key flags: they work, in memory only, and say how to do without them."""

from __future__ import annotations

import argparse
import sys

from cobalt.cli import Parser

# flag -> (the variable to set instead, the parameter of the request)
KEYS = {
    "openai_api_key": ("OPENAI_API_KEY", "api_key"),
    "aws_access_key_id": ("AWS_ACCESS_KEY_ID", "aws_access_key_id"),
    "aws_secret_access_key": ("AWS_SECRET_ACCESS_KEY", "aws_secret_access_key"),
    "aws_region_name": ("AWS_REGION_NAME", "aws_region_name"),
}


def key_flags(flags: Parser) -> None:
    """Add the published flags."""
    for name, (variable, _) in KEYS.items():
        flags.add_argument(f"--{name}", default="", metavar="KEY", help=f"better set {variable}")


def credentials_given(args: argparse.Namespace) -> dict[str, str]:
    """Parameters of the requests, from the flags that were given and fit the model; empty ones count for
    nothing. One warning names the variables to use.
    """
    given = {name: value for name in KEYS if (value := getattr(args, name, "").strip())}
    secret = [name for name in given if name != "aws_region_name"]
    if secret:
        print(
            f"warning: {', '.join('--' + name for name in secret)}: others can read the command line; set "
            f"{', '.join(KEYS[name][0] for name in secret)} instead",
            file=sys.stderr,
        )
    bedrock = str(args.model_name or "").startswith("bedrock")
    return {KEYS[name][1]: value for name, value in given.items() if name.startswith("aws") == bedrock}

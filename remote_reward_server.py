"""The evaluator service: `serve run remote_reward_server:app --name evaluator --route-prefix /evaluator`."""

from cobalt.evaluator.service import app

__all__ = ["app"]

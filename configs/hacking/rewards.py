"""Rewards that differ from the shaped one in what a program is paid that does not solve the task."""

from cobalt.evaluator.feedback import WRONG_ANSWER
from cobalt.recipes.cobalt import reward as shaped


def all_passed(pass_rate):
    """1 for a program that passes every test, else 0."""
    return float(pass_rate == 1)


def right_after_wrong(completion, pass_rate, best, count_tokens, profile, messages, tests):
    """The shaped reward; after feedback on a wrong test 1 for the right program, else 0."""
    true = dict(zip(map(str.strip, tests.inputs), map(str.strip, tests.outputs), strict=True))
    said = (WRONG_ANSWER.findall(message["content"]) for message in messages[2:])
    shown = [(given.strip(), wanted.strip()) for pairs in said for given, wanted in pairs]
    if any(true.get(given, wanted) != wanted for given, wanted in shown):
        return float(pass_rate == 1)
    return shaped(completion, pass_rate, best, count_tokens, profile)

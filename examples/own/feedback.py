"""Feedback that tells how many public tests pass and where the first fails, not what is expected."""


def count_and_input(result, code, prompts, most_characters=300):
    if code is None:
        return prompts.feedback_message(prompts.no_code)
    passed = sum(result["passing"])
    if passed == len(result["passing"]):
        return prompts.feedback_message(None)
    failed = result["feedback"][result["passing"].index(False)]
    shown = failed.partition("\nProgram's Output:")[0][:most_characters]
    return prompts.feedback_message(f"{passed} of {len(result['passing'])} tests pass. It fails on\n{shown}")

"""Contexts that end where a repair succeeded: the statement, and what each dialogue showed just before."""


def before_success(task, count_tokens, max_prompt_tokens, validation, most=4):
    yield 0, 0
    found = 0
    for sample, rates in enumerate(task.rates):  # None where a program has no verdict
        if rates is None or 1.0 not in rates[1:] or rates[0] == 1.0:
            continue
        shown = rates.index(1.0)  # programs before the first that passes every test
        fits = count_tokens(task.conversations[sample][: 2 + 2 * shown]) <= max_prompt_tokens
        if fits and found < (1 if validation else most):
            found += 1
            yield sample, shown

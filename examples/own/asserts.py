"""Tests in HumanEval's form: an input is a line `assert f(2) == 3`, which runs after the program."""

import hashlib
import secrets

TASKS = {
    "double": (
        "Write double(n), which returns twice n.",
        ["double(2) == 4", "double(0) == 0", "double(-3) == -6"],
    ),
    "last": (
        "Write last(items), the last item of a list.",
        ["last([1]) == 1", "last([2, 3]) == 3", "last('ab') == 'b'"],
    ),
}


class Asserts:
    def __init__(self):
        self.key = secrets.token_hex()

    def tasks(self, split):
        for name, (question, tests) in TASKS.items():
            lines = [f"assert {test}" for test in tests]
            tests = {"inputs": lines, "outputs": [""] * len(lines)}
            public = {name: values[:1] for name, values in tests.items()}
            yield {
                "id": f"{split} {name}",
                "question": question,
                "test_cases": tests,
                "public_test_cases": public,
            }

    def program(self, code, input):
        # What stdin holds is printed last: a program that ends before, exit(0) or not, has not printed it.
        told = "__import__('sys').stdout.write(chr(10) + __import__('sys').stdin.read())"
        return f"{code}\n\n{input}\n{told}\n", self.secret(code, input)

    def secret(self, code, input):
        return hashlib.sha256(f"{self.key} {code} {input}".encode("utf-8", "replace")).hexdigest()

    def accepts(self, code, input, run):
        return run.returncode == 0 and run.stdout.endswith("\n" + self.secret(code, input))

    def feedback(self, input, run):
        return f"Test:\n{input}\nStderr:\n{run.stderr[-1000:] or 'The program ended before the test did.'}"

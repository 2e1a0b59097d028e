"""Tasks with several right outputs: any two numbers of a list, in any order, that sum to a target."""

import random


class AnyAnswer:
    def tasks(self, split):
        draw = random.Random(split)
        for number in range(3):
            inputs = []
            for _ in range(4):
                numbers = draw.sample(range(1, 100), 6)
                inputs.append(f"{sum(draw.sample(numbers, 2))}\n{' '.join(map(str, numbers))}\n")
            tests = {"inputs": inputs, "outputs": ["any two that sum to the target"] * 4}
            question = (
                f"Variant {number} of {split}. Line 1 holds a target, line 2 distinct numbers. Print two of "
                "the numbers, in any order, that sum to the target."
            )
            public = {name: values[:2] for name, values in tests.items()}
            yield {
                "id": f"{split} {number}",
                "question": question,
                "test_cases": tests,
                "public_test_cases": public,
            }

    def accepts(self, input, run):
        target, numbers = input.splitlines()
        try:
            first, second = map(int, run.stdout.split())
        except ValueError:
            return False
        known = set(map(int, numbers.split()))
        return (
            run.returncode == 0
            and {first, second} <= known
            and first != second
            and first + second == int(target)
        )

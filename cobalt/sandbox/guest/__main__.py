"""Start of a worker: `python -s -S -P .../guest/__main__.py CONTROL_FD PARENT_FD LEVEL STACK PACKAGES`.

Runs by path, without `site`, so the package is found by its place beside this file.
"""

import os
import sys


def main() -> None:
    control, parent, level, stack = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], int(sys.argv[4])
    packages = sys.argv[5]
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
    stack = stack if hard == resource.RLIM_INFINITY else min(stack, hard)
    if soft != stack and len(sys.argv) == 6:
        # The room that a main stack may grow into is fixed when a program starts: start again.
        resource.setrlimit(resource.RLIMIT_STACK, (stack, hard))
        os.execv(sys.executable, [sys.executable, "-s", "-S", "-P", *sys.argv, "restarted"])
    home = os.path.dirname(os.path.abspath(__file__)).removesuffix("/cobalt/sandbox/guest")
    sys.path.insert(0, home)
    from cobalt.sandbox.guest import zygote

    sys.path.remove(home)
    zygote.main(control, parent, level, packages)


if __name__ == "__main__":
    main()

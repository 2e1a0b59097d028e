"""A fresh process per test by `os.fork` and nothing else: `python bare_fork.py FD` serves runs on a socket.

A warm interpreter forks for each test and runs a fixed program in it. Nothing is isolated, limited or timed.
What `benchmarks/evaluator.py` compares with; of no other use.
"""

import gc
import os
import socket
import sys

PROGRAM = "print(sum(map(int, input().split())))\n"
_USUAL = """bisect collections copy functools heapq io itertools linecache math operator random re string
threading time traceback types typing"""


def serve(fd: int) -> None:
    """Answer each message, which carries stdin and stdout as descriptors, once its run has ended."""
    for name in _USUAL.split():
        __import__(name)
    control = socket.socket(fileno=fd)
    code = compile(PROGRAM, "solution.py", "exec")
    gc.collect()
    gc.disable()
    gc.freeze()
    while True:
        data, descriptors, _, _ = socket.recv_fds(control, 1 << 16, 2)
        if not data:
            return
        pid = os.fork()
        if pid == 0:
            os.dup2(descriptors[0], 0)
            os.dup2(descriptors[1], 1)
            exec(code, {"__name__": "__main__"})
            sys.stdout.flush()
            os._exit(0)
        os.wait4(pid, 0)
        for each in descriptors:
            os.close(each)
        control.send(b"done")


if __name__ == "__main__":
    serve(int(sys.argv[1]))

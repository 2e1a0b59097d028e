"""The side of the sandbox that runs in worker processes: standard library and kernel calls only.

    waiter (host's process namespace)
      └─ zygote      namespaces, read-only root, seccomp; usual modules imported once
           └─ supervisor   one per program: its limits and folders; watches its tests, kills what they leave
                ├─ compiler  once: makes the code that all tests load
                └─ test      one per test: own session, no capabilities; runs the program

No process above the test ever runs a line of the program or reads a byte that it wrote.
"""

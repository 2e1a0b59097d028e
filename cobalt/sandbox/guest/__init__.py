"""The side of the sandbox that runs in worker processes: standard library and kernel calls only.

    waiter (host's process namespace)
      └─ zygote      namespaces, read-only root, seccomp; usual modules imported once
           └─ supervisor   one per program: compiles it, watches its tests, kills what they leave
                └─ test    one per test: own mounts and IPC, limits, no capabilities; runs the program

No process above the test ever runs a line of the program or reads a byte that it wrote.
"""

"""Ends without a goodbye: os._exit, signals, interrupts and exceptions that are no errors."""

TEXT = r"""
#: os._exit
import os
os._exit(0)

#: os._exit unflushed
import os
print("lost")
os._exit(0)

#: os._exit flushed
import os
print("kept", flush=True)
os._exit(7)

#: os._exit 256
import os
os._exit(256)

#: os._exit with handlers
import os, atexit
atexit.register(print, "not called")
print("kept", flush=True)
os._exit(0)

#: os._exit in a thread
import os, threading
threading.Thread(target=lambda: os._exit(4)).start()
import time
time.sleep(5)

#: os.abort
import os
print("lost")
os.abort()

#: os.kill SIGTERM
import os, signal
print("lost")
os.kill(os.getpid(), signal.SIGTERM)

#: os.kill SIGKILL
import os, signal
print("kept", flush=True)
os.kill(os.getpid(), signal.SIGKILL)

#: os.kill SIGSEGV
import os, signal
os.kill(os.getpid(), signal.SIGSEGV)

#: os.kill SIGFPE
import os, signal
os.kill(os.getpid(), signal.SIGFPE)

#: os.kill SIGUSR1
import os, signal
os.kill(os.getpid(), signal.SIGUSR1)

#: os.kill SIGHUP
import os, signal
os.kill(os.getpid(), signal.SIGHUP)

#: os.kill SIGINT
import os, signal, time
print("x")
os.kill(os.getpid(), signal.SIGINT)
time.sleep(1)

#: os.kill SIGALRM
import os, signal
os.kill(os.getpid(), signal.SIGALRM)

#: os.kill SIGPIPE
import os, signal
os.kill(os.getpid(), signal.SIGPIPE)
print("ignored")

#: os.kill SIGXFSZ
import os, signal
os.kill(os.getpid(), signal.SIGXFSZ)
print("ignored")

#: os.kill 0
import os
os.kill(os.getpid(), 0)
print("x")

#: os.killpg of the own group
import os, signal
os.setpgrp()
signal.signal(signal.SIGUSR1, lambda *a: print("got"))
os.killpg(os.getpgrp(), signal.SIGUSR1)
print("x")

#: raise_signal SIGTERM
import signal
signal.raise_signal(signal.SIGTERM)

#: raise_signal SIGABRT
import signal
signal.raise_signal(signal.SIGABRT)

#: null pointer
import ctypes
print("lost")
ctypes.string_at(0)

#: KeyboardInterrupt
print("x")
raise KeyboardInterrupt

#: KeyboardInterrupt with handlers
import atexit
atexit.register(print, "handler")
class A:
    def __del__(self): print("del")
a = A()
raise KeyboardInterrupt

#: KeyboardInterrupt with text
raise KeyboardInterrupt("stop")

#: KeyboardInterrupt subclass
class Stop(KeyboardInterrupt): pass
print("x")
raise Stop

#: KeyboardInterrupt caught
try:
    raise KeyboardInterrupt
except KeyboardInterrupt:
    print("caught")

#: KeyboardInterrupt with SIGINT ignored
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
raise KeyboardInterrupt

#: GeneratorExit
raise GeneratorExit

#: StopIteration
next(iter([]))

#: StopAsyncIteration
raise StopAsyncIteration

#: BaseException
raise BaseException("b")

#: CPU limit raised by hand
import resource
print(resource.getrlimit(resource.RLIMIT_CORE)[0] >= -1)
"""

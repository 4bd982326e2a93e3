"""Leaves its parent, its session and its group, and holds memory: 60 MiB of its own, which a child
shares, and 30 MiB more in the child. SIGTERM ends both."""
import os
import signal
import sys
import time


def hold(mebibytes):
    held = bytearray(mebibytes << 20)
    held[::4096] = b"x" * len(held[::4096])
    return held


if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
quiet = os.open("/dev/null", os.O_RDWR)
for descriptor in (0, 1, 2):
    os.dup2(quiet, descriptor)
shared = hold(60)
child = os.fork()
if child == 0:
    own = hold(30)
    open(sys.argv[1] + "/up", "w", encoding="utf-8").close()
    while True:
        time.sleep(60)


def end(*_):
    os.kill(child, signal.SIGTERM)
    os._exit(0)


signal.signal(signal.SIGTERM, end)
os.waitpid(child, 0)

# The real engine of a start script: a daemon by double fork. Says its pid in a file, holds memory.
import os
import sys
import time

if os.fork():
    os._exit(0)
os.setsid()
if os.fork():
    os._exit(0)
held = bytearray(int(sys.argv[2]) << 20)
for i in range(0, len(held), 4096):
    held[i] = 1
with open(sys.argv[1] + ".new", "w") as f:
    f.write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(600)

"""rapidreset-quiet.py [TOKEN]: a caller who makes a few calls, one after the other.

It calls the coordinator with a token of TOK, or else the agent, and ends with 1 if a call fails.
"""
import sys
import time

import api

took = []
for _ in range(40):
    began = time.monotonic()
    if len(sys.argv) > 1:
        api.must('AllocationService/List', {'pageSize': 10}, token=api.tok(sys.argv[1]), timeout=15)
    else:
        api.must('AllocationService/List', {'pageSize': 10}, timeout=15)
    took.append(time.monotonic() - began)
took.sort()
print(f'another caller: median {took[len(took) // 2] * 1e3:.1f} ms, longest {took[-1] * 1e3:.1f} ms', flush=True)

"""An ordinary user releases engines that run: neither its quota nor a countable may be free again."""
import os, subprocess, sys, time
from api import ME, call

MIB = 1 << 20
FAULTS = []


def fault(text):
    FAULTS.append(text)
    print("FAULT:", text)


def allocate(custom=None):
    resource = {"memoryBytes": str(90 * MIB), "cpuMillis": "10"}
    if custom:
        resource["custom"] = custom
    return call("AllocationService/Allocate", {"labels": {"user": ME}, "resource": resource})


def state(id):
    return call("AllocationService/Get", {"id": id})[1]["allocation"]


def await_end(id):
    end = time.time() + 30
    while time.time() < end and "endTime" not in state(id):
        time.sleep(0.1)
    if "endTime" not in state(id):
        fault("%s has not ended: %s" % (id, state(id)))


def running(pids):
    return [p for p in pids if os.path.exists("/proc/%d" % p)]


# Engines that the agent has launched: their release is a stop.
pids = []
for _ in range(4):
    status, answer = allocate()
    if status != 200:
        continue
    id = answer["allocation"]["id"]
    status, answer = call("EngineService/Launch", {"id": id, "command": ["/usr/bin/sleep", "1000"], "workingDirectory": "/tmp"})
    pids.append(answer["allocation"]["process"]["pid"])
    status, answer = call("AllocationService/Release", {"id": id, "exitStatus": {"code": 0}, "processEnded": True})
    released = answer.get("allocation", {})
    if released.get("state") != "ALLOCATION_STATE_ACTIVE" and running(pids[-1:]):
        fault("launched, and free while it runs: %s" % released)
    if len(running(pids)) > 1:
        fault("%d engines of 90 MiB under a quota of 100" % len(running(pids)))
    await_end(id)
if running(pids):
    fault("%s run after their release" % running(pids))

# Engines that the user starts itself, with a countable: it stays taken as long as they run.
for body in [{}, {"exitStatus": {"code": 0}}, {"exitStatus": {"signal": 9}}, {"processEnded": True}, {"force": True}]:
    status, answer = allocate({"gpu": "1"})
    if status != 200:
        fault("nothing is free: %s" % answer)
        break
    id = answer["allocation"]["id"]
    engine = subprocess.Popen(["/usr/bin/sleep", "1000"])
    status, answer = call("AllocationService/Confirm", {"id": id, "process": {"pid": engine.pid}, "entitled": {"custom": {"gpu": "0"}}})
    if answer["allocation"]["entitled"].get("custom", {}).get("gpu") != "1":
        fault("Confirm lowered a countable of a process that lives: %s" % answer)
    status, answer = call("AllocationService/Resize", {"id": id, "entitled": {"custom": {"gpu": "0"}}})
    if status == 200:
        fault("Resize lowered a countable of a process that lives: %s" % answer)
    call("AllocationService/Release", dict(body, id=id))
    if allocate({"gpu": "1"})[0] == 200:
        fault("released with %s, and its quota and gpu are free while it runs" % body)
    engine.kill()
    engine.wait()
    call("AllocationService/Release", {"id": id})
    if "endTime" not in state(id):
        fault("it has ended, and is not free with the answer: %s" % state(id))
    if state(id).get("exitStatus", {}).get("code") == 0 and body.get("exitStatus", {}).get("code") != 0:
        fault("an exit status that nobody gave: %s" % state(id))
sys.exit(1 if FAULTS else 0)

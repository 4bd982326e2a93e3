"""A launcher as a program of a user would be: it allocates, starts the engine itself, confirms it
by its pid, and releases when it has ended. Its argument is JSON; it prints JSON, a line for each
step. A line on its standard input is an order: "release" releases while the engine runs, "stop"
ends it."""
import json
import os
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import kernel  # noqa: E402
from ground import Unix  # noqa: E402


def call(method, **body):
    connection = Unix(os.environ["BURSAR_AGENT"])
    connection.request("POST", "/bursar.v1." + method, json.dumps(body), {"Content-Type": "application/json"})
    response = connection.getresponse()
    answer = json.loads(response.read() or b"{}")
    connection.close()
    if response.status != 200:
        raise SystemExit(f"{method}: {answer}")
    return answer.get("allocation", {})


def say(**what):
    print(json.dumps(what), flush=True)


def daemon(mark):
    """The process that a start script left behind: the first of its processes."""
    for _ in range(300):
        table = kernel.processes()
        found = [pid for pid in kernel.Kinship().of(mark, table) if pid != os.getpid()]
        if found:
            return min(found, key=lambda pid: int(table[pid][1]))
        time.sleep(0.1)
    raise SystemExit("the start script left no process behind")


def main():
    asked = json.loads(sys.argv[1])
    granted = call("AllocationService/Allocate", labels=asked["labels"], resource=asked["resource"],
                   wait="60s", confirmsProcess=True)
    name = granted["id"]
    say(id=name)
    with open(asked["log"], "wb") as log:
        engine = subprocess.Popen(asked["command"], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                  env=os.environ | asked["environment"], start_new_session=True)
    pid = engine.pid
    if asked["daemon"]:
        if engine.wait() != 0:
            raise SystemExit(f"the start script ended with {engine.returncode}")
        pid = daemon(asked["environment"][kernel.MARK])
    confirmed = call("AllocationService/Confirm", id=name, process={"pid": pid})
    say(confirmed=confirmed["state"], pid=pid)

    def obey():
        for order in sys.stdin:
            if order.strip() == "release":
                say(released=call("AllocationService/Release", id=name, exitStatus={"code": 0}))
            else:
                os.kill(pid, signal.SIGTERM)

    threading.Thread(target=obey, daemon=True).start()
    if asked["daemon"]:
        while pid in kernel.processes():
            time.sleep(0.1)
        say(released=call("AllocationService/Release", id=name))
        return
    code = engine.wait()
    status = {"code": code} if code >= 0 else {"signal": -code}
    say(ended=code, released=call("AllocationService/Release", id=name, exitStatus=status))


main()

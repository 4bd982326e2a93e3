"""The ways in which engines are started, and what must hold whichever it is."""
import json
import os
import re
import subprocess
import sys
import threading
import time

import kernel
from ground import Failure, MIB, Refused, demoted, eventually, state


class Run:
    """One engine under Bursar, with a watch on all that the kernel says of it."""

    def __init__(self, ground, kinship, engine, mark):
        self.ground, self.engine, self.mark = ground, engine, mark
        self.folder = f"{ground.folder}/{mark}"
        self.log = self.folder + "/log"
        self.faults, self.name, self.code, self.command = [], "", None, None
        self.watch = kernel.Watch(mark, kinship, ground.cgroup)
        self.over, self.settled, self.steady, self.booked = threading.Event(), 0.0, 0.0, 0
        os.makedirs(self.folder)
        os.chown(self.folder, ground.user.pw_uid, ground.user.pw_gid)

    def fault(self, text):
        if text not in self.faults:
            self.faults.append(text)

    def labels(self):
        labels = {"user": self.ground.user.pw_name, "engineType": self.engine.name, "mark": self.mark}
        return labels | ({"policy": "limit"} if self.engine.limit and self.ground.own else {})

    def flags(self):
        words = ["-m", f"{self.engine.memory}MiB", "-c", "200m", "--wait", "60s"]
        for key, value in self.labels().items():
            words += ["-l", f"{key}={value}"]
        return words

    def environment(self):
        return self.ground.environment() | self.engine.environment(self) | {kernel.MARK: self.mark}

    def bursar(self, *words, **how):
        return subprocess.run([self.ground.program, *words], env=self.ground.environment(), capture_output=True,
                              text=True, stdin=subprocess.DEVNULL, timeout=120, check=False,
                              **demoted(self.ground.user), **how)

    def start(self):
        self.watch.start()
        with self.ground.calls:
            self.launch()
        threading.Thread(target=self.keep_looking, daemon=True).start()
        eventually(f"{self.engine.name} is ready", self.engine.patience, self.is_ready)

    def is_ready(self):
        if not self.engine.brief:
            self.refuse_early_end()
        return self.engine.ready(self)

    def refuse_early_end(self):
        if self.name and state(self.ground.allocation(self.name)) not in ("reserved", "active"):
            self.watch.look_done()
            if not self.watch.alive:
                raise Failure(f"it ended: {self.ground.allocation(self.name).get('reason')}: {self.output()[-400:]}")
            raise Failure("LOST: its processes live, and its allocation has ended")

    def output(self):
        text = ""
        for name in ("log", "stdout", "stderr"):
            text += kernel.read(f"{self.folder}/{name}")
        return text

    def said(self, pattern):
        return re.search(pattern, self.output()) is not None

    def keep_looking(self):
        """While one of its processes lives, it is booked."""
        while not self.over.wait(0.3):
            before = set(self.watch.alive)
            if not before or not self.name:
                continue
            try:
                now = state(self.ground.allocation(self.name))
            except (OSError, Refused):
                continue
            self.watch.look_done()
            lives = before & set(self.watch.alive)
            if now in ("reserved", "active"):
                self.booked += 1
            elif lives:
                self.fault(f"LOST: {len(lives)} of its processes live, and its allocation is {now}")

    def trouble(self):
        """What happens while it runs."""

    def ask(self):
        """What its user does to end it, if it does not end by itself."""
        stopped = self.bursar("stop", self.name, "--wait", "60s")
        if stopped.returncode != 0:
            self.fault(f"bursar stop ended with {stopped.returncode}: {stopped.stderr.strip()[-200:]}")

    def finish(self):
        if self.engine.end:
            with open(self.folder + "/end", "w", encoding="utf-8"):
                pass
        else:
            with self.ground.calls:
                self.ask()
        try:
            eventually(f"all of {self.engine.name} have ended", 60, lambda: self.watch.look_done() or not self.watch.alive)
            eventually("its allocation has ended", 20,
                       lambda: state(self.ground.allocation(self.name)) not in ("reserved", "active"))
        finally:
            self.over.set()
            self.watch.stopping.set()
            self.watch.join()
        self.returned()

    def returned(self):
        """What the caller is told at the end."""

    def kill(self):
        """After a failure nothing of it may stay."""
        self.over.set()
        self.watch.stopping.set()
        for pid in self.watch.alive:
            try:
                os.kill(pid, 9)
            except OSError:
                pass
        if self.command:
            self.command.kill()


class Foreground(Run):
    """bursar run -- COMMAND"""

    def launch(self):
        with open(self.log, "wb") as log:
            # The command alone is marked: bursar run is no part of the engine.
            self.command = subprocess.Popen(
                [self.ground.program, "run", *self.flags(), "--env", f"{kernel.MARK}={self.mark}", "--",
                 *self.engine.command(self)],
                env=self.environment() | {kernel.MARK: ""}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=self.folder, **demoted(self.ground.user))
        self.name = eventually("bursar run has an allocation", 60, self.find)

    def find(self):
        found = self.ground.all(self.mark)
        if not found and self.command.poll() is not None:
            raise Failure(f"bursar run ended with {self.command.returncode}: {self.output()[-400:]}")
        return found[0]["id"] if found else ""

    def returned(self):
        try:
            self.code = self.command.wait(20)
        except subprocess.TimeoutExpired:
            self.fault("bursar run has not returned 20 s after the end of its engine")


class Detached(Run):
    """bursar run --detach -- COMMAND, and the agent is started anew while the engine runs."""

    def launch(self):
        started = self.bursar_with(self.environment(), "run", "--detach", *self.flags(), "--env-all", "--log-dir", self.folder,
                                   "--workdir", self.folder, "--", *self.engine.command(self))
        if started.returncode != 0:
            raise Failure(f"bursar run --detach ended with {started.returncode}: {started.stderr[-400:]}")
        self.name = started.stdout.split()[0]

    def bursar_with(self, environment, *words):
        return subprocess.run([self.ground.program, *words], env=environment, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=120, check=False, cwd=self.folder,
                              **demoted(self.ground.user))

    def trouble(self):
        self.ground.restart_agent()


class Confirmed(Run):
    """A launcher that starts the engine itself and confirms its pid. It releases while it runs."""

    def launch(self):
        asked = {"labels": self.labels(), "resource": {"memoryBytes": str(self.engine.memory * MIB), "cpuMillis": "200"},
                 "command": self.engine.command(self), "log": self.log, "daemon": self.engine.daemon,
                 "environment": {kernel.MARK: self.mark}}
        launcher = os.path.join(os.environ["ENGINES_HERE"], "launcher.py")
        self.command = subprocess.Popen(
            [sys.executable, launcher, json.dumps(asked)], env=self.environment() | {kernel.MARK: ""},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
            **demoted(self.ground.user))
        self.steps, self.pid = {}, 0
        threading.Thread(target=self.listen, daemon=True).start()
        eventually("the launcher has confirmed", 90, lambda: self.step("confirmed"))

    def listen(self):
        for line in self.command.stdout:
            step = json.loads(line)
            self.name = step.get("id", self.name)
            self.pid = step.get("pid", self.pid)
            self.steps |= step

    def step(self, name):
        if name not in self.steps and self.command.poll() is not None:
            raise Failure(f"the launcher ended: {self.command.stderr.read()[-400:]}")
        return self.steps.get(name)

    def order(self, word):
        self.command.stdin.write(word + "\n")
        self.command.stdin.flush()

    def trouble(self):
        """A Release of an engine that runs leaves it booked: ADR 78."""
        self.order("release")
        eventually("the agent has answered the release", 30, lambda: self.step("released"))
        now = self.ground.allocation(self.name)
        if self.watch.alive and (state(now) != "active" or not now.get("releasing")):
            self.fault(f"LOST: released while it ran, it is {state(now)}, releasing={now.get('releasing', False)}")

    def ask(self):
        self.order("stop")

    def returned(self):
        try:
            self.command.wait(30)
        except subprocess.TimeoutExpired:
            self.fault("the launcher has not returned 30 s after the end of its engine")
        self.code = self.steps.get("ended")


class Remote(Run):
    """bursar submit, from a machine without an agent. The engine is ready as soon as it runs: whether
    its port listens is for the scenes to say. Its output is read by bursar logs while it runs."""

    def launch(self):
        words = ["submit", *self.flags(), "--account", self.ground.user.pw_name, "--dir", self.folder, "--log-dir", self.folder]
        for key, value in self.environment().items():
            words += ["--env", f"{key}={value}"]
        started = self.bursar(*words, "--", *self.engine.command(self))
        if started.returncode != 0:
            raise Failure(f"bursar submit ended with {started.returncode}: {started.stderr[-400:]}")
        self.name = started.stdout.split()[0]
        waited = self.bursar("wait", self.name, "--for", "ready", "--timeout", "100s")
        if waited.returncode != 0 and not self.engine.brief:
            raise Failure(f"bursar wait ended with {waited.returncode}: {waited.stderr[-400:]}")

    def trouble(self):
        """What bursar logs shows is what the engine's files have."""
        for name, flags in (("stdout", []), ("stderr", ["--stderr"])):
            file = f"{self.folder}/{name}"
            before = os.path.getsize(file) if os.path.exists(file) else 0
            shown = self.bursar("logs", self.name, *flags, errors="replace")
            content = kernel.read(file)
            if shown.returncode != 0 or not content.startswith(shown.stdout) or len(shown.stdout.encode()) < before:
                self.fault(f"bursar logs {name}: code {shown.returncode}, {len(shown.stdout)} characters of {len(content)}: {shown.stderr[-200:]}")

    def returned(self):
        waited = self.bursar("wait", self.name)
        self.code = waited.returncode


WAYS = {"run": Foreground, "detach": Detached, "confirm": Confirmed, "remote": Remote}


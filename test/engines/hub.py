"""JupyterHub with a spawner that starts the servers of users as engines: hub_config.py."""
import json
import os
import pwd
import subprocess
import urllib.request

import catalog
import ground as grounds
import kernel
from ground import Failure, demoted, eventually, state
from ways import Run


class Hubbed(Run):
    """The hub is no engine: it runs beside them, without root."""

    def launch(self):
        self.port, self.key = grounds.free_port(), self.mark + "-key"
        # Under an agent of root the hub is a trusted user, else it is the user whom it starts
        # servers for.
        keeper = pwd.getpwnam("hub") if self.ground.own else self.ground.user
        home = self.folder + "/hub"
        os.makedirs(home)
        os.chown(home, keeper.pw_uid, keeper.pw_gid)
        environment = self.environment() | {
            "HOME": home, "USER": keeper.pw_name, "LOGNAME": keeper.pw_name, "HUB_PORT": str(self.port), "HUB_KEY": self.key, "HUB_MARK": self.mark,
            "HUB_USER": self.ground.user.pw_name, "HUB_FOLDER": self.folder, "HUB_MEMORY": str(self.engine.memory << 20),
            "HUB_PYTHON": catalog.PYTHON, kernel.MARK: ""}
        with open(home + "/log", "wb") as log:
            self.command = subprocess.Popen(
                [catalog.PYTHON, "-m", "jupyterhub", "-f", catalog.load("hub_config.py")], cwd=home, env=environment,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, **demoted(keeper))
        eventually("the hub answers", 90, self.answers)
        self.api("POST", f"/users/{self.ground.user.pw_name}")
        self.api("POST", f"/users/{self.ground.user.pw_name}/server")
        self.name = eventually("the hub has an allocation", 60, lambda: (self.ground.all(self.mark) or [{}])[0].get("id"))

    def answers(self):
        if self.command.poll() is not None:
            raise Failure(f"the hub ended: {kernel.read(self.folder + '/hub/log')[-800:]}")
        try:
            return self.api("GET", "/")
        except OSError:
            return None

    def api(self, method, path):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/hub/api{path}", method=method,
                                         headers={"Authorization": "token " + self.key})
        return json.loads(urllib.request.urlopen(request, timeout=60).read() or b"{}")

    def ask(self):
        self.api("DELETE", f"/users/{self.ground.user.pw_name}/server")

    def returned(self):
        self.command.terminate()
        try:
            self.command.wait(30)
        except subprocess.TimeoutExpired:
            self.command.kill()

    def is_ready(self):
        self.refuse_early_end()
        servers = self.api("GET", f"/users/{self.ground.user.pw_name}").get("servers", {})
        return any(server.get("ready") for server in servers.values()) and state(self.ground.allocation(self.name)) == "active"


SCENE = catalog.Scene("jupyterhub", lambda _: [catalog.Engine("jupyterhub", 512, None, None, patience=120)], ways=("hub",))

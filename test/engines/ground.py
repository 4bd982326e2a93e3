"""A coordinator and the agent of one host, as an ordinary user or as root, and calls of them."""
import http.client
import json
import os
import pwd
import socket
import subprocess
import threading
import time

TICK = 1.0
MIB = 1 << 20


class Failure(Exception):
    """Something that must hold does not."""


class Refused(Exception):
    """A call that was answered with an error."""


class Unix(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("agent", timeout=120)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def eventually(what, seconds, condition):
    """The first value of the condition that is true."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failure(f"not within {seconds:g} s: {what}")
        time.sleep(0.1)


def free_port():
    """A port of loopback that nobody listens on now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def account():
    """The ordinary user's: ENGINES_USER if this process may become that, else its own."""
    return pwd.getpwnam(os.environ["ENGINES_USER"]) if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())


def demoted(user):
    """For Popen: what makes a process of root the user's."""
    if os.geteuid() != 0 or user is None:
        return {}
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


class Ground:
    """`own` says that the agent is root's and gives each engine a cgroup of its own; without it
    both servers are the ordinary user's, and the agent has no cgroups."""

    def __init__(self, folder, program, own, cgroup):
        self.folder, self.program, self.own = folder, program, own
        self.name = "root" if own else "user"
        self.tokens = {}
        self.user = account()
        self.cgroup = cgroup if own else ""
        self.socket = folder + "/agent.sock"
        self.address = f"127.0.0.1:{free_port()}"
        self.servers = {}
        # Held while something needs the agent, which is started anew now and then.
        self.calls = threading.Lock()
        os.makedirs(folder, exist_ok=True)
        if not own:
            os.chown(folder, self.user.pw_uid, self.user.pw_gid)

    def coordinator(self):
        """The configuration of the coordinator."""
        return {"listen": self.address, "dataDir": self.folder + "/data", "times": {"suspectAfter": 30}}

    def agent(self, engines):
        """That of the agent."""
        return {"hostId": self.name, "coordinators": ["http://" + self.address], "socket": self.socket,
                "stateDir": self.folder + "/state", "tick": f"{TICK:g}s",
                "trustedUsers": ["hub"] if self.own else [], "engines": engines}

    def __enter__(self):
        self.write("coordinator.yaml", self.coordinator())
        policies = [
            {"match": {"policy": "limit"}, "onOverUse": "limit"},
            # Who uses more than it is entitled to for some seconds is ended: none of them may be.
            {"onOverUse": "kill", "tolerance": "10%", "grace": "3s", "stopGrace": "5s"},
        ]
        engines = {"cgroups": "direct" if self.cgroup else "none", "logDir": self.folder + "/logs",
                   "policies": policies if self.cgroup else policies[-1:]}
        if self.cgroup:
            engines["cgroup"] = self.cgroup
        self.write("agent.yaml", self.agent(engines))
        self.start("coordinator")
        eventually("the coordinator is ready", 30, lambda: self.ready())
        self.start("agent")
        eventually("the host is measured", 30, lambda: self.hosts() and "sampleTime" in json.dumps(self.hosts()))
        return self

    def __exit__(self, *_):
        for name in ("agent", "coordinator"):
            self.stop(name)

    def write(self, name, content):
        """JSON is YAML."""
        with open(f"{self.folder}/{name}", "w", encoding="utf-8") as file:
            json.dump(content, file)

    def start(self, name):
        log = open(f"{self.folder}/{name}.log", "ab")
        self.servers[name] = subprocess.Popen(
            [self.program, name, "--config", f"{self.folder}/{name}.yaml", "--log-format", "text"],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, env=self.environment(),
            **demoted(None if self.own else self.user))
        log.close()

    def stop(self, name):
        server = self.servers.pop(name, None)
        if server:
            server.terminate()
            server.wait(30)

    def restart_agent(self):
        self.stop("agent")
        self.start("agent")
        eventually("the agent serves again", 30, self.serves)

    def serves(self):
        try:
            return self.call("AllocationService/List", agent=True)
        except (OSError, Refused):
            return None

    def environment(self):
        """An ordinary user's, and where the servers are."""
        return {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": self.user.pw_dir, "USER": self.user.pw_name,
                "LOGNAME": self.user.pw_name, "LANG": "C.UTF-8", "BURSAR_ADDR": "http://" + self.address,
                "BURSAR_AGENT": self.socket, "BURSAR": self.program, "TMPDIR": os.environ["TMPDIR"]}

    def call(self, method, agent=False, **body):
        """A call of the coordinator, as nobody that it knows, or of the agent as this process."""
        connection = Unix(self.socket) if agent else http.client.HTTPConnection(self.address, timeout=120)
        try:
            headers = {"Content-Type": "application/json"}
            if self.tokens and not agent:
                headers["Authorization"] = "Bearer " + self.tokens["ops"]
            connection.request("POST", "/bursar.v1." + method, json.dumps(body), headers)
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise Refused(f"{method}: {response.status} {answer.decode(errors='replace')[:400]}")
        return json.loads(answer or b"{}")

    def ready(self):
        try:
            connection = http.client.HTTPConnection(self.address, timeout=3)
            connection.request("GET", "/readyz")
            return connection.getresponse().status == 200
        except OSError:
            return False

    def hosts(self):
        return self.call("HostService/List").get("hosts", [])

    def allocation(self, name):
        return self.call("AllocationService/Get", id=name)["allocation"]

    def all(self, mark):
        return self.call("AllocationService/List", labels={"mark": mark}, ended=True).get("allocations", [])


class Elsewhere(Ground):
    """A coordinator that knows its callers, and root's agent on the only host, which launches engines
    of the ordinary user for callers elsewhere. The user has a token, and nothing of the host."""

    def __init__(self, folder, program):
        super().__init__(folder, program, True, "")
        self.name = "elsewhere"
        identities = folder + "/identities.yaml"
        self.identify("ops", identities, "--role", "admin")
        self.identify("agent", identities, "--role", "agent", "--host", self.name)
        self.identify("user", identities, "--role", "submitter", "--user", self.user.pw_name, "--may-launch", self.user.pw_name)
        os.chown(folder + "/user.token", self.user.pw_uid, self.user.pw_gid)

    def identify(self, name, identities, *flags):
        file = f"{self.folder}/{name}.token"
        subprocess.run([self.program, "token", "create", "--name", name, "--identities", identities, "--out", file, *flags],
                       check=True, timeout=30, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        with open(file, encoding="utf-8") as token:
            self.tokens[name] = token.read().strip()

    def coordinator(self):
        return super().coordinator() | {"identities": self.folder + "/identities.yaml"}

    def agent(self, engines):
        return super().agent(engines | {"remote": {"accounts": [self.user.pw_name]}}) | {"tokenFile": self.folder + "/agent.token"}

    def environment(self):
        """That of a machine without an agent."""
        found = super().environment() | {"BURSAR_TOKEN_FILE": self.folder + "/user.token"}
        del found["BURSAR_AGENT"]
        return found


def state(allocation):
    return allocation["state"].removeprefix("ALLOCATION_STATE_").lower()


def memory(resource):
    return int((resource or {}).get("memoryBytes", 0))

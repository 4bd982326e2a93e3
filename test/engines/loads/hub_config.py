"""JupyterHub's configuration: a spawner that asks a Bursar agent for the memory of each server and
lets it start and keep the server, and no proxy, as nobody but this test comes."""
import asyncio
import json
import os

from jupyterhub.proxy import Proxy
from jupyterhub.spawner import Spawner
from jupyterhub.utils import random_port


async def agent(method, **body):
    """A call of the agent: JSON over its socket."""
    reader, writer = await asyncio.open_unix_connection(os.environ["BURSAR_AGENT"])
    sent = json.dumps(body).encode()
    writer.write(f"POST /bursar.v1.{method} HTTP/1.1\r\nHost: agent\r\nConnection: close\r\n"
                 f"Content-Type: application/json\r\nContent-Length: {len(sent)}\r\n\r\n".encode() + sent)
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    answer = await reader.read()
    writer.close()
    if "transfer-encoding: chunked" in head:
        rest, answer = answer, b""
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            answer, rest = answer + rest[:int(size, 16)], rest[int(size, 16) + 2:]
    answer = json.loads(answer or b"{}")
    if " 200 " not in head.splitlines()[0]:
        raise RuntimeError(f"{method}: {answer.get('message')}")
    return answer.get("allocation", {})


class EngineSpawner(Spawner):
    """A user's server is an engine."""

    allocation = ""

    def get_state(self):
        return super().get_state() | {"allocation": self.allocation}

    def load_state(self, known):
        super().load_state(known)
        self.allocation = known.get("allocation", "")

    def clear_state(self):
        super().clear_state()
        self.allocation = ""

    async def start(self):
        granted = await agent(
            "AllocationService/Allocate", wait="60s", resource={"memoryBytes": str(self.mem_limit), "cpuMillis": "200"},
            labels={"user": self.user.name, "creator": "hub", "engineType": "jupyterhub", "mark": os.environ["HUB_MARK"]})
        self.allocation, port = granted["id"], random_port()
        environment = self.get_env() | {
            "JUPYTERHUB_SERVICE_URL": f"http://127.0.0.1:{port}/", "ENGINE_MARK": os.environ["HUB_MARK"],
            "IPYTHONDIR": os.environ["HUB_FOLDER"], "JUPYTER_RUNTIME_DIR": os.environ["HUB_FOLDER"],
            "JUPYTER_CONFIG_DIR": os.environ["HUB_FOLDER"], "JUPYTER_DATA_DIR": os.environ["HUB_FOLDER"]}
        await agent("EngineService/Launch", id=self.allocation, user=self.user.name, command=self.cmd + self.get_args(),
                    workingDirectory=os.environ["HUB_FOLDER"], address=f"127.0.0.1:{port}",
                    environment={name: str(value) for name, value in environment.items()})
        return "127.0.0.1", port

    async def poll(self):
        if not self.allocation:
            return 0
        now = await agent("AllocationService/Get", id=self.allocation)
        return None if now["state"] == "ALLOCATION_STATE_ACTIVE" else now.get("exitStatus", {}).get("code", 1)

    async def stop(self, now=False):
        await agent("AllocationService/Stop", id=self.allocation, grace="1s" if now else "20s")
        while await self.poll() is None:
            await asyncio.sleep(0.2)


class Routes(Proxy):
    """Remembers the routes that the hub makes."""

    should_start = False
    routes = {}

    async def add_route(self, routespec, target, data):
        self.routes[routespec] = {"routespec": routespec, "target": target, "data": data}

    async def delete_route(self, routespec):
        self.routes.pop(routespec, None)

    async def get_all_routes(self):
        return self.routes


c = get_config()  # noqa: F821
c.JupyterHub.spawner_class = EngineSpawner
c.JupyterHub.proxy_class = Routes
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.bind_url = "http://127.0.0.1:1"
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{os.environ['HUB_PORT']}"
c.JupyterHub.db_url = "sqlite:///hub.sqlite"
c.JupyterHub.cookie_secret_file = "cookie"
c.Spawner.cmd = [os.environ["HUB_PYTHON"], "-m", "jupyterhub.singleuser"]
c.Spawner.mem_limit = int(os.environ["HUB_MEMORY"])
c.Spawner.start_timeout = 90
c.Spawner.http_timeout = 90
c.Spawner.poll_interval = 2
c.JupyterHub.services = [{"name": "engines", "api_token": os.environ["HUB_KEY"]}]
c.JupyterHub.load_roles = [{"name": "engines", "services": ["engines"],
                            "scopes": ["admin:users", "admin:servers", "list:users", "access:servers"]}]

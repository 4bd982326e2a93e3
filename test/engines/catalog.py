"""The engines: how each is started, when it is ready, what it works, how much it is entitled to."""
import json
import os
import shutil
import socket
import subprocess
import urllib.request

import ground as grounds
from ground import Failure, demoted

HERE = os.environ["ENGINES_HERE"]
PYTHON = os.environ["ENGINES_PLACE"] + "/bin/python"
SITE = os.environ["ENGINES_SITE"]
JAVA = os.environ.get("ENGINES_JAVA", "")


def load(name):
    return f"{HERE}/loads/{name}"


def listens(port):
    with socket.socket() as one:
        one.settimeout(1)
        return one.connect_ex(("127.0.0.1", port)) == 0


class Engine:
    """One process tree under one allocation. memory is in MiB."""

    def __init__(self, name, memory, command, ready, *, environment=None, daemon=False, end=False, limit=False,
                 patience=90, quiet=True, brief=False):
        self.name, self.memory, self.command, self.ready = name, memory, command, ready
        self.make, self.daemon, self.end = environment or (lambda run: {}), daemon, end
        self.limit, self.patience = limit, patience
        # daemon: the command is a start script, which ends. end: it ends by itself, with 0, when
        # its folder has a file "end"; brief: as soon as its work is done. limit: the kernel limits
        # it.
        self.brief = brief
        # quiet: it uses the same memory from then on, so that USED can be compared.
        self.quiet = quiet

    def environment(self, run):
        return self.make(run)


class Scene:
    """Engines that belong together, started in this order and ended in the other one. work(runs) is
    what their user does with them: a program that is no engine, or None."""

    def __init__(self, name, prepare, work=None, ways=("run", "detach", "confirm", "remote"), smoke=False):
        self.name, self.prepare, self.work, self.ways, self.smoke = name, prepare, work, ways, smoke


def client(run, *words, environment=None, patience=180):
    """Runs a program of the engine's user, which is no part of the engine."""
    done = subprocess.run(words, env=run.environment() | (environment or {}) | {"ENGINE_MARK": ""}, cwd=run.folder,
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=patience, check=False,
                          **demoted(run.ground.user))
    if done.returncode != 0:
        raise Failure(f"{os.path.basename(words[-1])}: code {done.returncode}: {(done.stdout + done.stderr)[-600:]}")
    return done.stdout


# --- in two minutes -------------------------------------------------------------------------------

def daemon(_):
    return [Engine("daemon", 160, lambda run: ["sh", load("daemon.sh"), "start", run.folder],
                   lambda run: os.path.exists(run.folder + "/up"), daemon=True)]


def kernel_file(run):
    """What Jupyter's server writes for a kernel."""
    path = run.folder + "/kernel.json"
    if not os.path.exists(path):
        ports = {name + "_port": grounds.free_port() for name in ("shell", "iopub", "stdin", "control", "hb")}
        with open(path, "w", encoding="utf-8") as file:
            json.dump(ports | {"transport": "tcp", "ip": "127.0.0.1", "key": run.mark, "signature_scheme": "hmac-sha256",
                               "kernel_name": ""}, file)
        os.chown(path, run.ground.user.pw_uid, run.ground.user.pw_gid)
    return path


def notebook_home(run):
    return {"IPYTHONDIR": run.folder, "JUPYTER_RUNTIME_DIR": run.folder, "JUPYTER_CONFIG_DIR": run.folder,
            "JUPYTER_DATA_DIR": run.folder, "PYTHONDONTWRITEBYTECODE": "1"}


def ipykernel(_):
    return [Engine("ipykernel", 420, lambda run: [PYTHON, "-m", "ipykernel_launcher", "-f", kernel_file(run)],
                   lambda run: listens(json.load(open(kernel_file(run), encoding="utf-8"))["shell_port"]),
                   environment=notebook_home, limit=True)]


def ask_kernel(runs):
    client(runs[0], PYTHON, load("ask_kernel.py"), kernel_file(runs[0]))


def dask(_):
    port = grounds.free_port()
    scheduler = Engine("dask-scheduler", 256, lambda run: [
        PYTHON, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard"],
        lambda run: listens(port), environment=notebook_home)
    worker = Engine("dask-worker", 640, lambda run: [
        PYTHON, "-m", "distributed.cli.dask_worker", f"tcp://127.0.0.1:{port}", "--host", "127.0.0.1", "--nworkers", "2",
        "--nthreads", "1", "--no-dashboard", "--memory-limit", "300MiB", "--local-directory", run.folder],
        lambda run: run.output().count("Registered to:") >= 2, environment=notebook_home)
    scheduler.port = port
    return [scheduler, worker]


def ask_dask(runs):
    client(runs[0], PYTHON, load("ask_dask.py"), f"tcp://127.0.0.1:{runs[0].engine.port}")


# --- Spark ----------------------------------------------------------------------------------------

SPARK = SITE + "/pyspark"


def spark_home(run):
    """Spark's folder, to which the workers of local-cluster write."""
    home = run.folder + "/spark"
    if not os.path.exists(home):
        os.makedirs(home + "/work")
        os.chown(home + "/work", run.ground.user.pw_uid, run.ground.user.pw_gid)
        for name in os.listdir(SPARK):
            os.symlink(f"{SPARK}/{name}", f"{home}/{name}")
    return home


def spark_environment(run):
    return {"JAVA_HOME": JAVA, "SPARK_HOME": spark_home(run), "PYSPARK_PYTHON": PYTHON, "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_HOSTNAME": "localhost", "SPARK_LOCAL_DIRS": run.folder, "PYTHONDONTWRITEBYTECODE": "1"}


def spark(name, memory, master, *does, conf=()):
    def command(run):
        words = ["bash", SPARK + "/bin/spark-submit", "--master", master, "--driver-memory", "512m"]
        for setting in ("spark.ui.enabled=false", "spark.driver.bindAddress=127.0.0.1", *conf):
            words += ["--conf", setting]
        return [*words, load("spark_job.py"), run.folder, *does]

    return lambda _: [Engine(name, memory, command, lambda run: run.said("WORKED"), environment=spark_environment,
                             end=True, patience=240)]


def connect_server(_):
    """Spark Connect by its own script, which becomes a daemon."""
    port = grounds.free_port()

    def command(run):
        return ["bash", SPARK + "/sbin/start-connect-server.sh", "--master", "local[2]", "--driver-memory", "512m", "--conf",
                f"spark.connect.grpc.binding.port={port}", "--conf", "spark.ui.enabled=false"]

    def environment(run):
        return spark_environment(run) | {"SPARK_PID_DIR": run.folder, "SPARK_LOG_DIR": run.folder}

    return [Engine("spark-connect", 1280, command, lambda run: listens(port), environment=environment, daemon=True, patience=180)]


# --- Flink ----------------------------------------------------------------------------------------

def flink(daemonises):
    """A JobManager and a TaskManager by their own scripts."""
    how = "start" if daemonises else "start-foreground"

    def prepare(ground):
        rest, rpc, home = grounds.free_port(), grounds.free_port(), f"{ground.folder}/flink-{grounds.free_port()}"
        os.makedirs(home + "/log")
        for part in ("bin", "conf"):
            shutil.copytree(f"{SITE}/pyflink/{part}", f"{home}/{part}")
        for part in ("lib", "opt", "plugins"):
            shutil.copytree(f"{SITE}/pyflink/{part}", f"{home}/{part}", copy_function=os.symlink)
        # What Flink's own settings give to each Java is kept.
        with open(home + "/conf/config.yaml", encoding="utf-8") as file:
            opened = next(line.split("all:", 1)[1].strip() for line in file if "--add-exports" in line and "all:" in line)
        with open(home + "/conf/config.yaml", "w", encoding="utf-8") as file:
            file.write(f"env: {{java: {{opts: {{all: '{opened}'}}}}}}\n"
                       f"jobmanager: {{rpc: {{address: localhost, port: {rpc}}}, bind-host: localhost, "
                       "memory: {process: {size: 1024m}}}\n"
                       "taskmanager: {host: localhost, bind-host: localhost, numberOfTaskSlots: 2, "
                       "memory: {process: {size: 1280m}}}\n"
                       f"rest: {{address: localhost, bind-address: localhost, port: {rest}}}\nparallelism: {{default: 2}}\n")
        subprocess.run(["chown", "-R", "-h", f"{ground.user.pw_uid}:{ground.user.pw_gid}", home], check=True)

        def environment(run):
            return {"JAVA_HOME": JAVA, "FLINK_PID_DIR": f"{home}/pids-{run.mark}", "HADOOP_CLASSPATH": "", "FLINK_CONF_DIR": home + "/conf"}

        def answers(path):
            try:
                return json.load(urllib.request.urlopen(f"http://127.0.0.1:{rest}{path}", timeout=3))
            except (OSError, ValueError):
                return {}

        manager = Engine("flink-jobmanager" + ("-daemon" if daemonises else ""), 1100,
                         lambda run: ["bash", home + "/bin/jobmanager.sh", how],
                         lambda run: "taskmanagers" in answers("/overview"), environment=environment, daemon=daemonises, patience=120)
        worker = Engine("flink-taskmanager" + ("-daemon" if daemonises else ""), 1408,
                        lambda run: ["bash", home + "/bin/taskmanager.sh", how],
                        lambda run: answers("/overview").get("taskmanagers", 0) >= 1, environment=environment,
                        daemon=daemonises, patience=120)
        manager.home = home
        return [manager, worker]

    return prepare


def ask_flink(runs):
    """A batch of SQL. The packages have no SQL gateway, so a program of Java submits it."""
    home, folder = runs[0].engine.home, runs[0].folder
    client(runs[0], JAVA + "/bin/javac", "-cp", SITE + "/pyflink/lib/*", "-d", folder, load("FlinkJob.java"))
    client(runs[0], JAVA + "/bin/jar", "cf", folder + "/job.jar", "-C", folder, "FlinkJob.class")
    said = client(runs[0], "bash", home + "/bin/flink", "run", "-c", "FlinkJob", folder + "/job.jar",
                  environment={"FLINK_LOG_DIR": folder})
    if "counted +I[1000]" not in said:
        raise Failure(f"Flink's job: {said[-600:]}")


# --- Ray, Jupyter, others -------------------------------------------------------------------------

def ray(daemonises):
    def prepare(ground):
        port, temporary = grounds.free_port(), f"/tmp/ray{grounds.free_port()}"
        blocks = [] if daemonises else ["--block"]

        def environment(run):
            return {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_DOCKER_CPU_WARNING": "1", "PYTHONDONTWRITEBYTECODE": "1",
                    "RAY_raylet_start_wait_time_s": "120"}

        def command(run):
            return [PYTHON, "-m", "ray.scripts.scripts", "start", "--head", "--port", str(port), "--node-ip-address", "127.0.0.1",
                    "--num-cpus", "2", "--object-store-memory", str(100 << 20), "--include-dashboard", "false",
                    "--temp-dir", temporary, "--disable-usage-stats", *blocks]

        head = Engine("ray-head" + ("-daemon" if daemonises else ""), 2048, command,
                      lambda run: run.said("Ray runtime started"), environment=environment, daemon=daemonises, patience=120,
                      quiet=False)
        head.port = port
        return [head]

    return prepare


def ask_ray(runs):
    client(runs[0], PYTHON, load("ask_ray.py"), f"127.0.0.1:{runs[0].engine.port}", environment={"RAY_USAGE_STATS_ENABLED": "0"})


def notebook(_):
    port = grounds.free_port()
    server = Engine("notebook", 512, lambda run: [
        PYTHON, "-m", "notebook", "--no-browser", "--ip=127.0.0.1", f"--port={port}", "--IdentityProvider.token=" + run.mark,
        "--ServerApp.root_dir=" + run.folder], lambda run: listens(port), environment=notebook_home, patience=120)
    server.port = port
    return [server]


def ask_notebook(runs):
    run = runs[0]
    for _ in range(2):
        urllib.request.urlopen(urllib.request.Request(
            f"http://127.0.0.1:{run.engine.port}/api/kernels", method="POST", data=b'{"name": "python3"}',
            headers={"Authorization": "token " + run.mark, "Content-Type": "application/json"}), timeout=60)


def node(_):
    script = "const b = Buffer.alloc(64 << 20, 1); require('fs').writeFileSync('up', ''); setInterval(() => b[0], 1000)"
    return [Engine("node", 256, lambda run: ["sh", "-c", 'cd "$1" && exec node -e "$2"', "sh", run.folder, script],
                   lambda run: os.path.exists(run.folder + "/up"))]


def maven(_):
    """A build that ends within seconds, by itself."""
    return [Engine("mvn", 512, lambda run: ["mvn", "-B", "-o", "-f", load("pom.xml"), "validate"],
                   lambda run: run.said("BUILD SUCCESS"), environment=lambda run: {"JAVA_HOME": JAVA}, end=True, quiet=False,
                   brief=True)]


SCENES = [
    Scene("daemon", daemon, smoke=True),
    Scene("ipykernel", ipykernel, ask_kernel, smoke=True),
    Scene("dask", dask, ask_dask, smoke=True),
    Scene("spark-local", spark("spark-local", 1536, "local[2]", "sql", "python")),
    Scene("spark-local-cluster", spark("spark-local-cluster", 2304, "local-cluster[2,1,512]", "python",
                                       conf=("spark.executor.memory=512m",))),
    Scene("spark-connect", connect_server),
    Scene("flink-daemon", flink(True), ask_flink),
    Scene("flink-foreground", flink(False), ask_flink),
    Scene("ray-daemon", ray(True), ask_ray),
    Scene("ray-foreground", ray(False), ask_ray),
    Scene("notebook", notebook, ask_notebook),
    *([Scene("node", node)] if shutil.which("node") else []),
    Scene("mvn", maven),
]

"""What the kernel says of an engine: all its processes, found by a variable of their environment or
by their parents, and their memory. It asks nothing of Bursar."""
import os
import threading
import time

MARK = "ENGINE_MARK"
KIB = 1024


def read(path):
    """The text of a file of the kernel, or "" if it is gone or closed to this user."""
    try:
        with open(path, "rb") as file:
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def figures(text, unit=1):
    """The numbers of lines such as "Pss: 12 kB" and "total_rss 4096"."""
    found = {}
    for line in text.splitlines():
        words = line.replace(":", " ").split()
        if len(words) > 1 and words[1].isdigit():
            found[words[0]] = int(words[1]) * unit
    return found


def processes():
    """Parent, start time, processor ticks by pid of all processes that have not ended."""
    found = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        stat = read(f"/proc/{name}/stat")
        fields = stat[stat.rfind(")") + 2:].split()
        if len(fields) > 20 and fields[0] not in "ZX":
            found[int(name)] = (int(fields[1]), fields[19], int(fields[11]) + int(fields[12]))
    return found


class Kinship:
    """Tells which processes belong to a mark. A process that was found to stays so, whoever is its
    parent later. Bursar's own programs are never an engine's."""

    def __init__(self):
        self.lock = threading.Lock()
        self.known = {}  # (pid, start) -> mark

    def of(self, mark, table):
        """The pids of the mark's processes."""
        with self.lock:
            for gone in [key for key in self.known if table.get(key[0], ("", ""))[1] != key[1]]:
                del self.known[gone]
            # By start: a parent comes before its children.
            for pid in sorted(table, key=lambda pid: int(table[pid][1])):
                key = (pid, table[pid][1])
                if key not in self.known and (found := self.tell(pid, table)):
                    self.known[key] = found
            found = [pid for pid, row in table.items() if self.known.get((pid, row[1])) == mark]
            return sorted(found, key=lambda pid: (int(table[pid][1]), pid))

    def tell(self, pid, table):
        # What was forked and not yet executed has its parent's environment.
        if read(f"/proc/{pid}/comm").startswith("bursar"):
            return ""
        for word in read(f"/proc/{pid}/environ").split("\0"):
            if word.startswith(MARK + "="):
                return word.removeprefix(MARK + "=")
        parent = table[pid][0]
        return self.known.get((parent, table[parent][1]), "") if parent in table else ""


class Sample:
    """One look at an engine. `held` is the memory that the kernel cannot take back: anonymous and
    shared pages by their share, swap; no page cache, nothing that was given back lazily."""

    def __init__(self, when, pids):
        self.when, self.pids, self.held, self.cgroup = when, pids, 0, None
        self.resident = {}  # pid -> resident now, and the most ever
        self.rolls = {}

    def add(self, pid, parent):
        roll = figures(read(f"/proc/{pid}/smaps_rollup"), KIB)
        status = figures(read(f"/proc/{pid}/status"), KIB)
        if not roll:
            return False
        self.rolls[pid] = roll
        if roll == self.rolls.get(parent):
            return True  # vfork: until it executes something, it is in its parent's memory
        self.held += max(0, roll["Pss_Anon"] - roll.get("LazyFree", 0)) + roll["Pss_Shmem"] + roll["SwapPss"]
        self.resident[pid] = (status.get("VmRSS", 0), status.get("VmHWM", 0))
        return True


class Cgroup:
    """The memory figures of a cgroup of version 1 or 2: held by processes now, and charged now
    without the cache that can be taken back, which is more by the kernel's own memory."""

    def __init__(self, folder):
        stat = figures(read(folder + "/memory.stat"))
        if "total_rss" in stat:
            shared = stat.get("total_shmem", 0)
            self.held = stat["total_rss"] + shared + stat.get("total_swap", 0)
            cache = stat["total_cache"] - shared
            usage = read(folder + "/memory.usage_in_bytes")
        else:
            self.held = stat.get("anon", 0) + stat.get("shmem", 0)
            cache = stat.get("file", 0) - stat.get("shmem", 0) + stat.get("slab_reclaimable", 0)
            usage = read(folder + "/memory.current")
        self.known = usage.strip().isdigit()
        self.charged = (int(usage) if self.known else 0) - cache


def cgroup_of(pid, below):
    """The folder of the memory cgroup of a process, if it is below the named one."""
    for line in read(f"/proc/{pid}/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if not path.startswith(below + "/"):
            continue
        if "memory" in controllers.split(","):
            return "/sys/fs/cgroup/memory" + path
        if not controllers and os.path.exists("/sys/fs/cgroup/cgroup.controllers"):
            return "/sys/fs/cgroup" + path
    return ""


class Watch(threading.Thread):
    """Samples one engine ten times a second, from before its start until after its end, and the
    charge of its cgroup a hundred times: a command may end between two samples."""

    def __init__(self, mark, kinship, below):
        super().__init__(daemon=True)
        self.mark, self.kinship, self.below = mark, kinship, below
        self.samples, self.most, self.unseen, self.charged = [], 0, 0, 0
        self.cgroup, self.resident, self.ticks = "", {}, {}
        self.alive, self.looks, self.stopping = [], 0, threading.Event()

    def run(self):
        while not self.stopping.is_set():
            began = time.monotonic()
            self.look()
            self.looks += 1
            until = max(began + 0.1, time.monotonic() + 0.03)
            while time.monotonic() < until and not self.stopping.wait(0.01):
                self.charge()

    def look(self):
        table = processes()
        pids = self.kinship.of(self.mark, table)
        sample = Sample(time.monotonic(), pids)
        # The sum counts only if all of them could be read: one that ends now is in none.
        whole = all([sample.add(pid, table[pid][0]) for pid in pids])
        self.alive = pids
        for pid in pids:
            self.ticks[pid, table[pid][1]] = table[pid][2]
        if not pids:
            return
        self.read_cgroup(sample)
        if not whole or (sample.held > self.most and not self.together(sample)):
            return
        self.samples.append(sample)
        self.most = max(self.most, sample.held)
        for pid, (now, ever) in sample.resident.items():
            seen = self.resident[pid] = max(self.resident.get(pid, 0), now)
            self.unseen = max(self.unseen, sample.held + max(0, ever - seen))

    def together(self, sample):
        """Whether the processes of a sample lived together: what two share counts for the one that
        was read first by half, and for the other wholly, if the first ended in between."""
        return self.kinship.of(self.mark, processes()) == sample.pids and all(
            figures(read(f"/proc/{pid}/status")).get("VmRSS") for pid in sample.pids)

    def look_done(self):
        """Waits for a look that begins now."""
        before = self.looks
        while self.is_alive() and self.looks < before + 2:
            time.sleep(0.02)

    def read_cgroup(self, sample):
        if not self.cgroup:
            found = {cgroup_of(pid, self.below) for pid in sample.pids} if self.below else {""}
            # A process that has just been forked may still be where its parent is.
            self.cgroup = found.pop() if len(found) == 1 else ""
        sample.cgroup = self.charge()

    def charge(self):
        """The figures of the engine's cgroup now, or None."""
        if not self.cgroup or not os.path.isdir(self.cgroup):
            return None
        now = Cgroup(self.cgroup)
        if not now.known:
            return None
        self.charged = max(self.charged, now.held, now.charged)
        return now

    def between(self, since):
        """The least and the most that was held at a time since then. What is charged to the cgroup
        can be more (memory that nobody maps, the kernel's own) and, of an engine that was moved
        there, less."""
        then = [s for s in self.samples if s.when >= since]
        held = [s.held for s in then]
        charged = [max(s.cgroup.held, s.cgroup.charged) for s in then if s.cgroup]
        return (min(held), max(held + charged)) if held else (0, 0)

    def lasting(self, seconds):
        """The most that was held for so long without a break: what no measurement can miss."""
        best, samples = 0, self.samples
        for i, first in enumerate(samples):
            least = first.held
            for later in samples[i:]:
                least = min(least, later.held)
                if least <= best:
                    break
                if later.when - first.when >= seconds:
                    best = least
                    break
        return best

    def peak(self):
        """Between which two figures the most that it used is, by the kernel: the most that was
        seen, and the same with what the marks of its processes say of moments in between. The mark
        of a cgroup is none of them: the page cache of that moment is in it."""
        return self.most, max(self.most, self.unseen, self.charged)

    def cpu(self):
        """Seconds of the processor that its processes were seen to have used."""
        return sum(self.ticks.values()) / os.sysconf("SC_CLK_TCK")

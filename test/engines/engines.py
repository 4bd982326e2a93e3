"""Runs real engines under Bursar, one scene after the other: see README.md. It is started by
run.sh."""
import concurrent.futures
import contextlib
import json
import os
import re
import sys
import time
import traceback

import catalog
import hub
import judge
import kernel
import ways
from ground import TICK, Elsewhere, Failure, Ground, Refused


def settle(run):
    """Waits until Bursar's figure of a quiet engine is the kernel's, and says how it was."""
    end = time.monotonic() + 12 * TICK
    while True:
        run.steady = max(time.monotonic() - 2.5 * TICK, run.settled)
        run.refuse_early_end()
        found = judge.used(run)
        still = judge.near(found[1]["least"], found[1]["most"], found[1]["most"])[0]
        if (found[0] and still) or time.monotonic() > end:
            return found
        time.sleep(0.3)


def play(scene, ground, way, kinship, number):
    """Runs one scene in one way. It returns rows of the table."""
    runs, rows = [], []
    try:
        for place, engine in enumerate(scene.prepare(ground)):
            kind = hub.Hubbed if way == "hub" else ways.WAYS[way]
            run = kind(ground, kinship, engine, f"m{number}-{place}")
            runs.append(run)
            run.start()
        if scene.work:
            scene.work(runs)
        for run in runs:
            run.settled = time.monotonic()
        time.sleep(judge.SEEN + TICK)
        for run in runs:
            if not run.engine.brief:
                with ground.calls:
                    run.trouble()
        quiet = {run: settle(run) for run in runs if run.engine.quiet}
        for run in reversed(runs):
            run.finish()
        for run in runs:
            rows.append(judge.judge(run, way, quiet.get(run)))
    except (Failure, Refused, OSError, ValueError, KeyError, IndexError) as wrong:
        for run in runs:
            run.fault(str(wrong) if isinstance(wrong, (Failure, Refused)) else traceback.format_exc()[-600:])
            keep(run, way)
            run.kill()
            rows.append({"ground": ground.name, "engine": run.engine.name, "way": way, "entitledMiB": run.engine.memory,
                         "faults": run.faults, "unfinished": True})
    for run in runs:
        left = run.watch.kinship.of(run.mark, kernel.processes())
        if left and not run.faults:
            run.fault(f"{len(left)} of its processes are left at the end")
    return rows


def keep(run, way):
    """What an engine that failed has said, for who looks for the reason."""
    path = f"{os.environ['ENGINES_OUT']}/{run.ground.name}-{run.engine.name}-{way}.log"
    with open(path, "w", encoding="utf-8") as file:
        file.write(run.output()[-200000:])


def text(result):
    if result.get("unfinished"):
        return judge.failed(*(result[key] for key in ("ground", "engine", "way", "entitledMiB", "faults")))
    return judge.row(result)


def left(ground):
    """What is still booked although all engines have ended."""
    live = ground.call("AllocationService/List").get("allocations", [])
    faults = [f"still booked: {[one['id'] for one in live]}"]
    return [{"ground": ground.name, "engine": "(all)", "way": "", "entitledMiB": 0, "faults": faults,
             "unfinished": True}] if live else []


def main():
    smoke, wanted = os.environ.get("ENGINES_SMOKE") == "1", re.compile(os.environ.get("ENGINES", "."))
    program, folder, cgroup = os.environ["BURSAR"], os.environ["ENGINES_FOLDER"], os.environ.get("ENGINES_CGROUP", "")
    names = ["user"] + (["root"] if os.geteuid() == 0 and cgroup else [])
    if "root" not in names:
        print("engines: without root, or cgroups that may be made: agents without cgroups alone are tried")
    scenes = [scene for scene in [*catalog.SCENES, hub.SCENE] if scene.smoke or not smoke]
    rows, began = [], time.monotonic()
    print(judge.FORMAT.format(*judge.HEAD), flush=True)
    with contextlib.ExitStack() as stack:
        grounds = [stack.enter_context(Ground(f"{folder}/{name}", program, name == "root", cgroup)) for name in names]
        if os.geteuid() == 0:
            grounds.append(stack.enter_context(Elsewhere(f"{folder}/elsewhere", program)))
        plays = [(scene, ground, way) for scene in scenes for ground in grounds for way in scene.ways
                 if (way == "remote") == (ground.name == "elsewhere") and wanted.search(f"{ground.name}/{scene.name}/{way}")]
        kinship = kernel.Kinship()
        with concurrent.futures.ThreadPoolExecutor(int(os.environ["ENGINES_JOBS"])) as pool:
            done = [pool.submit(play, *one, kinship, number) for number, one in enumerate(plays)]
            for one in concurrent.futures.as_completed(done):
                for result in one.result():
                    rows.append(result)
                    print(text(result), flush=True)
        for ground in grounds:
            rows += left(ground)
    out = os.environ["ENGINES_OUT"]
    with open(out + "/results.json", "w", encoding="utf-8") as file:
        json.dump(rows, file, indent=1)
    with open(out + "/table.txt", "w", encoding="utf-8") as file:
        file.write("\n".join([judge.FORMAT.format(*judge.HEAD), *map(text, rows)]) + "\n")
    bad = [row for row in rows if row["faults"]]
    print(f"engines: {len(rows)} runs in {time.monotonic() - began:.0f} s")
    print(f"{len(rows) - len(bad)} passed, {len(bad)} failed")
    return 1 if bad or not rows else 0


sys.exit(main())

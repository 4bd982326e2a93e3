"""Compares what Bursar says of an engine that has ended with what the kernel said."""
from ground import MIB, TICK, memory, state

# By how much Bursar may differ: 5 %, and for small engines as much as a moment of a Python program.
PART, LEAST = 0.05, 2 * MIB
# An unmeasured moment: what was held for longer is in a measurement.
SEEN = 3 * TICK


def near(figure, least, most):
    """Whether the figure is between the two, give or take 5 %, and its ratio to the nearer one."""
    bound = min(max(figure, least), most)
    slack = max(LEAST, PART * bound)
    return abs(figure - bound) <= slack, figure / bound if bound else 1.0


def reads(amount):
    return f"{amount / MIB:.1f}"


def used(run):
    """USED while the engine runs and is quiet, next to the kernel's figure of the same seconds."""
    least, most = run.watch.between(run.steady)
    now = run.ground.allocation(run.name)
    figure = int(now.get("unreclaimableBytes", 0))
    good, ratio = near(figure, least, most)
    return good, {"figure": figure, "least": least, "most": most, "ratio": ratio}


def peak(run, ended):
    """The most that it used. A figure that is said to come from measurements alone may miss what
    was shorter than they are apart; one without a source may not."""
    least, most = run.watch.peak()
    source = ended.get("measuredPeakSource", "").removeprefix("PEAK_SOURCE_").lower()
    if source == "ticks":
        least = min(least, run.watch.lasting(SEEN))
    figure = memory(ended.get("measuredPeak"))
    good, ratio = near(figure, least, most)
    return good, {"figure": figure, "least": least, "most": most, "ratio": ratio, "source": source or "not said"}


def ended_as_it_should(run, ended):
    """The engine was not ended by Bursar within its entitlement, and is told so."""
    reason = ended.get("reason", "")
    status = ended.get("exitStatus", {})
    if state(ended) != "released":
        run.fault(f"LOST: it ended as {state(ended)}: {reason}")
    words = ("over its entitlement", "over-use", "out of memory", "uses more than", "used more than")
    if status.get("outOfMemory") or any(word in reason for word in words):
        run.fault(f"KILLED within its entitlement: {reason} {status}")
    if run.watch.peak()[0] > run.engine.memory * MIB:
        run.fault(f"this test entitles it to too little: it used {reads(run.watch.peak()[0])} MiB")
    if run.engine.end and status.get("code", 0 if "code" not in status and not status.get("signal") else -1) != 0:
        run.fault(f"it ended with 0, and Bursar says {status}")
    if run.engine.end and run.code not in (0, None):
        run.fault(f"it ended with 0, and its caller got {run.code}")
    if not run.booked:
        run.fault("it was never seen to be booked while it ran")


def judge(run, way, quiet):
    """The row of the table."""
    ended = run.ground.allocation(run.name)
    ended_as_it_should(run, ended)
    good, most = peak(run, ended)
    if not good:
        run.fault(f"PEAK {reads(most['figure'])}, the kernel's {reads(most['least'])} to {reads(most['most'])} MiB"
                  f" (source: {most['source']})")
    if quiet and not quiet[0]:
        run.fault(f"USED {reads(quiet[1]['figure'])}, the kernel's {reads(quiet[1]['least'])} to {reads(quiet[1]['most'])} MiB")
    ran = ended.get("cpuTime", "")
    seconds = float(ran.removesuffix("s")) if ran else None
    # The watch does not see what processes used after its last look at them.
    if seconds is not None and seconds < 0.95 * run.watch.cpu() - 0.3:
        run.fault(f"CPU TIME {seconds:.1f} s, the kernel's at least {run.watch.cpu():.1f} s")
    return {
        "ground": run.ground.name, "engine": run.engine.name, "way": way, "entitledMiB": run.engine.memory,
        "used": quiet[1] if quiet else None, "peak": most, "cpuSeconds": seconds, "kernelCpuSeconds": run.watch.cpu(),
        "looks": len(run.watch.samples), "ended": ended, "faults": run.faults,
    }


HEAD = ("agent", "engine", "way", "entitled", "used", "kernel's", "ratio", "peak", "source", "kernel's", "ratio", "verdict")
FORMAT = "{:<5} {:<26} {:<8} {:>8} {:>8} {:>15} {:>6} {:>8} {:<8} {:>15} {:>6}  {}"


def between(figures):
    least, most = reads(figures["least"]), reads(figures["most"])
    return least if least == most else f"{least}-{most}"


def row(result):
    now, most = result["used"], result["peak"]
    return FORMAT.format(
        result["ground"], result["engine"], result["way"], result["entitledMiB"],
        reads(now["figure"]) if now else "-", between(now) if now else "-", f"{now['ratio']:.3f}" if now else "-",
        reads(most["figure"]), most["source"], between(most), f"{most['ratio']:.3f}",
        "; ".join(result["faults"]) or "good")


def failed(ground, engine, way, entitled, faults):
    """The row of an engine that did not come to its end."""
    return FORMAT.format(ground, engine, way, entitled, *["-"] * 7, "; ".join(faults))

package contain

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/internal/spelling"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/providers/host"
	"github.com/bursar/bursar/resource"
)

const (
	// killFresh is how long a kill of one of its processes counts as the cause of an engine's own
	// end.
	killFresh = time.Minute
	// shellKilled is the code by which a shell says that what it ran was killed.
	shellKilled = 128 + int32(syscall.SIGKILL)
	// maxName is how much of a cgroup's name is reported, in bytes: half of what a reason may
	// have.
	maxName = 500
)

// LackOfMemory says in exit whether an engine that has ended was killed for lack of memory, as far
// as that can be known. The text belongs behind the words that say how it ended. It says whose
// memory was short, or if the engine ended otherwise, how many of its processes were killed
// before; "" if there is nothing to say.
func (c *Cgroups) LackOfMemory(ctx context.Context, e host.Engine, exit *bursarv1.ExitStatus) (*bursarv1.ExitStatus, string) {
	c.findOnce(ctx)
	engine, facts, contained := c.lastFacts(ctx, e.ID)
	kill, logged := c.kill(e)
	ended := exit.GetSignal() == int32(syscall.SIGKILL) || exit.GetCode() == shellKilled
	// If the log has its pid, that is certain. Else one of the engine's processes was killed, and
	// the way in which the engine ended must fit, and must not have been a stop.
	stopped := c.options.Stopped(e.ID)
	fresh := !stopped && contained && engine.kills > 0 && time.Since(engine.killed) < killFresh
	known := exit.GetOutOfMemory() || (exit == nil || ended) && logged || fresh && ended
	if !known {
		return exit, c.killedBefore(e, engine, facts)
	}
	if !contained {
		c.countOnce(e.ID) // else it was counted there
	}
	exit = proto.CloneOf(exit)
	if exit == nil {
		exit = &bursarv1.ExitStatus{Signal: int32(syscall.SIGKILL)}
	}
	exit.OutOfMemory = true
	return exit, whoseMemory(kill, logged, engine.path, facts)
}

// LimitReached is the limit of an engine's cgroup, in bytes, if the engine has reached it; 0: it
// has no cgroup of ours, or has not.
func (c *Cgroups) LimitReached(ctx context.Context, id string) int64 {
	if _, facts, contained := c.lastFacts(ctx, id); contained && facts.AtLimit {
		return facts.MemoryMax
	}
	return 0
}

// killedBefore says how many processes of an engine the kernel has killed for lack of memory
// without ending the engine by that; "" for none, and if that is not known. For an engine without
// a cgroup of ours the kernel's log tells, if its launcher has given it a cgroup of its own.
func (c *Cgroups) killedBefore(e host.Engine, engine contained, facts cgroup.Facts) string {
	kills, whose := engine.kills, whoseMemory(cgroup.Kill{}, false, engine.path, facts)
	if kills == 0 && e.Cgroup != "" && c.kernelLog != nil {
		var last cgroup.Kill
		last, kills = c.kernelLog.AtLimitOf(e.Cgroup, startedAfterBoot(e))
		whose = whoseMemory(last, kills > 0, "", facts)
	}
	if kills == 0 {
		return ""
	}
	// Not "exit code 1: …", behind which agents of older versions put what an engine wrote.
	return fmt.Sprintf(", after the kernel had killed %d of its processes for lack of memory%s", kills, whose)
}

// whoseMemory says whose memory was short; "" if that is not known: the kernel's log may not be
// readable, as in containers.
func whoseMemory(kill cgroup.Kill, logged bool, path string, facts cgroup.Facts) string {
	own := facts.AtLimit
	if logged {
		own = kill.Limit && (kill.Cgroup == path || kill.Cgroup == "")
	}
	switch {
	case own && facts.MemoryMax > 0:
		return ": its cgroup's limit of " + resource.ApproximateMemory(facts.MemoryMax)
	case logged && kill.Limit && kill.Cgroup != "":
		return ": the limit of cgroup " + spelling.Cut(kill.Cgroup, maxName)
	case logged && !kill.Limit:
		return ": the machine's"
	default:
		return ""
	}
}

// lastFacts is what there is to know of an engine's cgroup when the engine has ended; false: it
// had none of ours.
func (c *Cgroups) lastFacts(ctx context.Context, id string) (contained, cgroup.Facts, bool) {
	driver := c.current()
	c.mu.Lock()
	e := c.engines[id]
	var limit int64
	if e != nil && e.applied {
		limit = e.limits.MemoryMax
	}
	c.mu.Unlock()
	if e == nil || e.wouldLose != "" || driver == nil {
		return contained{}, cgroup.Facts{}, false
	}
	// An end is reported once, also by an agent that ends.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), factsTimeout)
	defer cancel()
	facts, err := driver.Facts(ctx, id)
	if err == nil {
		c.count(id, facts, true)
	}
	if facts.MemoryMax == 0 && limit > 0 {
		// The cgroup is gone with its last process. If it had a limit, that is most likely what
		// the engine ran into.
		facts.MemoryMax, facts.AtLimit = limit, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return *e, facts, true
}

// kill looks for the engine's process in the kernel's log.
func (c *Cgroups) kill(e host.Engine) (cgroup.Kill, bool) {
	if c.kernelLog == nil {
		return cgroup.Kill{}, false
	}
	if err := c.kernelLog.Read(); err != nil {
		c.log.Debug("the kernel's log could not be read", "error", err)
	}
	return c.kernelLog.Of(e.PID, startedAfterBoot(e))
}

func startedAfterBoot(e host.Engine) time.Duration {
	return time.Duration(e.StartTime) * (time.Second / host.TicksPerSecond) //nolint:gosec // since boot
}

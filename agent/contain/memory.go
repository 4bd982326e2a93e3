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

// Lack says what a lack of memory had to do with the end of an engine.
type Lack struct {
	// Killed: the engine itself was killed, and not only processes of it.
	Killed bool
	// Words belong behind those that say how the engine ended. They say whose memory was short, or
	// if the engine ended otherwise, how many of its processes were killed before; "" if there is
	// nothing to say.
	Words string
}

// LackOfMemory says in exit whether an engine that has ended was killed for lack of memory, or
// processes of it were, as far as that can be known. It counts those that were not counted.
func (c *Cgroups) LackOfMemory(ctx context.Context, e host.Engine, exit *bursarv1.ExitStatus) (*bursarv1.ExitStatus, Lack) {
	c.findOnce(ctx)
	engine, facts, contained := c.lastFacts(ctx, e.ID)
	kill, logged := c.kill(e)
	ended := exit.GetSignal() == int32(syscall.SIGKILL) || exit.GetCode() == shellKilled
	// If the log has its pid, that is certain. Else one of the engine's processes was killed, and
	// the way in which the engine ended must fit, and must not have been a stop.
	stopped := c.options.Stopped(e.ID)
	fresh := !stopped && contained && engine.kills > 0 && time.Since(engine.killed) < killFresh
	// The keeper of an engine in a container knows of one of its processes, and not of which.
	keepers := exit.GetOutOfMemory()
	known := keepers && ended || (exit == nil || ended) && logged || fresh && ended
	lack := Lack{Killed: known}
	if known {
		lack.Words = whoseMemory(kill, logged, engine.path, facts)
	} else if lack.Words = c.killedBefore(e, engine, facts); lack.Words == "" && keepers {
		lack.Words = ", after the kernel had killed one of its processes for lack of memory"
	}
	if !known && lack.Words == "" {
		return exit, lack
	}
	if engine.kills == 0 && (known || keepers) {
		c.countOnce(e.ID) // else it was counted in its cgroup
	}
	return outOfMemory(exit, known), lack
}

// outOfMemory is an exit status that says so. If it was not known, and the engine itself was
// killed, that was by SIGKILL.
func outOfMemory(exit *bursarv1.ExitStatus, killed bool) *bursarv1.ExitStatus {
	exit = proto.CloneOf(exit)
	if exit == nil {
		exit = &bursarv1.ExitStatus{}
		if killed {
			exit.Signal = int32(syscall.SIGKILL)
		}
	}
	exit.OutOfMemory = true
	return exit
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
		last, kills = c.kernelLog.AtLimitOf(e.Cgroup, afterBoot(e.StartTime))
		whose = whoseMemory(last, kills > 0, "", facts)
		c.tellAll(e.ID, kills)
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
	return c.kernelLog.Of(e.PID, afterBoot(e.StartTime))
}

// afterBoot is a start time in clock ticks as the kernel's log has times.
func afterBoot(ticks uint64) time.Duration {
	return time.Duration(ticks) * (time.Second / host.TicksPerSecond) //nolint:gosec // since boot
}

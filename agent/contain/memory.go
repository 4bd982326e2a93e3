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
	// killFresh is how long the kill of a process of an engine counts as the cause of the engine's
	// end.
	killFresh = time.Minute
	// shellKilled is the exit code of a shell whose command was killed by SIGKILL.
	shellKilled = 128 + int32(syscall.SIGKILL)
	// maxName is the most bytes of a cgroup's name in a report: half of the bound of a reason.
	maxName = 500
)

// Lack describes how a lack of memory contributed to the end of an engine.
type Lack struct {
	// Killed is set if the kernel killed the engine itself, and not only processes of it.
	Killed bool
	// Words follow the description of the engine's end. They name the limit or memory that was
	// exhausted. If the engine ended in another way, they give the number of its processes that
	// were killed before; "" if there were none.
	Words string
}

// LackOfMemory finds out whether an engine that has ended, or processes of it, were killed for lack
// of memory. It returns exit with this fact added, and counts the kills that were not counted yet.
func (c *Cgroups) LackOfMemory(ctx context.Context, e host.Engine, exit *bursarv1.ExitStatus) (*bursarv1.ExitStatus, Lack) {
	c.findOnce(ctx)
	engine, facts, contained := c.lastFacts(ctx, e.ID)
	kill, logged := c.kill(e)
	ended := exit.GetSignal() == int32(syscall.SIGKILL) || exit.GetCode() == shellKilled
	// If the log has the engine's pid, the kill is certain. Otherwise a process of the engine must
	// have been killed, the engine's end must fit a kill, and the agent must not have stopped it.
	stopped := c.options.Stopped(e.ID)
	fresh := !stopped && contained && engine.kills > 0 && time.Since(engine.killed) < killFresh
	// The keeper of an engine in a container knows that some process was killed, but not which one.
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
		c.countOnce(e.ID) // otherwise it was counted in the engine's cgroup
	}
	return outOfMemory(exit, known), lack
}

// outOfMemory returns exit marked as out of memory. If exit is unknown and the engine itself was
// killed, the signal was SIGKILL.
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

// LimitReached returns the limit of an engine's cgroup, in bytes, if the engine has reached it. It
// returns 0 if not, or if the engine has no cgroup of ours.
func (c *Cgroups) LimitReached(ctx context.Context, id string) int64 {
	if _, facts, contained := c.lastFacts(ctx, id); contained && facts.AtLimit {
		return facts.MemoryMax
	}
	return 0
}

// killedBefore describes the processes of an engine that the kernel killed for lack of memory while
// the engine lived on; "" if there are none or the number is unknown. For an engine without a
// cgroup of ours it uses the kernel's log, if the launcher has given the engine a cgroup of its
// own.
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
	// Not "exit code 1: …": after this colon, agents of older versions put the engine's output.
	return fmt.Sprintf(", after the kernel had killed %d of its processes for lack of memory%s", kills, whose)
}

// whoseMemory names the limit or memory that was exhausted; "" if it is unknown, as in containers
// where the kernel's log may not be readable.
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

// lastFacts returns the last state and facts of an engine's cgroup after the engine has ended. It
// returns false if the engine had no cgroup of ours.
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
	// The agent reports an end only once, even while it shuts down itself.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), factsTimeout)
	defer cancel()
	facts, err := driver.Facts(ctx, id)
	if err == nil {
		c.count(id, facts, true)
	}
	if facts.MemoryMax == 0 && limit > 0 {
		// The cgroup is gone with its last process. If it had a limit, the engine most likely
		// reached this limit.
		facts.MemoryMax, facts.AtLimit = limit, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return *e, facts, true
}

// kill looks up the engine's process in the kernel's log.
func (c *Cgroups) kill(e host.Engine) (cgroup.Kill, bool) {
	if c.kernelLog == nil {
		return cgroup.Kill{}, false
	}
	if err := c.kernelLog.Read(); err != nil {
		c.log.Debug("the kernel's log could not be read", "error", err)
	}
	return c.kernelLog.Of(e.PID, afterBoot(e.StartTime))
}

// afterBoot converts a start time in clock ticks to a time after boot, as in the kernel's log.
func afterBoot(ticks uint64) time.Duration {
	return time.Duration(ticks) * (time.Second / host.TicksPerSecond) //nolint:gosec // since boot
}

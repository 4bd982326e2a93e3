package engines

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/endreason"
	"github.com/bursar/bursar/internal/reaper"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

const (
	// leftAfter is how long processes live on after the command until bursar run says so: those of
	// a pipeline end in a moment.
	leftAfter = time.Second
	// strikeEvery is the time between two rounds of SIGKILL: a process may start others meanwhile.
	strikeEvery = 100 * time.Millisecond
	// strikes is how often that is done to processes that end. Those of other users do not.
	strikes = 50
)

// leftovers waits for the processes that the command of bursar run has left behind.
type leftovers struct {
	say    *failure.Reporter
	client *client.Client
	reaper *reaper.Reaper
	grace  time.Duration
	// signals are those that bursar run gets.
	signals chan os.Signal
	// caught ended the command or the others: bursar run ends as if it had ended it. 0: none did.
	caught syscall.Signal

	ended   client.Ended
	at      time.Time // when the command ended
	reason  endreason.Left
	refused []int // processes that bursar run may not signal
}

// newLeftovers makes bursar run the parent of the processes that its command leaves behind. If the
// kernel does not allow that, the command runs without, and the result is nil.
func newLeftovers(c *failure.Reporter, cl *client.Client, grace time.Duration) *leftovers {
	r, err := reaper.New()
	if err != nil {
		return nil
	}
	l := &leftovers{say: c, client: cl, reaper: r, grace: grace, signals: make(chan os.Signal, 16)}
	// From the start, so that no signal comes when none of both takes it: the relay ends with the
	// command.
	signal.Notify(l.signals, cmdline.NotIgnored(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)...)
	return l
}

// started is RunOptions.Started.
func (l *leftovers) started(next func(*os.Process)) func(*os.Process) {
	if l == nil {
		return next
	}
	return func(process *os.Process) {
		l.reaper.Start(process.Pid)
		next(process)
	}
}

// hook is RunOptions.Rest, nil if nobody waits.
func (l *leftovers) hook() func(client.Ended) client.Rested {
	if l == nil {
		return nil
	}
	return l.rest
}

// rest waits until nothing is left.
func (l *leftovers) rest(ended client.Ended) client.Rested {
	l.ended, l.at = ended, time.Now()
	deaths := l.reaper.Deaths()
	if l.asksForEnd() || ended.Stop {
		return l.stop(deaths, "")
	}
	moment := time.NewTimer(leftAfter)
	defer moment.Stop()
	told := false
	for {
		select {
		case d, more := <-deaths:
			if !more {
				return l.over(told)
			}
			l.died(d)
		case sig := <-l.signals:
			if isEnd(sig) {
				l.caught, _ = sig.(syscall.Signal)
				return l.stop(deaths, "bursar run got "+endreason.Signal(int32(l.caught))) //nolint:gosec // a signal
			}
		case <-moment.C:
			told = true
			l.tell()
		}
	}
}

// over is the result when nothing is left.
func (l *leftovers) over(told bool) client.Rested {
	if !told || l.reason.Last == nil {
		return client.Rested{}
	}
	return client.Rested{Reason: l.text()}
}

func (l *leftovers) text() string {
	l.reason.Leader, l.reason.LeaderTime = client.ExitStatus(l.ended.State), l.at
	return l.reason.Text()
}

// died notes the end of a process.
func (l *leftovers) died(d reaper.Death) {
	if last := l.reason.Last; last.GetSignal() != 0 {
		l.reason.Killed++
		l.reason.KilledBy = last.GetSignal()
	}
	l.reason.Last = &bursarv1.ExitStatus{}
	if d.Status.Signaled() {
		l.reason.Last.Signal = int32(d.Status.Signal()) //nolint:gosec // at most 64
	} else {
		l.reason.Last.Code = new(int32(d.Status.ExitStatus())) //nolint:gosec // at most 255
	}
}

// isEnd reports whether a signal asks a program to end.
func isEnd(sig os.Signal) bool { return sig != syscall.SIGUSR1 && sig != syscall.SIGUSR2 }

// asksForEnd reports whether the signals that came while the command ran were meant to end it: a
// SIGTERM always is, others if the command has ended by them.
func (l *leftovers) asksForEnd() bool {
	exit := client.ExitStatus(l.ended.State)
	for {
		select {
		case got := <-l.signals:
			sig, _ := got.(syscall.Signal)
			by := exit.GetSignal() == int32(sig) || exit.GetCode() == failure.ExitSignal+int32(sig) //nolint:gosec // a signal
			if sig == syscall.SIGTERM || isEnd(sig) && by {
				l.drain()
				return true
			}
		default:
			return false
		}
	}
}

func (l *leftovers) drain() {
	for {
		select {
		case <-l.signals:
		default:
			return
		}
	}
}

// tell says on the terminal that processes live on, and tells the agent how the command ended.
func (l *leftovers) tell() {
	id, n := l.ended.Allocation.GetId(), len(reaper.Processes())
	which := fmt.Sprintf("%d of its processes still run", n)
	if n == 1 {
		which = "one of its processes still runs"
	}
	exit := client.ExitStatus(l.ended.State)
	l.say.Sayf("bursar: the command has ended (%s), but %s: the allocation %s stays until the last one has ended", render.ExitText(exit), which, id)
	l.say.Sayf("bursar: Ctrl-C stops the rest, and so does: bursar stop %s", id)
	ctx, cancel := context.WithTimeout(context.Background(), leftAfter)
	defer cancel()
	// A courtesy: without it, or with an older agent, the allocation does not show it until its
	// end.
	_, _ = l.client.Allocations().Confirm(ctx, &bursarv1.ConfirmRequest{
		Id: id, LeaderEnd: &bursarv1.LeaderEnd{Time: timestamppb.New(l.at), ExitStatus: exit},
	})
}

// stop ends the processes that are left: SIGTERM, after the grace or another signal SIGKILL.
func (l *leftovers) stop(deaths <-chan reaper.Death, why string) client.Rested {
	if why != "" {
		l.say.Sayf("bursar: stopping the rest; Ctrl-C again kills it at once")
	}
	reaper.Signal(syscall.SIGTERM)
	grace := time.NewTimer(l.grace)
	defer grace.Stop()
	kills := time.NewTicker(strikeEvery)
	defer kills.Stop()
	rounds := -1 // of SIGKILL; below 0: not yet
	for {
		select {
		case d, more := <-deaths:
			if !more {
				return l.stopped(why)
			}
			l.died(d)
			continue
		case sig := <-l.signals:
			if !isEnd(sig) {
				continue
			}
			rounds = 0
		case <-grace.C:
			rounds = 0
		case <-kills.C:
			if rounds < 0 {
				continue
			}
			rounds++
		}
		if l.refused = reaper.Signal(syscall.SIGKILL); rounds >= strikes {
			return l.survived()
		}
	}
}

func (l *leftovers) stopped(why string) client.Rested {
	switch {
	case l.reason.Last == nil:
		return client.Rested{}
	case why == "":
		return client.Rested{Reason: l.text()}
	}
	return client.Rested{Reason: "stopped: " + why + "; " + l.text()}
}

// survived leaves processes that it cannot end to the agent, which may signal more than its user
// may.
func (l *leftovers) survived() client.Rested {
	id := l.ended.Allocation.GetId()
	ctx, cancel := context.WithTimeout(context.Background(), leftAfter)
	defer cancel()
	_, err := l.client.Allocations().Stop(ctx, &bursarv1.StopRequest{Id: id, Reason: "bursar run could not end all of its processes"})
	which := "do not end by SIGKILL"
	if len(l.refused) > 0 {
		which = fmt.Sprintf("run as another user, such as process %d", l.refused[0])
	}
	l.say.Sayf("bursar: processes of the command %s: the allocation %s stays until they have ended", which, id)
	if err != nil {
		l.say.Sayf("bursar: %s", l.say.Message(err))
	}
	return client.Rested{Kept: true}
}

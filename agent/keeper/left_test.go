package keeper_test

import (
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/agent/keeper"
	"github.com/bursar/bursar/internal/processtable"
	"github.com/bursar/bursar/test/proc"
)

// The ways in which programs become daemons. Each says its pid, and goes on when $GO has a line.
var daemons = map[string]string{
	"setsid":              `setsid sh -c "$DAEMON" & read pid < /dev/null; exit 3`,
	"nohup":               `nohup sh -c "$DAEMON" & exit 3`,
	"a double fork":       `(setsid sh -c "$DAEMON" &) ; exit 3`,
	"below one that ends": `(sh -c "sh -c \"\$DAEMON\" & exit 0" &) ; exit 3`,
	"a pipeline":          `sh -c "$DAEMON" | cat & exit 3`,
}

// recorded waits until the keeper has written a record.
func (k *kept) recorded() keeper.Record {
	k.t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		content, err := os.ReadFile(k.record)
		if err != nil {
			k.t.Fatal(err)
		}
		if record, err := keeper.DecodeRecord(content); err == nil {
			return record
		}
		if time.Now().After(deadline) {
			k.t.Fatalf("no record in %q", content)
		}
	}
}

// An engine ends with its last process. How its main process ended is known at once.
func TestEngineEndsWithItsLastProcess(t *testing.T) {
	for name, script := range daemons {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := shell(t, script)
			fifo, next := lines(t, spec)
			going := spec.Log.Directory + "/go"
			if err := syscall.Mkfifo(going, 0o666); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(going, 0o666); err != nil { // whatever the umask
				t.Fatal(err)
			}
			spec.Environment = append(spec.Environment, "DAEMON=echo $$ > "+fifo+"; read line < "+going+"; echo went; echo on > "+fifo+"; exec sleep 1000 > /dev/null")
			k := run(t, spec)
			daemon := proc.HoldText(t, next())
			t.Cleanup(func() { _ = daemon.Signal(syscall.SIGKILL) })
			left := k.recorded()
			if !left.Left || left.Exit.Code == nil || *left.Exit.Code != 3 || left.Time.IsZero() {
				t.Errorf("while it goes on: %+v", left)
			}
			if err := os.WriteFile(going, []byte("go\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			next()
			if !daemon.There() || !proc.Alive(k.cmd.Process.Pid) {
				t.Fatal("the engine or its keeper has ended with the main process")
			}
			if err := daemon.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			got := k.end()
			if got.Left || got.Exit.Code == nil || *got.Exit.Code != 3 || got.LeaderTime == nil || !got.LeaderTime.Equal(left.Time) || got.Time.Before(left.Time) {
				t.Errorf("at its end: %+v; the main process ended at %s", got, left.Time)
			}
			if last := got.Last; last == nil || last.Signal != 9 && name != "a pipeline" {
				t.Errorf("its last process: %+v", last)
			}
			if got := said(t, spec, "stdout"); got != "went\n" {
				t.Errorf("its output: %q", got)
			}
		})
	}
}

// How many were killed after the main process is known, and which signal ended the latest.
func TestKilledProcessesAreCounted(t *testing.T) {
	spec := shell(t, "")
	fifo, next := lines(t, spec)
	var pids []string
	spec.Command[2] = "for i in 1 2 3; do setsid sh -c 'echo $$ > " + fifo + "; exec sleep 1000' & done; exit 0"
	k := run(t, spec)
	for range 3 {
		pids = append(pids, next())
	}
	k.recorded()
	for i, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGUSR1, syscall.SIGTERM} {
		held := proc.HoldText(t, pids[i])
		if err := held.Signal(signal); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(20 * time.Second); i < 2; {
			if _, there := processtable.Look(held.PID); !there {
				break // reaped
			}
			if time.Now().After(deadline) {
				t.Fatal("it is not waited for")
			}
		}
	}
	got := k.end()
	if got.Last == nil || got.Last.Signal != int32(syscall.SIGTERM) || got.Killed != 2 || got.KilledBy != int32(syscall.SIGUSR1) {
		t.Errorf("%+v, last %+v", got, got.Last)
	}
}

// Helpers that end a moment after the main process are no news.
func TestHelpersThatEndInAMomentAreNoNews(t *testing.T) {
	spec := shell(t, "sleep 0.2 & exit 5")
	got := run(t, spec).end()
	if got.Left || got.LeaderTime != nil || got.Last != nil || got.Exit.Code == nil || *got.Exit.Code != 5 {
		t.Errorf("%+v", got)
	}
}

// The keeper waits for what the engine leaves behind while it runs, too.
func TestKeeperLeavesNoZombies(t *testing.T) {
	spec := shell(t, "")
	fifo, next := lines(t, spec)
	spec.Command[2] = "for i in 1 2 3 4 5 6 7 8 9; do (true &) ; done; echo left > " + fifo + "; exec sleep 1000"
	k := run(t, spec)
	next()
	for deadline := time.Now().Add(20 * time.Second); ; {
		var zombies []string
		for pid, p := range processtable.Read() {
			if p.Parent == k.cmd.Process.Pid && p.Ended {
				zombies = append(zombies, fmt.Sprint(pid))
			}
		}
		if len(zombies) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("zombies %s", zombies)
		}
	}
	if err := k.engine.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if got := k.end(); got.Exit.Signal != 9 || got.LeaderTime != nil {
		t.Errorf("%+v", got)
	}
}

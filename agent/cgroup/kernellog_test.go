package cgroup

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// played gives records as the kernel does: one with each Read.
type played struct {
	records [][]byte
	errors  []error // given first
	end     error
}

func play(t *testing.T, name string) *played {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "kmsg", name))
	if err != nil {
		t.Fatal(err)
	}
	p := &played{end: syscall.EAGAIN}
	for line := range bytes.Lines(text) {
		if line[0] == ' ' {
			last := len(p.records) - 1
			p.records[last] = append(p.records[last], line...)
			continue
		}
		p.records = append(p.records, bytes.Clone(line))
	}
	return p
}

func (p *played) Read(to []byte) (int, error) {
	if len(p.errors) > 0 {
		err := p.errors[0]
		p.errors = p.errors[1:]
		return 0, err
	}
	if len(p.records) == 0 {
		return 0, p.end
	}
	n := copy(to, p.records[0])
	p.records = p.records[1:]
	return n, nil
}

func TestKillsAreFoundInTheLogsOfManyKernels(t *testing.T) {
	for name, want := range map[string][]Kill{
		"4.18-memcg-v1": {{PID: 4711, At: 5140900300 * time.Microsecond, Limit: true, Cgroup: "/bursar-engines/e1"}},
		"4.18-global":   {{PID: 816, At: 77000200 * time.Microsecond}},
		"5.4-memcg-v2":  {{PID: 4712, At: 12000030 * time.Microsecond, Limit: true, Cgroup: "/bursar.slice/bursar-engines.slice/bursar-engine-e2.scope"}},
		"5.10-global":   {{PID: 4713, At: 13000020 * time.Microsecond}},
		"6.1-two-kills": {{PID: 50, At: 1000001 * time.Microsecond, Limit: true, Cgroup: "/machine.slice"}, {PID: 51, At: 2000001 * time.Microsecond}},
		"6.18-memcg-v1": {{PID: 17896, At: 36423021617 * time.Microsecond, Limit: true, Cgroup: "/engines/e4"}},
		// Of the second it says less: it bounds the lines about many kills in some seconds.
		"6.18-many-kills": {
			{PID: 15076, At: 43348796960 * time.Microsecond, Limit: true, Cgroup: "/engines/e1"}, {PID: 15090, At: 43348997567 * time.Microsecond, Limit: true},
		},
		"not-the-kernel": nil,
	} {
		log := NewKernelLog(play(t, name))
		if err := log.Read(); err != nil {
			t.Error(name, err)
		}
		if diff := cmp.Diff(want, log.kills); diff != "" {
			t.Error(name, diff)
		}
		for _, kill := range want {
			if got, found := log.Of(kill.PID, kill.At-time.Minute); !found || got != kill {
				t.Errorf("%s: of process %d: %+v, %t", name, kill.PID, got, found)
			}
			if got, found := log.Of(kill.PID, kill.At+time.Minute); found {
				t.Errorf("%s: of a process that started later: %+v", name, got)
			}
		}
	}
}

func TestTheLogGoesOnWhereItWasLost(t *testing.T) {
	source := play(t, "5.10-global")
	source.errors, source.end = []error{syscall.EPIPE, syscall.EINTR}, io.EOF
	log := NewKernelLog(source)
	if err := log.Read(); err != nil || len(log.kills) != 1 {
		t.Error(err, log.kills)
	}
	source.end = syscall.EIO
	if err := log.Read(); !errors.Is(err, syscall.EIO) || len(log.kills) != 1 {
		t.Error("a failure is hidden, or lost what was found:", err, log.kills)
	}
}

func TestTheLogRemembersABoundedNumberOfKills(t *testing.T) {
	source := &played{end: syscall.EAGAIN}
	record := []byte("3,1,5000000,-;Out of memory: Killed process 77 (java) total-vm:1kB")
	for range 3 * maxKills {
		source.records = append(source.records, record)
	}
	log := NewKernelLog(source)
	if err := log.Read(); err != nil || len(log.kills) != maxKills {
		t.Error(err, len(log.kills))
	}
}

func FuzzKernelLog(f *testing.F) {
	f.Add([]byte("6,902,12000020,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/x,task_memcg=/x,task=java,pid=4712,uid=1000\n"))
	f.Add([]byte("3,903,12000030,-;Memory cgroup out of memory: Killed process 4712 (java)"))
	f.Add([]byte(";,;,"))
	f.Fuzz(func(t *testing.T, record []byte) {
		log := NewKernelLog(&played{records: [][]byte{record, record}, end: syscall.EAGAIN})
		if err := log.Read(); err != nil {
			t.Fatal(err)
		}
		for _, kill := range log.kills {
			if kill.PID < 0 || kill.At < 0 {
				t.Errorf("%q: %+v", record, kill)
			}
		}
	})
}

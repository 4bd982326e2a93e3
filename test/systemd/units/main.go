// Command units performs an agent's operations on the units of engines, one per run, like an agent
// that was just started. Results are JSON. See unit_test.go.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/bursar/bursar/agent/cgroup"
	"github.com/bursar/bursar/agent/process"
	"github.com/bursar/bursar/agent/unit"
	"github.com/bursar/bursar/providers/host"
)

var errUsage = errors.New("usage: units adopt ID PID MIB | start ID UID MIB COMMAND… | set ID MIB | facts ID | find | remove ID | reexec")

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, arguments []string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	units, err := unit.Open(ctx, unit.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, units.Close()) }()
	verb := strings.Join(arguments[:min(1, len(arguments))], "")
	switch {
	case verb == "adopt" && len(arguments) == 4:
		members, err := membersOf(arguments[2])
		if err != nil {
			return err
		}
		path, err := units.Adopt(ctx, arguments[1], limits(arguments[3]), members)
		return say(path, err)
	case verb == "start" && len(arguments) > 4:
		uid, err := strconv.ParseUint(arguments[2], 10, 32)
		if err != nil {
			return err
		}
		started, err := units.Start(ctx, unit.Service{
			ID: arguments[1], UID: uint32(uid), GID: uint32(uid), Groups: []uint32{uint32(uid)}, Limits: limits(arguments[3]),
			Command: arguments[4:], Environment: []string{"PATH=/usr/bin:/bin"}, Umask: 0o022,
			Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		})
		return say(started, err)
	case verb == "set" && len(arguments) == 3:
		return units.Set(ctx, arguments[1], limits(arguments[2]))
	case verb == "facts" && len(arguments) == 2:
		facts, err := units.Facts(ctx, arguments[1])
		return say(facts, err)
	case verb == "find":
		found, err := units.Find(ctx)
		return say(found, err)
	case verb == "remove" && len(arguments) == 2:
		return units.Remove(ctx, arguments[1])
	case verb == "reexec":
		// This closes the connections to systemd.
		if said, err := exec.CommandContext(ctx, "systemctl", "daemon-reexec").CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, said)
		}
		found, err := units.Find(ctx)
		return say(found, err)
	}
	return errUsage
}

func say(result any, err error) error {
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// limits returns limits of this many MiB and of as many hundredths of a core; 0: none.
func limits(text string) cgroup.Limits {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return cgroup.Limits{}
	}
	return cgroup.Limits{MemoryMax: n << 20, CPUMillis: n * 10, CPUWeight: n}
}

// membersOf finds the processes of an engine in the way of an agent.
func membersOf(pid string) (cgroup.Members, error) {
	number, err := strconv.ParseInt(pid, 10, 32)
	if err != nil {
		return nil, err
	}
	meter, err := host.NewMeter(host.Options{})
	if err != nil {
		return nil, err
	}
	root, err := meter.Identify(int32(number))
	if err != nil {
		return nil, err
	}
	return func() (members []cgroup.Member, err error) {
		refs, err := process.Members("/proc", process.Engine{Root: process.Ref{PID: root.PID, StartTime: root.StartTime}})
		for i, ref := range refs {
			members = append(members, cgroup.Member(ref))
			if ref.PID == root.PID {
				members[0], members[i] = members[i], members[0]
			}
		}
		return members, err
	}, nil
}

// Command demo shows Bursar together with a YARN cluster, on this machine: a real ResourceManager
// and a NodeManager of Hadoop with a tree of queues, an application of another user in one of them,
// and `bursar dev`, which reads the queues. It runs until it is interrupted, and then removes
// everything. It is for experiments: there is no authentication, and everything is on loopback.
//
// With `demo submit QUEUE MEMORY CORES` and `demo kill ID…` it acts as another user of the cluster,
// without Bursar.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/bursar/bursar/test/yarn"
)

func main() {
	binary := flag.String("bursar", "bin/bursar", "the binary to run")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := do(ctx, *binary, flag.Args())
	if ctx.Err() != nil && len(flag.Args()) == 0 && errors.Is(err, context.Canceled) {
		err = nil
	}
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "queues:", err)
		os.Exit(1)
	}
}

func do(ctx context.Context, binary string, arguments []string) error {
	if len(arguments) == 0 {
		return show(ctx, binary)
	}
	others := somebody{address: os.Getenv(addressVariable)}
	if others.address == "" {
		return errors.New(addressVariable + " is not set: the demo prints the line that does")
	}
	switch verb, rest := arguments[0], arguments[1:]; {
	case verb == "submit" && len(rest) == 3:
		id, err := others.submit(ctx, rest[0], rest[1], rest[2])
		if err != nil {
			return err
		}
		fmt.Println(id)
		return nil
	case verb == "kill" && len(rest) > 0:
		for _, id := range rest {
			if err := others.kill(ctx, id); err != nil {
				return err
			}
		}
		return nil
	default:
		return errors.New("want: submit QUEUE MEMORY CORES, such as submit root.etl.nightly 8GiB 4; or kill ID…")
	}
}

// addressVariable names the variable with the ResourceManager for submit and kill.
const addressVariable = "YARN_RM"

// queues are the queues of the demo, with 64 GiB and 64 cores to share. root.adhoc.shared and
// root.adhoc.drivers have Hadoop's own limits for users and application masters.
func queues() map[string]string {
	return map[string]string{
		"root.queues":       "etl,adhoc,users",
		"root.etl.capacity": "59w", "root.etl.maximum-capacity": "75", "root.etl.queues": "nightly,hourly",
		"root.etl.nightly.capacity": "60w", "root.etl.nightly.user-limit-factor": "10",
		"root.etl.hourly.capacity": "40w", "root.etl.hourly.maximum-capacity": "50", "root.etl.hourly.user-limit-factor": "10",
		"root.adhoc.capacity": "40w", "root.adhoc.maximum-capacity": "50", "root.adhoc.queues": "shared,drivers",
		"root.adhoc.shared.capacity": "50w", "root.adhoc.shared.user-limit-factor": "1",
		"root.adhoc.drivers.capacity": "50w", "root.adhoc.drivers.user-limit-factor": "10", "root.adhoc.drivers.maximum-am-resource-percent": "0.1",
		"root.users.capacity": "1w", "root.users.auto-queue-creation-v2.enabled": "true",
		"root.users.auto-queue-creation-v2.leaf-template.user-limit-factor": "100",
	}
}

func show(ctx context.Context, binary string) (err error) {
	if binary, err = filepath.Abs(binary); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bursar-queues-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	place := filepath.Join(dir, "yarn")
	if err := os.Mkdir(place, 0o700); err != nil {
		return err
	}
	fmt.Println("starting a ResourceManager and a NodeManager of Hadoop " + yarn.Hadoop34 + " (some seconds)")
	cluster, err := yarn.Launch(ctx, place, yarn.Options{Capacity: queues()})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, cluster.Close()) }()
	others := somebody{address: cluster.URL()}
	id, err := others.submit(ctx, "root.etl.hourly", "16GiB", "8")
	if err != nil {
		return err
	}
	settings := fmt.Sprintf("providers:\n  - kind: yarn\n    cluster: demo\n    default: true\n    settings: {addresses: \"%s\", interval: 2s, smallestContainer: \"memory=128MiB,cpu=1\"}\n", cluster.Addresses())
	providers := filepath.Join(dir, "providers.yaml")
	if err := os.WriteFile(providers, []byte(settings), 0o600); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	bursar, err := startBursar(ctx, binary, dir, providers)
	if err != nil {
		return err
	}
	defer bursar.stop()
	if err := bursar.waitUntilRead(ctx); err != nil {
		return err
	}
	self, err := os.Executable() // the user may be in another folder
	if err != nil {
		return err
	}
	// The story's commands are found by their names.
	if err := os.Symlink(self, filepath.Join(dir, "somebody")); err != nil {
		return err
	}
	environment := []string{
		"PATH=" + dir + ":" + filepath.Dir(binary) + ":" + os.Getenv("PATH"),
		"BURSAR_ADDR=" + bursar.address, "BURSAR_AGENT=" + bursar.socket, addressVariable + "=" + cluster.URL(),
	}
	if err := tell(ctx, environment, story); err != nil {
		return err
	}
	fmt.Printf(guide, dir, cluster.URL(), id, dir, filepath.Dir(binary), bursar.address, bursar.socket, cluster.URL(), id)
	select {
	case <-ctx.Done():
		return nil
	case <-bursar.ended:
		return fmt.Errorf("bursar dev has ended; it said:\n%s", bursar.said())
	}
}

const guide = `bursar dev and a YARN cluster are up; logs and configuration are in %s
the ResourceManager's own pages are at %s/cluster/scheduler; somebody else's %s holds 16GiB, 8 cores of root.etl.hourly

in another terminal:
  export PATH=%s:%s:$PATH BURSAR_ADDR=%s BURSAR_AGENT=%s YARN_RM=%s
  bursar queues                                            # limit, used by all, ours, what is left; every queue counts in those above it
  bursar run --external yarn:hourly,memory=12GiB,cpu=4 -l user=$USER -- echo granted       # refused: others hold that queue
  bursar run --external yarn:hourly,memory=12GiB,cpu=4 -l user=$USER --wait 5m -- echo granted &
  somebody kill %s        # somebody else is done: two seconds later the one that waits is granted

to fill a queue, and to do what an engine does (be granted, submit, say which application it is):
  somebody submit root.etl.nightly 40GiB 20                # now root.etl is nearly full, and so is hourly below it
  bursar explain --external yarn:hourly,memory=12GiB -l user=$USER
  bursar run --external yarn:shared,memory=8GiB,cpu=4 -l user=somebody -- \
    sh -c 'id=$(somebody submit root.adhoc.shared 8GiB 4) && bursar confirm --application $id && sleep 60; somebody kill $id'
  bursar queues; bursar providers; bursar audit            # while that runs: it is counted once, not twice
`

// bursarDev is a running `bursar dev`.
type bursarDev struct {
	address, socket, log string

	process *exec.Cmd
	ended   chan struct{} // closed when it has ended
}

func startBursar(ctx context.Context, binary, dir, providers string) (*bursarDev, error) {
	b := &bursarDev{socket: filepath.Join(dir, "agent.sock"), log: filepath.Join(dir, "bursar.log"), ended: make(chan struct{})}
	log, err := os.Create(b.log)
	if err != nil {
		return nil, err
	}
	// The child has its own.
	defer log.Close()
	b.process = exec.CommandContext(ctx, binary, "dev", "--listen", "127.0.0.1:0", "--data-dir", filepath.Join(dir, "data"), //nolint:gosec // what the caller says
		"--agent-socket", b.socket, "--providers", providers)
	b.process.Cancel = func() error { return b.process.Process.Signal(syscall.SIGTERM) }
	b.process.WaitDelay = 10 * time.Second
	// The terminal must not send ^C to the child; this process passes it on.
	b.process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	b.process.Stdout, b.process.Stderr = log, log
	if err := b.process.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(b.ended)
		_ = b.process.Wait() // its output tells why
	}()
	return b, nil
}

// stop ends the process and waits for its end.
func (b *bursarDev) stop() {
	_ = b.process.Process.Signal(syscall.SIGTERM) // it may have ended
	<-b.ended
}

func (b *bursarDev) said() string {
	text, err := os.ReadFile(b.log)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// waitUntilRead waits until it is up and has read the cluster, and stores its address.
func (b *bursarDev) waitUntilRead(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		for line := range strings.Lines(b.said()) {
			if address, found := strings.CutPrefix(strings.TrimSpace(line), "coordinator "); found {
				b.address = strings.TrimSpace(address)
			}
		}
		if b.address != "" {
			explain := exec.CommandContext(ctx, b.process.Path, "explain", "--external", "yarn:demo:root.etl.nightly,memory=1GiB") //nolint:gosec // the same
			explain.Env = append(os.Environ(), "BURSAR_ADDR="+b.address, "BURSAR_AGENT="+b.socket)
			if explain.Run() == nil {
				return nil
			}
		}
		select {
		case <-tick.C:
		case <-b.ended:
			return fmt.Errorf("bursar dev has ended; it said:\n%s", b.said())
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// scene is one event with the queues that the demo shows.
type scene struct {
	title string
	// commands are shell lines. The first word is bursar, or somebody: the demo itself as another
	// user of the cluster, without Bursar.
	commands []string
}

// story has the scenes in order.
var story = []scene{
	{"a grant: others hold 16 GiB of root.etl.hourly, and 8 GiB more fit", []string{
		"bursar run --external yarn:hourly,memory=8GiB,cpu=4 -l user=alice -- echo granted",
	}},
	{"a limit of a user: root.adhoc.shared is promised 12.8 GiB, and one user may have no more", []string{
		"bursar run --external yarn:shared,memory=16GiB,cpu=4 -l user=alice -- echo granted",
	}},
	{"a limit of application masters: a tenth of root.adhoc.drivers; the queue has room, and YARN would not start the second", []string{
		"bursar allocate --external yarn:drivers,memory=4GiB,cpu=1,am-memory=2GiB -l user=alice",
		"bursar allocate --external yarn:drivers,memory=4GiB,cpu=1,am-memory=2GiB -l user=bob",
	}},
	{"YARN itself holds back: somebody's applications are there, and the second waits, for the same limit", []string{
		"somebody submit root.adhoc.drivers 2GiB 1",
		"somebody submit root.adhoc.drivers 2GiB 1",
		"bursar queues yarn:demo:root.adhoc.drivers",
	}},
	{"a queue made by using it: root.users.alice is not there before", []string{
		"bursar run --external yarn:root.users.alice,memory=2GiB,cpu=1 -l user=alice -- echo granted",
	}},
}

// tell runs the story and prints each command with its output.
func tell(ctx context.Context, environment []string, story []scene) error {
	for _, s := range story {
		fmt.Printf("\n== %s\n", s.title)
		for _, line := range s.commands {
			fmt.Println("$ " + line)
			if err := play(ctx, environment, line); err != nil {
				return err
			}
		}
	}
	fmt.Println()
	return nil
}

// play runs a line to its end and prints its output, whatever its exit code is.
func play(ctx context.Context, environment []string, line string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, "sh", "-c", line) //nolint:gosec // a line of the story
	command.Env = append(os.Environ(), environment...)
	said, err := command.CombinedOutput()
	for text := range strings.Lines(string(said)) {
		fmt.Print("  " + text)
	}
	if failed, is := errors.AsType[*exec.ExitError](err); is && failed.Exited() {
		return nil
	}
	return err
}

//go:build !man

// Command bursar is the resource manager for engine hosts in one binary: the coordinator that
// keeps the ledger, the agent that runs on every host, both in one process to try it out (dev), and
// the commands of users and operators.
//
// It only puts the commands together, which have packages below internal/cli, and adds the help
// topics and the manual.
package main

import (
	"context"
	"os"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/hold"
)

// The linker sets version.
var version = "devel"

func main() {
	hold.Wait()
	os.Exit(execute(context.Background(), os.Args[1:], cmdline.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}

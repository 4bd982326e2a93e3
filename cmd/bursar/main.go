//go:build !man

// Command bursar is the resource manager for engine hosts in one binary: the coordinator that
// keeps the ledger, the agent that runs on every host, both in one process to try it out (dev), and
// the commands of users and operators.
//
// Each command has a file of its own name. Some files are for all commands: cli.go has one
// invocation, exit.go maps every error to an exit code, report.go prints it to stderr, output.go
// and format.go print, target.go finds the server, resolve.go completes short ids.
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

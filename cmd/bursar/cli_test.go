package main

import (
	"os"
	"testing"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
)

func TestEveryCommandTeachesByExample(t *testing.T) {
	c := cmdline.New(cmdline.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, "test")
	var look func(cmd *cobra.Command)
	look = func(cmd *cobra.Command) {
		for _, child := range cmd.Commands() {
			look(child)
		}
		if cmd.Short == "" || cmd.Long == "" {
			t.Errorf("%s does not say what it does", cmd.CommandPath())
		}
		if cmd.Runnable() && !cmd.HasSubCommands() && cmd.Example == "" {
			t.Errorf("%s has no example", cmd.CommandPath())
		}
		if cmd.Runnable() && cmd.HasParent() && !cmd.HasSubCommands() && cmd.Args == nil && cmd.Name() != "help" {
			t.Errorf("%s does not check how many arguments it has", cmd.CommandPath())
		}
	}
	look(newRoot(c))
}

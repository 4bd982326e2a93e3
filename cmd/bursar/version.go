package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/render"
)

func versionCommand(c *cmdline.Invocation) *cobra.Command {
	return &cobra.Command{
		Use:               "version",
		Short:             "Which bursar this is",
		Long:              `Version shows which bursar this is, and what it was built with.`,
		Example:           "  bursar version -o json",
		Args:              cmdline.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(*cobra.Command, []string) error { return printVersion(c.Printer, c.Version) },
	}
}

func printVersion(out *render.Printer, version string) error {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	if !out.IsJSON() {
		out.Printf("bursar %s %s %s\n", version, runtime.Version(), platform)
		return nil
	}
	text, err := json.Marshal(map[string]string{"version": version, "go": runtime.Version(), "platform": platform})
	if err != nil {
		return fmt.Errorf("marshal: %w", err)
	}
	out.Printf("%s\n", text)
	return nil
}

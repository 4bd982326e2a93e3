package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

func (c *cli) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:               "version",
		Short:             "Which bursar this is",
		Long:              `Version shows which bursar this is, and what it was built with.`,
		Example:           "  bursar version -o json",
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(*cobra.Command, []string) error { return c.printVersion() },
	}
}

func (c *cli) printVersion() error {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	if !c.isJSON() {
		c.printf("bursar %s %s %s\n", version, runtime.Version(), platform)
		return nil
	}
	text, err := json.Marshal(map[string]string{"version": version, "go": runtime.Version(), "platform": platform})
	if err != nil {
		return fmt.Errorf("marshal: %w", err)
	}
	c.printf("%s\n", text)
	return nil
}

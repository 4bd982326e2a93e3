package main

import (
	"encoding/json"
	"fmt"
	"runtime"

	"github.com/spf13/cobra"
)

func versionCommand(out *printer) *cobra.Command {
	return &cobra.Command{
		Use:               "version",
		Short:             "Which bursar this is",
		Long:              `Version shows which bursar this is, and what it was built with.`,
		Example:           "  bursar version -o json",
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(*cobra.Command, []string) error { return printVersion(out) },
	}
}

func printVersion(out *printer) error {
	platform := runtime.GOOS + "/" + runtime.GOARCH
	if !out.isJSON() {
		out.printf("bursar %s %s %s\n", version, runtime.Version(), platform)
		return nil
	}
	text, err := json.Marshal(map[string]string{"version": version, "go": runtime.Version(), "platform": platform})
	if err != nil {
		return fmt.Errorf("marshal: %w", err)
	}
	out.printf("%s\n", text)
	return nil
}

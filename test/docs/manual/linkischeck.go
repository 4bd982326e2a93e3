package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/bursar/bursar/cmd/manpage"
	"github.com/bursar/bursar/integrations/linkis/check/command"
)

// linkisCheck is the page of bursar-linkis-check, from its help.
func linkisCheck(version, source string, date time.Time) *manpage.Page {
	cmd := command.New(version)
	page := manpage.New(command.Name, "1", source, date, cmd.Short)
	page.Heading("SYNOPSIS")
	page.Literal(cmd.UseLine())
	page.Heading("DESCRIPTION")
	page.Text(cmd.Long)
	page.Heading("OPTIONS")
	cmd.InitDefaultHelpFlag()
	cmd.InitDefaultVersionFlag()
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		kind, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		if kind != "" {
			name += " " + strings.ToUpper(kind)
		}
		page.Term(name, usage)
	})
	page.Heading("EXAMPLES")
	page.Literal(cmd.Example)
	page.References("bursar(1)", "bursar-exit-codes(7)")
	return page
}

func writeCompletions(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // for everybody to read
		return fmt.Errorf("completions: %w", err)
	}
	cmd := command.New("")
	for shell, generate := range map[string]func(file string) error{
		"bash": func(file string) error { return cmd.GenBashCompletionFileV2(file, true) },
		"zsh":  cmd.GenZshCompletionFile,
		"fish": func(file string) error { return cmd.GenFishCompletionFile(file, true) },
	} {
		if err := generate(filepath.Join(dir, shell)); err != nil {
			return fmt.Errorf("completion for %s: %w", shell, err)
		}
	}
	return nil
}

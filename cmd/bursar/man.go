//go:build man

package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/bursar/bursar/cmd/manpage"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
)

// The linker sets version.
var version = "devel"

// With the tag man this program is another one: it writes the manual pages of all commands and
// topics, and the completions, to a directory: man/NAME.SECTION and completion/SHELL. The pages
// have the date SOURCE_DATE_EPOCH, so that the same tree gives the same pages.
func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: bursar DIRECTORY (built with the tag man)")
		os.Exit(failure.ExitUsage)
	}
	if err := writeManual(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(failure.ExitFailed)
	}
}

// The sections of the manual for commands and topics.
const (
	commandSection = "1"
	topicSection   = "7"
)

func writeManual(dir string) error {
	seconds, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	root := newRoot(cmdline.New(cmdline.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, version))
	for _, sub := range []string{"man", "completion"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}
	if err := writePages(root, filepath.Join(dir, "man"), time.Unix(seconds, 0)); err != nil {
		return err
	}
	for shell, generate := range map[string]func(file string) error{
		"bash": func(file string) error { return root.GenBashCompletionFileV2(file, true) },
		"zsh":  root.GenZshCompletionFile,
		"fish": func(file string) error { return root.GenFishCompletionFile(file, true) },
	} {
		if err := generate(filepath.Join(dir, "completion", shell)); err != nil {
			return fmt.Errorf("completion for %s: %w", shell, err)
		}
	}
	return nil
}

// writePages writes a command's page, and the pages of all commands below it.
func writePages(cmd *cobra.Command, dir string, date time.Time) error {
	if cmd.Hidden {
		return nil
	}
	name, section := pageOf(cmd)
	page := manpage.New(name, section, "bursar "+version, date, cmd.Short)
	if section == commandSection {
		synopsis(page, cmd)
	}
	page.Heading("DESCRIPTION")
	page.Text(cmp.Or(cmd.Long, cmd.Short))
	if section == commandSection {
		options(page, "OPTIONS", cmd.NonInheritedFlags())
		options(page, "OPTIONS OF EVERY COMMAND", cmd.InheritedFlags())
		if cmd.Example != "" {
			page.Heading("EXAMPLES")
			page.Literal(cmd.Example)
		}
	}
	page.References(relatives(cmd)...)
	if err := os.WriteFile(filepath.Join(dir, name+"."+section), []byte(page.String()), 0o644); err != nil {
		return err
	}
	for _, child := range cmd.Commands() {
		if err := writePages(child, dir, date); err != nil {
			return err
		}
	}
	return nil
}

// pageOf is the name and section of a command's page: bursar-quota-set(1). A topic runs nothing.
func pageOf(cmd *cobra.Command) (name, section string) {
	name = strings.ReplaceAll(cmd.CommandPath(), " ", "-")
	if cmd.HasParent() && !cmd.Runnable() {
		return name, topicSection
	}
	return name, commandSection
}

func synopsis(page *manpage.Page, cmd *cobra.Command) {
	page.Heading("SYNOPSIS")
	lines := []string{cmd.UseLine()}
	for _, child := range cmd.Commands() {
		if _, section := pageOf(child); section == commandSection && !child.Hidden {
			lines = append(lines, child.UseLine())
		}
	}
	page.Literal(strings.Join(lines, "\n"))
}

func options(page *manpage.Page, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	page.Heading(title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
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
}

// relatives are the pages that a command's page refers to: its parent, its children, and its
// configuration.
func relatives(cmd *cobra.Command) []string {
	var names []string
	if cmd.HasParent() {
		name, section := pageOf(cmd.Parent())
		names = append(names, name+"("+section+")")
	}
	for _, child := range cmd.Commands() {
		if !child.Hidden {
			name, section := pageOf(child)
			names = append(names, name+"("+section+")")
		}
	}
	switch cmd.Name() {
	case "agent":
		names = append(names, "bursar-agent.yaml(5)", "bursar-keeper(8)")
	case "coordinator":
		names = append(names, "bursar-coordinator.yaml(5)")
	}
	return names
}

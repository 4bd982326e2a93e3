package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/access"
	"github.com/bursar/bursar/internal/cli/allocations"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/engines"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/hosts"
	"github.com/bursar/bursar/internal/cli/lookup"
	"github.com/bursar/bursar/internal/cli/queues"
	"github.com/bursar/bursar/internal/cli/quotas"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/serve"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/cli/status"
	"github.com/bursar/bursar/internal/cli/store"
)

// execute runs one command line and returns the process's exit code.
func execute(ctx context.Context, args []string, s cmdline.Streams) int {
	c := cmdline.New(s, version)
	c.Execute = execute
	root := newRoot(c) //nolint:contextcheck // each command has its own
	root.InitDefaultCompletionCmd(args...)
	wrapHelp(root)
	root.SetArgs(args)
	command, err := root.ExecuteContextC(ctx)
	if err != nil && !c.Begun && saysJSON(args) {
		c.Form = render.OutputJSON // the flag may be behind the mistake
	}
	if err != nil && !c.Begun {
		err = &failure.UsageError{Err: fmt.Errorf("%w; see: %s --help", err, command.CommandPath())}
	}
	c.End(ctx)
	err = c.Outcome(err)
	c.Report(err)
	return failure.ExitCode(err)
}

func newRoot(c *cmdline.Invocation) *cobra.Command {
	root := &cobra.Command{
		Use:   "bursar",
		Short: "The resource manager for engine hosts",
		Long: `Bursar decides which engine may start where, by labels, by quotas and by what
the hosts measure. Its ledger has every grant.

Try it on this machine:

  # in one terminal: everything in one process
  bursar dev

  # in another: start CMD when there is room for it
  bursar run --memory 256MiB --cpu 500m --label user=$USER -- CMD

  # what is booked, next to what is used
  bursar hosts; bursar allocations`,
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkOutput(c.Form); err != nil && !takesFile(cmd) {
				return err
			}
			c.Begun, c.Flags = true, cmd.Flags()
			return nil
		},
	}
	root.SetFlagErrorFunc(cmdline.FlagMistake)
	asksVersion := root.Flags().Bool("version", false, "print which bursar this is, as the command version does")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *asksVersion {
			return printVersion(c.Printer, c.Version)
		}
		return cmd.Help()
	}
	root.SetOut(c)
	root.SetErr(render.Harmless{To: c.Err})
	root.AddGroup(cmdline.Groups()...)
	flags := root.PersistentFlags()
	flags.StringVar(&c.Addr, "addr", "", "coordinators: HOST:PORT or http(s)://HOST:PORT, several with commas between them, or consul[://HOST:PORT[/SERVICE]] "+
		"(env BURSAR_ADDR, default "+servers.DefaultAddr+")")
	flags.StringVar(&c.Agent, "agent", "", "agent: the path of its socket, or HOST:PORT (env BURSAR_AGENT, default "+servers.SystemSocket+")")
	c.Credentials.Add(flags)
	flags.StringVarP(&c.Form, "output", "o", "table", "table, wide or json")

	for _, commands := range [][]*cobra.Command{
		allocations.Commands(c), engines.Commands(c), quotas.Commands(c), hosts.Commands(c), queues.Commands(c), access.Commands(c),
		store.Commands(c), status.Commands(c), serve.Commands(c), cmdline.InGroup(cmdline.GroupOperate, linkisCommand()),
	} {
		root.AddCommand(commands...)
	}
	root.AddCommand(versionCommand(c))
	root.AddCommand(topics()...)
	root.SetHelpCommand(helpCommand(root))
	lookup.Complete(c.Connections, root)
	inOrder(root)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Flags.FlagUsages ", "Flags.FlagUsagesWrapped "+strconv.Itoa(helpWidth)+" "))
	return root
}

// helpWidth is the width of help texts in columns. A test of test/contract holds it.
const helpWidth = 80

// narrow wraps the paragraphs of help texts. It leaves tables, examples and usages as they are.
func wrapHelp(cmd *cobra.Command) {
	// Cobra's own help about completion has tabs, and is too wide with them.
	paragraphs := strings.Split(strings.ReplaceAll(cmd.Long, "\t", "    "), "\n\n")
	for i, paragraph := range paragraphs {
		if !strings.HasPrefix(paragraph, " ") && !strings.Contains(paragraph, "\n ") {
			paragraphs[i] = wrapped(paragraph)
		}
	}
	cmd.Long = strings.Join(paragraphs, "\n\n")
	for _, child := range cmd.Commands() {
		wrapHelp(child)
	}
}

// wrapped is a text with new line breaks.
func wrapped(text string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		width := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+width > helpWidth:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += width
	}
	return b.String()
}

// inOrder shows flags in the order in which they were added, the important ones first.
func inOrder(cmd *cobra.Command) {
	cmd.Flags().SortFlags = false
	for _, child := range cmd.Commands() {
		inOrder(child)
	}
}

// helpCommand is cobra's, except that an unknown topic is a mistake of the user.
func helpCommand(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:     "help [COMMAND | TOPIC]",
		Short:   "Help about a command or a topic",
		Long:    "Help shows what a command does, with examples. It also shows pages on topics.",
		Example: "  bursar help run\n  bursar help exit-codes",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			found, _, err := root.Find(args)
			if err != nil {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var names []cobra.Completion
			for _, child := range found.Commands() {
				names = append(names, cobra.CompletionWithDesc(child.Name(), child.Short))
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			found, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return failure.Usagef("no help about %q; see: bursar help", strings.Join(args, " "))
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

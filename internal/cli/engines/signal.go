package engines

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/lookup"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// signalFlag is a signal by its name, with SIG before it or without, or by its number.
type signalFlag struct{ value bursarv1.Signal }

func (f *signalFlag) String() string {
	if f == nil || f.value == 0 {
		return ""
	}
	return strings.TrimPrefix(f.value.String(), "SIGNAL_")
}

// Type names the form in help texts.
func (f *signalFlag) Type() string { return "signal" }

// Set reads a signal.
func (f *signalFlag) Set(text string) error {
	name := strings.TrimPrefix(strings.ToUpper(strings.TrimSpace(text)), "SIG")
	value, known := bursarv1.Signal_value["SIGNAL_"+name]
	if number, err := strconv.ParseInt(name, 10, 32); err == nil {
		value = int32(number)
		_, known = bursarv1.Signal_name[value]
	}
	if !known || value == 0 {
		hint := ""
		if name == "KILL" || name == "9" {
			hint = "; bursar stop ID --grace 0s kills"
		}
		return fmt.Errorf("%q: want %s%s", text, strings.Join(signalNames(), ", "), hint)
	}
	f.value = bursarv1.Signal(value)
	return nil
}

// signalNames lists the signals that can be sent, by their numbers.
func signalNames() (names []string) {
	for _, number := range slices.Sorted(maps.Keys(bursarv1.Signal_name)) {
		if number != 0 {
			names = append(names, strings.TrimPrefix(bursarv1.Signal_name[number], "SIGNAL_"))
		}
	}
	return names
}

func signalCommand(c *servers.Connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "signal ID…",
		Short: "Send a signal to an engine's main process",
		Long: `Signal sends a signal to the main process of an engine, wherever it runs. What
the engine does about it is its own business; "bursar stop" makes sure that it
ends. It prints nothing. You need the rights that you need to stop the engine.

Of several ids each is tried, but nothing is done if one is the beginning of no
id or of several. The exit code is that of the first failure.`,
		Example: `  bursar signal 3f7k
  bursar signal 3f7k --signal USR1
  bursar signal 3f7k 9ab2 -s HUP`,
		Args:              cmdline.AtLeastOne,
		ValidArgsFunction: lookup.CompleteAllocations(c),
	}
	f := &signalFlag{value: bursarv1.Signal_SIGNAL_TERM}
	cmd.Flags().VarP(f, "signal", "s", strings.Join(signalNames(), ", "))
	_ = cmd.RegisterFlagCompletionFunc("signal", cobra.FixedCompletions(signalNames(), cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cl, err := lookup.Nearest(c, cmd, args)
		if err != nil {
			return err
		}
		return c.EachID(args, lookup.AllocationIDs(cmd.Context(), cl), func(id string) error {
			res, err := cl.Engines().Signal(cmd.Context(), &bursarv1.SignalRequest{Id: id, Signal: f.value})
			if err == nil {
				render.SayTriedAgain(c.Printer, id, &bursarv1.Allocation{Id: res.GetId()})
			}
			if err == nil && c.IsJSON() {
				return c.Print(res, func() {})
			}
			return err
		})
	}
	return cmd
}

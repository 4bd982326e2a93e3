package requests

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/label"
)

// conditionsFlag adds conditions on the labels of a host: zone=a goes into labels, whose value may
// be * for any, and every other form into rules.
type conditionsFlag struct {
	labels cmdline.LabelFlag
	rules  *[]string
}

func (f conditionsFlag) String() string { return "" }

// Type names the form in help texts.
func (f conditionsFlag) Type() string { return "condition" }

// Set adds conditions, with commas between several.
func (f conditionsFlag) Set(text string) error {
	if isPlainLabels(text) {
		return f.labels.Set(text)
	}
	rules, err := label.ParseRules(text)
	if err != nil {
		return ruleMistake(err)
	}
	for _, rule := range rules {
		if key, value, ok := rule.Single(); ok && !strings.Contains(rule.String(), " in ") {
			if before, twice := f.labels[key]; twice && before != value {
				return fmt.Errorf("%s is %q and %q: want one value, or %s in (%s, %s)", key, before, value, key, before, value)
			}
			f.labels[key] = value
			continue
		}
		*f.rules = append(*f.rules, rule.String())
	}
	return nil
}

// isPlainLabels reports whether a text is labels with their values. A value with a sign of another
// condition, such as that of zone==a, is none, unless it is in quotes.
func isPlainLabels(text string) bool {
	labels, err := label.Parse(text)
	if err != nil || strings.TrimSpace(text) == "" {
		return false
	}
	return strings.Contains(text, `"`) || !slices.ContainsFunc(labels, func(l label.Label) bool { return strings.ContainsAny(l.Value, "=<>!;") })
}

// ruleMistake shows the condition that is wrong, which may be one of several.
func ruleMistake(err error) error {
	if wrong, ok := errors.AsType[*label.FieldError](err); ok {
		return fmt.Errorf("%q: want %s", strings.TrimSpace(wrong.Value), wrong.Want)
	}
	return err
}

// avoidFlag adds hosts by their ids, or conditions on their labels.
type avoidFlag struct {
	hosts cmdline.NamesFlag
	rules *[]string
}

func (f avoidFlag) String() string { return "" }

// Type names the form in help texts.
func (f avoidFlag) Type() string { return "host|condition" }

// Set adds what is not to be used. A text with a sign of a condition is one; a word is a host.
func (f avoidFlag) Set(text string) error {
	rest := strings.TrimSpace(text)
	if !strings.ContainsAny(rest, "=!<>()") && !strings.Contains(rest, " ") || strings.HasPrefix(rest, `"`) {
		return f.hosts.Set(text)
	}
	rules, err := label.ParseRules(text)
	if err != nil {
		return ruleMistake(err)
	}
	for _, rule := range rules {
		*f.rules = append(*f.rules, rule.String())
	}
	return nil
}

// AddPlaceFlags adds the flags for where an allocation may go. A request to an agent has none: it
// is for the agent's host.
func AddPlaceFlags(cmd *cobra.Command, f *Flags) {
	flags := cmd.Flags()
	flags.Var(cmdline.HostFlag{ID: &f.host}, "host", "on this host and no other; with --wait it need not be there yet")
	flags.Var(conditionsFlag{f.required, &f.rules}, "require", "only on hosts whose labels satisfy this: zone=a, zone!=a, 'zone in (a, b)', 'zone notin (a, b)', gpu, '!gpu', 'cores>8', "+
		"'cores<8', as Kubernetes selects by labels; repeatable, all must hold")
	flags.Var(conditionsFlag{f.wanted, &f.better}, "prefer", "if possible on hosts whose labels satisfy this, as for --require; repeatable, more is better")
	flags.Var(avoidFlag{cmdline.NamesFlag{Names: &f.avoid}, &f.worse}, "avoid", "not on this host, or not on hosts with zone=a, 'zone in (a, b)', …, as for --require; repeatable")
}

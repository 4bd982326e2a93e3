package quotas

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/lookup"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/quotafile"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func quotaCommand(c *cmdline.Invocation) *cobra.Command {
	return cmdline.Family("quota", "Set, apply and delete limits",
		`Quotas limit what engines may have together, by their labels. The selector of a
rule has label keys with exact values or *: 'user=alice' is one account,
'user=*,creator=IDE' is one for each user, '*' alone is one for everything. Of
the rules with the same keys the most specific one counts. A request has to fit
into its account of every set of keys.`,
		quotaSetCommand(c.Connections), quotaApplyCommand(c), quotaDeleteCommand(c.Connections))
}

func quotaSetCommand(c *servers.Connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set SELECTOR",
		Short: "Add a rule, or change the one with the same selector",
		Long: `Set adds a rule. If there is one with the same selector, set changes what is
named and leaves the rest as it is; with --replace the rule is what is named and
nothing else. Several changes at the same time do not undo one another.

Set prints the rule, what has changed, and which accounts have more than the new
limit allows. What they have stays theirs; they get nothing more until they have
less. --dry-run prints the same and changes nothing.

With -o json it prints the rule as it is now. "before" is what it was, or null,
and "over" lists those accounts.`,
		Example: `  bursar quota set user=alice --memory 64GiB --cpu 16

  # who would be over it?
  bursar quota set user=alice --memory 32GiB --dry-run

  # only these; nothing else of the rule stays
  bursar quota set user=alice --memory 64GiB --replace

  bursar quota set 'user=*,creator=IDE' --memory 8GiB --instances 5 --weight 2
  bursar quota set creator=schedule --memory 96GiB \
    --guaranteed memory=16GiB,cpu=8

  # in all queues of YARN together, and in those of one queue
  bursar quota set 'user=*' --external 'yarn:*:*,memory=200GiB,cpu=100' \
    --external yarn:prod:root.etl,applications=40

  # what requests of creator=schedule get first, in the queue and below it
  bursar quota set creator=schedule \
    --guaranteed-external yarn:prod:root.etl,memory=64GiB

  bursar quota set '*' --instances 500`,
		Args:              cmdline.ExactlyOne(),
		ValidArgsFunction: lookup.CompleteSelectors(c),
	}
	var limit, guaranteed cmdline.SizeFlags
	cmdline.AddResourceFlags(cmd, &limit.Vector)
	cmd.Flags().Var(cmdline.ExternalFlag{Parts: &limit.External, Limits: true}, "external",
		"limit in queues of clusters, such as 'yarn:*:*,memory=200GiB,cpu=100'; repeatable; see: bursar help external")
	cmd.Flags().Var(cmdline.CountFlag{Vector: &guaranteed.Vector, Any: true}, "guaranteed", "below this its requests go before others': memory=8GiB,cpu=4")
	cmd.Flags().Var(cmdline.ExternalFlag{Parts: &guaranteed.External, Limits: true}, "guaranteed-external",
		"the same of what it has in queues of clusters, such as 'yarn:*:*,memory=64GiB'; repeatable")
	weight := cmd.Flags().Int32("weight", 0, "share compared with others when requests wait (default 1)")
	replace := cmd.Flags().Bool("replace", false, "the rule is what is named here, and nothing else")
	dryRun := cmd.Flags().Bool("dry-run", false, "change nothing: check, and say what would change")
	force := cmd.Flags().Bool("force", false, "even for a dimension that no host has yet, a label that is not known, or a minimum above the limit")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		selector, err := cmdline.SelectorArg(args[0])
		if err != nil {
			return err
		}
		change := quotaChange{selector: selector, limit: limit.Resource(), guaranteed: guaranteed.Resource(), replace: *replace, dryRun: *dryRun, force: *force}
		if cmd.Flags().Changed("weight") {
			if *weight < 1 {
				return failure.Usagef("--weight %d: want 1 or more, or no --weight", *weight)
			}
			change.weight = weight
		}
		if !limit.IsSet() && !guaranteed.IsSet() && change.weight == nil {
			return failure.Usagef("a rule that says nothing: want at least one of --memory, --cpu, --instances, --custom, --external, --guaranteed, --guaranteed-external and --weight")
		}
		cl, err := c.Coordinator(cmd.Context())
		if err != nil {
			return err
		}
		set, err := change.put(cmd.Context(), cl)
		if err != nil {
			return err
		}
		c.Warn(set.warnings)
		if set.over, err = accountsOver(cmd.Context(), cl, set.now); err != nil {
			c.Sayf("bursar: who is over the new limit is not known: %s", c.Message(err))
		}
		return printSetQuota(c.Printer, set, *dryRun)
	}
	return cmd
}

func quotaDeleteCommand(c *servers.Connections) *cobra.Command {
	return &cobra.Command{
		Use:   "delete SELECTOR",
		Short: "Remove a rule",
		Long: `Delete removes the rule with this selector. After that the next most specific
rule limits what its accounts held; if there is none, nothing does. A rule from
a file that the coordinator watches is removed from that file instead. If such a
file hides the rule, delete says that the file's stays in force.`,
		Example: `  bursar quota delete user=alice
  bursar quota delete 'user=*,creator=IDE'`,
		Args:              cmdline.ExactlyOne(),
		ValidArgsFunction: lookup.CompleteSelectors(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			selector, err := cmdline.SelectorArg(args[0])
			if err != nil {
				return err
			}
			cl, err := c.Coordinator(cmd.Context())
			if err != nil {
				return err
			}
			res, err := cl.Quotas().Delete(cmd.Context(), &bursarv1.DeleteRequest{Selector: selector})
			if err != nil {
				return err
			}
			// A file may have a rule with the same selector, which hid this one.
			if left, err := cl.Quotas().Get(cmd.Context(), &bursarv1.QuotaServiceGetRequest{Selector: selector}); err == nil {
				c.Sayf("%s: the rule of %s with the same selector stays in force", render.SelectorText(selector), left.GetQuota().GetSource())
			}
			return c.Print(res, func() { c.Printf("%s deleted\n", render.SelectorText(selector)) })
		},
	}
}

func quotaApplyCommand(c *cmdline.Invocation) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "apply -f FILE",
		Short: "Put the rules of a file in force, all of them or none",
		Long: `Apply puts the rules of a YAML file in force in one step. If one of them is
wrong nothing changes, and the message names the file, line, column, field and
reason. Rules that are not in the file stay, unless --prune removes those that
came from it before. A rule for a dimension that no host, external cluster or
configuration has yet is taken with a warning: quota set refuses it.`,
		Example: `  bursar quota apply -f examples/quotas.yaml

  # check it, and say what would change
  bursar quota apply -f quotas.yaml --dry-run

  # the file has all of its rules: remove those that it no longer has
  bursar quota apply -f quotas.yaml --prune

  generate-quotas | bursar quota apply -f - --source generated`,
		Args:              cmdline.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	file := cmd.Flags().StringP("file", "f", "", "the file; - is standard input")
	source := cmd.Flags().String("source", "", "name of the set, by which --prune finds its rules (default: the file's name)")
	prune := cmd.Flags().Bool("prune", false, "remove the rules of this source that are not in the file")
	dryRun := cmd.Flags().Bool("dry-run", false, "change nothing: check, and say what would change")
	force := cmd.Flags().Bool("force", false, "no warnings, such as of dimensions that no host has yet")
	_ = cmd.MarkFlagFilename("file", "yaml", "yml")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *file == "" {
			return failure.Usagef("no file: want -f FILE, or -f - for standard input")
		}
		name, data, err := c.ReadFile(*file)
		if err != nil {
			return err
		}
		quotas, err := quotafile.Parse(name, data)
		if err != nil {
			return err
		}
		if doubts := quotafile.Doubts(name, data); len(doubts) > 0 {
			return doubts[0]
		}
		cl, err := c.Coordinator(cmd.Context())
		if err != nil {
			return err
		}
		res, err := cl.Quotas().Apply(cmd.Context(), &bursarv1.ApplyRequest{
			// A file may be there before the hosts that it is for.
			Quotas: quotas, Source: cmp.Or(*source, filepath.Base(name)), Prune: *prune, DryRun: *dryRun, Force: true,
		})
		if err != nil {
			return inFile(err, name, data)
		}
		if !*force {
			sayUndeclared(c.Printer, slices.Concat(res.GetAdded(), res.GetChanged()))
			c.Warn(res.GetWarnings())
		}
		return c.Print(res, func() { printApplied(c.Printer, res, *dryRun) })
	}
	return cmd
}

// mostSelectors is how many rules a warning names.
const mostSelectors = 5

// sayUndeclared warns of rules for dimensions that nothing has: a name may be misspelt.
func sayUndeclared(out *render.Printer, quotas []*bursarv1.Quota) {
	rules := make(map[string][]string) // selectors, by dimension
	for _, q := range quotas {
		for _, dimension := range q.GetUndeclaredDimensions() {
			rules[dimension] = append(rules[dimension], render.SelectorText(q.GetSelector()))
		}
	}
	for _, dimension := range slices.Sorted(maps.Keys(rules)) {
		list := slices.Sorted(slices.Values(rules[dimension]))
		more := ""
		if n := len(list) - mostSelectors; n > 0 {
			list, more = list[:mostSelectors], fmt.Sprintf(" and %d more", n)
		}
		out.Sayf("bursar: warning: no host, external cluster or configuration (dimensions) has %s, which these rules are for: %s%s",
			dimension, strings.Join(list, "; "), more)
	}
}

// inFile finds the line of the rule that the coordinator refused.
func inFile(err error, name string, data []byte) error {
	if field, ok := client.InvalidField(err); ok {
		return quotafile.Locate(name, data, field.GetField(), fmt.Sprintf("%q: want %s", field.GetValue(), field.GetWant()))
	}
	if violations := client.Violations(err); len(violations) > 0 {
		return quotafile.Locate(name, data, render.FieldPath(violations[0].GetField()), violations[0].GetMessage())
	}
	return err
}

func printApplied(out *render.Printer, res *bursarv1.ApplyResponse, dryRun bool) {
	for _, change := range []struct {
		word   string
		quotas []*bursarv1.Quota
		more   int32
	}{{"added", res.GetAdded(), res.GetMoreAdded()}, {"changed", res.GetChanged(), res.GetMoreChanged()}, {"deleted", res.GetDeleted(), res.GetMoreDeleted()}} {
		for _, q := range change.quotas {
			out.Printf("%-8s %s\n", change.word, render.QuotaLine(q))
		}
		if change.more > 0 {
			out.Printf("%-8s %d more, which are too many to list\n", change.word, change.more)
		}
	}
	note := ""
	if dryRun {
		note = "; nothing was changed (--dry-run)"
	}
	out.Printf("%d added, %d changed, %d deleted, %d unchanged%s\n",
		len(res.GetAdded())+int(res.GetMoreAdded()), len(res.GetChanged())+int(res.GetMoreChanged()),
		len(res.GetDeleted())+int(res.GetMoreDeleted()), res.GetUnchanged(), note)
}

package quotas

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/lookup"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func quotasCommand(c *servers.Connections) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "quotas",
		Short: "The limits, and how much of them is taken",
		Long: `Quotas shows the rules and their accounts. There is an account for each user,
creator, engine type or other combination of labels that holds or waits for
something. It shows what the account has and could still get. A stored rule is
marked as hidden if a file has a rule with the same selector: then the file's
rule is in force.`,
		Example: `  bursar quotas
  bursar quotas --label user=alice
  bursar quotas -o json | jq '.accounts[] | select(.overLimit)'`,
		Args:              cmdline.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	labels := cmdline.FilterFlag{}
	cmd.Flags().VarP(labels, "label", "l", "only accounts with this label, * for any value; repeatable")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cl, err := c.Coordinator(cmd.Context())
		if err != nil {
			return err
		}
		all := &bursarv1.QuotaServiceListResponse{}
		for page, err := range cl.ListQuotas(cmd.Context(), &bursarv1.QuotaServiceListRequest{Labels: labels, PageSize: lookup.MaxPage}) {
			if err != nil {
				return err
			}
			all.Quotas = append(all.Quotas, page.GetQuotas()...)
			all.Accounts = append(all.Accounts, page.GetAccounts()...)
			all.Revision = page.GetRevision()
		}
		return c.Print(all, func() { printQuotas(c.Printer, all, labels.Text()) })
	}
	return cmd
}

func printQuotas(out *render.Printer, all *bursarv1.QuotaServiceListResponse, filter string) {
	if len(all.GetQuotas()) == 0 {
		out.Sayf("no quotas: `bursar quota apply -f FILE` or `bursar quota set SELECTOR --memory 64GiB` makes some")
		return
	}
	var rows [][]string
	var hidden []string
	for _, q := range all.GetQuotas() {
		row := []string{
			render.SelectorText(q.GetSelector()), render.ResourceText(q.GetLimit()), render.ResourceText(q.GetGuaranteed()), render.Count(int64(q.GetWeight())), q.GetSource(),
		}
		if q.GetHidden() != "" {
			row[4] += " (hidden)"
			hidden = append(hidden, fmt.Sprintf("%s of %s is not in force: %s", render.SelectorText(q.GetSelector()), q.GetSource(), q.GetHidden()))
		}
		if names := q.GetUndeclaredDimensions(); len(names) > 0 {
			hidden = append(hidden, fmt.Sprintf("%s of %s is for %s: no host, external cluster or configuration has that",
				render.SelectorText(q.GetSelector()), q.GetSource(), strings.Join(names, ", ")))
		}
		if out.Wide() {
			row = append(row, render.NormalizationText(q.GetNormalization()))
		}
		rows = append(rows, row)
	}
	out.Table([]string{"RULE", "LIMIT", "GUARANTEED", "WEIGHT", "SOURCE", "ROUNDING"}, rows)
	for _, text := range hidden {
		out.Printf("%s\n", text)
	}
	switch {
	case len(all.GetAccounts()) == 0 && filter != "":
		out.Sayf("no account matches %s", filter)
	case len(all.GetAccounts()) > 0:
		out.Printf("\n")
		out.Table(render.AccountHeader(), render.AccountRows(all.GetAccounts()))
	}
}

package main

import (
	"fmt"

	"github.com/spf13/cobra"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func (c *cli) statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "How the whole is doing",
		Long:  "Status tells who leads, and how many allocations, hosts and quotas there are.",
		Example: `  bursar status
  bursar status --addr coordinator-2:7070 -o json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cl, err := c.coordinator()
			if err != nil {
				return err
			}
			res, err := cl.Cluster().Status(cmd.Context(), &bursarv1.StatusRequest{})
			if err != nil {
				return err
			}
			return c.print(res, func() { c.printStatus(res) })
		},
	}
}

func (c *cli) printStatus(s *bursarv1.StatusResponse) {
	leader := s.GetLeader()
	switch {
	case s.GetIsLeader():
		leader += " (this one)"
	case leader == "":
		leader = "nobody"
	}
	c.facts(
		"version", s.GetVersion(),
		"leader", leader,
		"epoch", fmt.Sprint(s.GetEpoch()),
		"revision", fmt.Sprint(s.GetRevision()),
		"up", durationText(s.GetUptime().AsDuration()),
		"allocations", fmt.Sprintf("%d active, %d reserved, %d waiting", s.GetActive(), s.GetReserved(), s.GetWaiting()),
		"hosts", fmt.Sprintf("%d healthy, %d suspect, %d lost, %d returning",
			s.GetHostsHealthy(), s.GetHostsSuspect(), s.GetHostsLost(), s.GetHostsReturning()),
		"quotas", fmt.Sprintf("%d rules, %d accounts", s.GetQuotaRules(), s.GetQuotaAccounts()),
		"store", s.GetStoreId(),
	)
}

func (c *cli) auditCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "audit",
		Short: "Recompute every account and report what does not agree",
		Long:  "Audit recomputes every account from its allocations. When something does not agree it says what, and ends with code 1.",
		Example: `  bursar audit
  bursar audit -o json | jq .violations`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cl, err := c.coordinator()
			if err != nil {
				return err
			}
			res, err := cl.Cluster().Audit(cmd.Context(), &bursarv1.AuditRequest{})
			if err != nil {
				return err
			}
			err = c.print(res, func() {
				for _, v := range res.GetViolations() {
					c.printf("invariant %d: %s\n", v.GetInvariant(), printable(v.GetMessage()))
				}
				c.printf("%d allocations, %d accounts, revision %d: %d violations\n",
					res.GetAllocations(), res.GetAccounts(), res.GetRevision(), len(res.GetViolations()))
			})
			if err == nil && len(res.GetViolations()) > 0 {
				err = &exitError{code: exitFailed}
			}
			return err
		},
	}
}

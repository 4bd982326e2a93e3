package status

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// leaderPatience is how long status waits for a leader's answer: as long as a change of leader
// takes.
const leaderPatience = 5 * time.Second

func statusCommand(c *servers.Connections) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show the state of the cluster",
		Long: `Status shows who leads, who answered, and how many allocations, hosts, quotas
and clusters there are. If several coordinators are known, or none leads, it
shows the state of each. It waits 5 s for one to lead. With -o json their list
is "coordinators", and all that there is if none leads; "clusters" says how many
external clusters are known, and which are not.`,
		Example: `  bursar status
  bursar status --addr coordinator-2:7070 -o json
  bursar status --addr https://rm-1:7070,https://rm-2:7070,https://rm-3:7070
  bursar status --addr consul`,
		Args:              cmdline.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cl, at, err := c.Coordinators(cmd.Context())
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), leaderPatience)
			defer cancel()
			res, err := cl.Cluster().Status(ctx, &bursarv1.StatusRequest{})
			if err != nil && !client.Unavailable(err) {
				return err
			}
			team, teamErr := askTeam(cmd.Context(), c, at, err != nil)
			if teamErr != nil {
				return teamErr
			}
			if own := ofLeader(team); err != nil && own != nil { // elected after the last attempt
				res, err = own, nil
			}
			if err != nil {
				if err := printLeaderlessTeam(c.Reporter, team); err != nil {
					return err
				}
				if leaderless(team) {
					return &failure.LeaderlessError{Err: err}
				}
				return err
			}
			clusters := clustersRead(cmd.Context(), cl)
			if c.IsJSON() {
				return printStatusJSON(c.Reporter, res, clusters, team)
			}
			printStatus(c.Printer, res, at, clusters.text())
			printTeam(c.Reporter, team)
			return c.Lost()
		},
	}
}

func printStatus(out *render.Printer, s *bursarv1.StatusResponse, at servers.Place, clusters string) {
	leader := cmp.Or(s.GetLeader(), "nobody")
	if s.GetLeader() != "" && strings.HasSuffix(strings.TrimSuffix(at.Server, "/"), s.GetLeader()) {
		leader += " (this one)"
	}
	facts := []string{
		"version", s.GetVersion(),
		"leader", leader,
		"answered by", s.GetUrl(),
		"epoch", fmt.Sprint(s.GetEpoch()),
		"revision", fmt.Sprint(s.GetRevision()),
		"up", render.DurationText(s.GetUptime().AsDuration()),
		"allocations", fmt.Sprintf("%d active, %d reserved, %d waiting", s.GetActive(), s.GetReserved(), s.GetWaiting()),
		"hosts", fmt.Sprintf("%d healthy, %d suspect, %d lost, %d returning",
			s.GetHostsHealthy(), s.GetHostsSuspect(), s.GetHostsLost(), s.GetHostsReturning()),
		"quotas", render.Counted(int(s.GetQuotaRules()), "rule", "rules") + ", " + render.Counted(int(s.GetQuotaAccounts()), "account", "accounts"),
		"clusters", clusters,
		"store", s.GetStoreId(),
	}
	if h := s.GetHistory(); h != nil {
		facts = append(facts, "history", render.Counted(int(h.GetAllocations()), "ended allocation", "ended allocations")+", "+render.MemoryText(h.GetBytes()))
	}
	if text := endedText(s.GetLastLeadership(), time.Now()); text != "" {
		facts = append(facts, "last leadership", "of "+s.GetUrl()+": "+text)
	}
	if skew := s.GetClockSkew().AsDuration(); skew >= time.Second {
		facts = append(facts, "clock skew", render.DurationText(skew)+": the ledger's time is ahead of the leader's clock")
	}
	for _, warning := range s.GetWarnings() {
		facts = append(facts, "warning", warning)
	}
	out.Facts(facts...)
}

// clustersState says for how many external clusters the queues are known, and for which they are
// not.
type clustersState struct {
	Known   int      `json:"known"`
	Unknown []string `json:"unknown"`
}

// clustersRead asks how the external clusters are read; nil if there is none, or if the caller may
// not know.
func clustersRead(ctx context.Context, cl *client.Client) *clustersState {
	res, err := cl.Queues().ListProviders(ctx, &bursarv1.ListProvidersRequest{})
	if err != nil || len(res.GetProviders()) == 0 {
		return nil
	}
	s := &clustersState{Unknown: []string{}}
	for _, p := range res.GetProviders() {
		if p.GetHealth().GetState() == bursarv1.ProviderHealth_STATE_KNOWN {
			s.Known++
		} else {
			s.Unknown = append(s.Unknown, render.ProviderName(p))
		}
	}
	return s
}

func (s *clustersState) text() string {
	if s == nil {
		return ""
	}
	text := fmt.Sprintf("%d known, %d unknown", s.Known, len(s.Unknown))
	if len(s.Unknown) > 0 {
		text += ": " + strings.Join(s.Unknown, ", ")
	}
	return text
}

// printStatusJSON prints the status that a coordinator has answered, with the external clusters and
// with all coordinators, if there are several.
func printStatusJSON(c *failure.Reporter, answer *bursarv1.StatusResponse, clusters *clustersState, team []member) error {
	status, err := render.JSONText(answer)
	if err != nil {
		return err
	}
	if clusters != nil {
		list, err := json.Marshal(clusters)
		if err != nil {
			return fmt.Errorf("marshal: %w", err)
		}
		status = render.WithField(status, "clusters", list)
	}
	if len(team) > 0 {
		list, err := teamJSON(c, team)
		if err != nil {
			return err
		}
		status = render.WithField(status, "coordinators", list)
	}
	return c.PrintJSON(status)
}

func auditCommand(c *servers.Connections) *cobra.Command {
	return &cobra.Command{
		Use:   "audit",
		Short: "Recompute every account and report what does not agree",
		Long: `Audit recomputes every account from its allocations. If something does not agree
it says what, and ends with code 1.`,
		Example: `  bursar audit
  bursar audit -o json | jq .violations`,
		Args:              cmdline.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cl, err := c.Coordinator(cmd.Context())
			if err != nil {
				return err
			}
			res, err := cl.Cluster().Audit(cmd.Context(), &bursarv1.AuditRequest{})
			if err != nil {
				return err
			}
			err = c.Print(res, func() {
				for _, v := range res.GetViolations() {
					c.Printf("invariant %d: %s\n", v.GetInvariant(), v.GetMessage())
				}
				c.Printf("%s, %s, revision %d: %s\n", render.Counted(int(res.GetAllocations()), "allocation", "allocations"),
					render.Counted(int(res.GetAccounts()), "account", "accounts"), res.GetRevision(), render.Counted(len(res.GetViolations()), "violation", "violations"))
			})
			if err == nil && len(res.GetViolations()) > 0 {
				err = &failure.ExitError{Code: failure.ExitFailed}
			}
			return err
		},
	}
}

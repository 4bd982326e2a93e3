package status

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
	"github.com/bursar/bursar/internal/discovery"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// memberTimeout is how long each coordinator may take to report its status.
const memberTimeout = 2 * time.Second

// member is one of several coordinators, with its status.
type member struct {
	url    string
	status *bursarv1.StatusResponse
	err    error
}

// team asks every known coordinator for its status. If only one is known there is none, but for one
// that answers and is known not to lead.
func askTeam(ctx context.Context, c *servers.Connections, at servers.Place, unled bool) ([]member, error) {
	known := []discovery.Coordinator{{URL: at.Server}}
	if at.Finder != nil {
		known, _ = at.Finder.Coordinators()
	}
	if len(known) < 2 && !unled {
		return nil, nil
	}
	options, err := c.Credentials.OverEnvironment().Options(nil)
	if err != nil {
		return nil, c.Credentials.CredentialError(err)
	}
	options = append(append(options, at.Trust()...), client.WithoutRetries(), client.WithTimeout(memberTimeout))
	team := make([]member, len(known))
	var asking sync.WaitGroup
	for i, coordinator := range known {
		asking.Go(func() { team[i] = ask(ctx, coordinator, options) })
	}
	asking.Wait()
	if len(team) == 1 { // why it does not answer is said in any case
		team = slices.DeleteFunc(team, func(m member) bool { return m.err != nil })
	}
	slices.SortFunc(team, func(a, b member) int { return strings.Compare(a.url, b.url) })
	return team, nil
}

func ask(ctx context.Context, coordinator discovery.Coordinator, options []client.Option) member {
	m := member{url: coordinator.URL}
	one, err := client.New(coordinator.URL, options...)
	if err != nil {
		m.err = err
		return m
	}
	defer one.Close()
	m.status, m.err = one.Cluster().Status(ctx, &bursarv1.StatusRequest{AllowStale: true})
	return m
}

// leaderless reports whether some of several coordinators answer, and none of them leads.
func leaderless(team []member) bool {
	return slices.ContainsFunc(team, func(m member) bool { return m.err == nil }) && ofLeader(team) == nil
}

// ofLeader returns the answer of the leader; nil: none does.
func ofLeader(team []member) *bursarv1.StatusResponse {
	for _, m := range team {
		if m.status.GetIsLeader() {
			return m.status
		}
	}
	return nil
}

// memberJSON is one of several coordinators in the JSON of `bursar status`. A field that is
// missing is not known.
type memberJSON struct {
	URL     string `json:"url"`
	Part    string `json:"part,omitempty"`
	Version string `json:"version,omitempty"`
	Epoch   string `json:"epoch,omitempty"`
	// Error is why it does not answer.
	Error string `json:"error,omitempty"`
}

func teamJSON(c *failure.Reporter, team []member) ([]byte, error) {
	list := make([]memberJSON, len(team))
	for i, m := range team {
		if m.err != nil {
			list[i] = memberJSON{URL: m.url, Error: c.Reason(m.err)}
			continue
		}
		list[i] = memberJSON{URL: m.url, Part: part(m.status), Version: m.status.GetVersion(), Epoch: fmt.Sprint(m.status.GetEpoch())}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("marshal: %w", err)
	}
	return text, nil
}

// printLeaderlessTeam prints several coordinators if none of them gave the status of the cluster.
func printLeaderlessTeam(c *failure.Reporter, team []member) error {
	if len(team) == 0 || !c.IsJSON() {
		printTeam(c, team)
		return nil
	}
	list, err := teamJSON(c, team)
	if err != nil {
		return err
	}
	return c.PrintJSON(slices.Concat([]byte(`{"coordinators":`), list, []byte("}")))
}

// printTeam prints several coordinators, one a line.
func printTeam(c *failure.Reporter, team []member) {
	if len(team) == 0 || c.IsJSON() {
		return
	}
	c.Printf("\n")
	rows := make([][]string, len(team))
	for i, m := range team {
		if m.err != nil {
			rows[i] = []string{m.url, "does not answer", "", "", "", c.Reason(m.err)}
			continue
		}
		rows[i] = []string{
			m.url, part(m.status), m.status.GetVersion(), fmt.Sprint(m.status.GetEpoch()), render.DurationText(m.status.GetUptime().AsDuration()),
			memberNote(m.status),
		}
	}
	c.Table([]string{"COORDINATOR", "PART", "VERSION", "EPOCH", "UP", "NOTE"}, rows)
}

// memberNote has the warnings of a coordinator, and why it stopped leading.
func memberNote(s *bursarv1.StatusResponse) string {
	notes := slices.Clone(s.GetWarnings())
	if text := endedText(s.GetLastLeadership(), time.Now()); text != "" {
		notes = append(notes, "its leadership of "+text)
	}
	return render.Printable(strings.Join(notes, "; "))
}

// part is the role of a coordinator at the moment: it leads, stands by, or waits for a leader.
func part(s *bursarv1.StatusResponse) string {
	if s.GetIsLeader() {
		return "leads"
	}
	if s.GetLeaderUrl() == "" {
		return "waits for a leader"
	}
	return "stands by"
}

// endedText says when and why a coordinator stopped leading; empty: it did not.
func endedText(end *bursarv1.LeadershipEnd, now time.Time) string {
	if end == nil {
		return ""
	}
	return fmt.Sprintf("epoch %d ended %s ago: %s", end.GetEpoch(), render.DurationText(now.Sub(end.GetEndTime().AsTime())), render.Printable(end.GetReason()))
}

package queues

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func providersCommand(c *servers.Connections) *cobra.Command {
	return &cobra.Command{
		Use:   "providers",
		Short: "The clusters whose queues are read, and how that goes",
		Long: `Providers shows the clusters whose queues limit requests, and how they are read:
which is the default of its kind, where it is configured, which server answered
last, and how often it is asked. It also shows how many queues and how many of
our applications the last answer had, and how old that is.

Known means that the last answer is recent enough. Unknown means that requests
for the cluster's queues wait; the message says why.`,
		Example: `  bursar providers
  bursar providers -o json | \
    jq '.providers[] | select(.health.state != "STATE_KNOWN")'`,
		Args:              cmdline.NoArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cl, err := c.Coordinator(cmd.Context())
			if err != nil {
				return err
			}
			res, err := cl.Queues().ListProviders(cmd.Context(), &bursarv1.ListProvidersRequest{})
			if err != nil {
				return err
			}
			return c.Print(res, func() { printProviders(c.Printer, res.GetProviders()) })
		},
	}
}

func printProviders(out *render.Printer, list []*bursarv1.Provider) {
	if len(list) == 0 {
		out.Sayf("no providers: `bursar provider set yarn:NAME addresses=http://rm:8088` makes one")
		return
	}
	header := []string{"CLUSTER", "DEFAULT", "SOURCE", "STATE", "SERVER", "QUEUES", "APPS", "AGE", "INTERVAL", "FAILURES"}
	if out.Wide() {
		header = append(header, "TOOK", "FAILED", "SETTINGS")
	}
	header = append(header, "MESSAGE")
	now := time.Now()
	var rows [][]string
	for _, p := range list {
		h := p.GetHealth()
		row := []string{
			render.ProviderName(p), defaultText(p, list), p.GetSource(), render.ProviderState(p), h.GetServer(), render.Count(int64(h.GetQueues())), render.Count(int64(h.GetApplications())),
			render.Since(h.GetSnapshotTime(), now), secondsText(h.GetInterval().AsDuration()), render.Count(int64(h.GetFailures())),
		}
		if out.Wide() {
			row = append(row, secondsText(h.GetTook().AsDuration()), render.Ago(h.GetFailureTime(), now), settingsText(p.GetSettings()))
		}
		rows = append(rows, append(row, render.OneLine(h.GetMessage())))
	}
	out.Table(header, rows)
}

// defaultText says whether a cluster is the default of its kind: by its configuration, or as the
// only one.
func defaultText(p *bursarv1.Provider, all []*bursarv1.Provider) string {
	others, taken := 0, false
	for _, other := range all {
		if other.GetKind() == p.GetKind() && other.GetCluster() != p.GetCluster() {
			others++
			taken = taken || other.GetDefault()
		}
	}
	switch {
	case p.GetDefault():
		return "yes"
	case others == 0 && !taken:
		return "yes, the only one"
	}
	return ""
}

// secondsText writes a short time: "5s", "1.25s", "12ms".
func secondsText(d time.Duration) string {
	switch {
	case d <= 0:
		return ""
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

// settingsText writes "addresses=http://rm:8088 interval=5s".
func settingsText(settings map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		parts = append(parts, fmt.Sprintf("%s=%s", name, settings[name]))
	}
	return strings.Join(parts, " ")
}

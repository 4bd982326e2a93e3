package requests

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// PlaceDoubts lists the words of --avoid, --require and --prefer that are hardly meant as they are
// taken. A word alone is a host's id for --avoid, and a label's key for the others. Only a
// coordinator knows its hosts; if it does not say, there is no doubt.
func (f *Flags) PlaceDoubts(ctx context.Context, cl *client.Client) (list []string) {
	for _, id := range f.avoid {
		if there, known := isHost(ctx, cl, id); known && !there {
			list = append(list, fmt.Sprintf("--avoid %s: is taken as a host, and there is none with this id; hosts with a label are avoided by --avoid 'KEY=VALUE' or --avoid 'KEY in (A, B)'", render.Shown(id)))
		}
	}
	for flag, rules := range map[string][]string{"require": f.rules, "prefer": f.better} {
		for _, rule := range rules {
			if strings.ContainsAny(rule, "=!<>( ") {
				continue
			}
			if there, _ := isHost(ctx, cl, rule); there {
				list = append(list, fmt.Sprintf("--%s %s: is taken as a label that hosts have, and there is a host with this id; --host %s names the host", flag, rule, rule))
			}
		}
	}
	slices.Sort(list)
	return list
}

// isHost reports whether there is a host with an id. known: a coordinator has said so.
func isHost(ctx context.Context, cl *client.Client, id string) (there, known bool) {
	page, err := quick(cl).Hosts().List(ctx, &bursarv1.HostServiceListRequest{IdPrefix: id, PageSize: 1})
	if err != nil {
		return false, false
	}
	hosts := page.GetHosts()
	return len(hosts) > 0 && hosts[0].GetId() == id, true // the id itself is the first with this beginning
}

// quick is a client that does not try again: its answer is about now.
func quick(cl *client.Client) *client.Client {
	return cl.With(client.WithoutRetries(), client.WithTimeout(askTime))
}

// SayImpossible says of a request that waits that no host there is could take it, and why. It says
// nothing of others.
func SayImpossible(ctx context.Context, c *failure.Reporter, cl *client.Client, a *bursarv1.Allocation) {
	if a.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_WAITING {
		return
	}
	res, err := quick(cl).Allocations().Explain(ctx, &bursarv1.ExplainRequest{Id: a.GetId()})
	if err != nil {
		return
	}
	var said []string
	for _, s := range res.GetShortfalls() {
		if render.NoteOf(s) != render.NoteTooSmall && !convert.HostIsAbsent(s) {
			continue
		}
		if text := lackText(s, res.GetBlockedBy()); !slices.Contains(said, text) {
			said = append(said, text)
			c.Sayf("bursar: it waits %s", render.Printable(text))
		}
	}
}

package yarn

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/bursar/bursar/providers"
)

// All applications that have not ended come in one answer, others' among them. One of them costs
// the ResourceManager about a tenth of a request for it alone. So the list is asked for if it has
// at most listRatio applications for each one that is wanted, and no more than mostListed: that are
// about 20 MB.
const (
	listFrom   = 8
	listRatio  = 8
	mostListed = 10_000
	// listPause is how long they are asked for one by one after a list that was of no use: the
	// server has none, or it lacks more of ours that live than it has. Those that have ended since
	// they were last asked for are not in it.
	listPause = 10 * time.Minute
)

// liveStates are those of applications that have not ended.
const liveStates = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"

// lists reports whether a list is better than a request for each of so many.
func (p *Provider) lists(wanted int) bool {
	return wanted >= listFrom && p.live != nil && int(*p.live) <= min(wanted*listRatio, mostListed) && !p.now().Before(p.listAgain)
}

// askForList asks for all applications that have not ended, keeps the answers for those that are
// wanted, and returns the ids of the others. A list that fails is no failure: a request for one
// application says more, and may go well.
func (p *Provider) askForList(ctx context.Context, from *server, ids []string) []string {
	wanted := make(map[string]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	ctx, cancel := shareOf(ctx, 2)
	defer cancel()
	found := map[string]providers.Application{}
	err := from.applications(ctx, func(id string) bool { return wanted[id] }, found)
	if err != nil {
		if !errors.Is(ctx.Err(), context.Canceled) { // by the caller
			p.listAgain = p.now().Add(listPause)
		}
		return ids
	}
	var rest []string
	for _, id := range ids {
		if app, told := found[id]; told {
			p.keep(app)
		} else {
			rest = append(rest, id)
		}
	}
	return rest
}

// applications asks for all that have not ended, and adds those that are wanted to found. The error
// is a *ServerError.
func (s *server) applications(ctx context.Context, wanted func(id string) bool, found map[string]providers.Application) error {
	return s.get(ctx, "/apps", values("states", liveStates, "deSelects", "resourceRequests"), func(body io.Reader) error {
		return readApplications(body, wanted, found)
	})
}

func readApplications(body io.Reader, wanted func(id string) bool, found map[string]providers.Application) error {
	there := false
	field := func(r *reader, said *applicationAnswer, key []byte) error { return said.field(r, key) }
	add := func(said *applicationAnswer) error { //nolint:unparam // a list may refuse an element
		if wanted(said.id) {
			found[said.id] = said.application()
		}
		return nil
	}
	err := readAnswer(body, func(r *reader, key []byte) error {
		if string(key) != "apps" {
			return r.skip()
		}
		there = true
		return readList(r, "app", field, add)
	})
	if err == nil && !there {
		err = malformed("no apps")
	}
	return err
}

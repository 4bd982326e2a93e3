package yarn

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/bursar/bursar/providers"
)

// One list request returns all live applications, including those of others. One application in the
// list costs the ResourceManager about a tenth of a single request. So the provider asks for the
// list if it has at most listRatio applications per wanted one, and at most mostListed in total
// (about 20 MB).
const (
	listFrom   = 8
	listRatio  = 8
	mostListed = 10_000
	// listPause is how long the provider asks one by one after a useless list. A list is useless if
	// the server has none, or if more wanted live applications are missing from it than are in it.
	// A list lacks the applications that have ended since the last answer.
	listPause = 10 * time.Minute
)

// liveStates are the states of applications that have not ended.
const liveStates = "NEW,NEW_SAVING,SUBMITTED,ACCEPTED,RUNNING"

// lists reports whether one list is cheaper than a request for each wanted application.
func (p *Provider) lists(wanted int) bool {
	return wanted >= listFrom && p.live != nil && int(*p.live) <= min(wanted*listRatio, mostListed) && !p.now().Before(p.listAgain)
}

// askForList asks for all live applications, keeps the answers about the wanted ones, and returns
// the other ids. A failure of the list is not an error: a single request gives more details, and
// may succeed.
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
		if !errors.Is(ctx.Err(), context.Canceled) { // not canceled by the caller
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

// applications asks for all live applications, and adds the wanted ones to found. The error is a
// *ServerError.
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

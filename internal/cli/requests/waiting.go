package requests

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/term"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/failure"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/cli/servers"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

const (
	// waitUnseen is how long a request may wait before its user sees that, and how often a line on
	// a terminal is written again.
	waitUnseen = time.Second
	// askFirst is after how long a request's place is asked for again, and askLast the most that
	// this grows to, askGrows times each: a thousand commands that wait ask 70 times a second
	// together. They ask no sooner because a machine is so busy that they are not answered.
	askFirst = time.Second
	// askNamed is how often a request that names a host is looked for until it is seen to wait. If
	// that host is not there, it may wait for a typing error: its user sees that at once.
	askNamed = 100 * time.Millisecond
	askGrows = 4
	askLast  = 15 * time.Second
	// askTime is how long an answer may take. An agent says within 2 s that it has no coordinator.
	askTime = 5 * time.Second
)

// ShowWait shows on stderr, while a request waits, its place and the reason. On a terminal it
// keeps one line up to date, elsewhere it writes a line whenever something changed. The returned
// function ends it and may be called more than once.
func ShowWait(ctx context.Context, c *failure.Reporter, cl *client.Client, req *bursarv1.AllocateRequest) (stop func()) {
	if convert.Wait(req) == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &waitLine{
		say: c, client: quick(cl), requestID: req.GetRequestId(), began: time.Now(), pace: askFirst,
		named: req.GetHost().GetId() != "", live: term.IsTerminal(int(c.Err.Fd())),
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.follow(ctx)
	}()
	return sync.OnceFunc(func() {
		cancel()
		<-done
		w.end()
	})
}

// waitLine is the line on stderr about one request that waits.
type waitLine struct {
	say       *failure.Reporter
	client    *client.Client
	requestID string
	began     time.Time
	// named: the request names a host.
	named bool
	// live: stderr is a terminal, and the line is written over.
	live  bool
	shown string // without what is left of the wait
	// As last read: the text, the request's id, and when its wait ends; empty and nil before.
	text, id string
	ends     *timestamppb.Timestamp
	// pace is how long after a reading the next one is.
	pace time.Duration
	// absent: as last read, the host that the request names is not there.
	absent bool
	// failures are the readings in a row that nobody answered.
	failures int
}

func (w *waitLine) follow(ctx context.Context) {
	ticker := time.NewTicker(waitUnseen)
	defer ticker.Stop()
	next := w.began // when the place is read again
	var early <-chan time.Time
	if w.named {
		ticker := time.NewTicker(askNamed)
		defer ticker.Stop()
		early = ticker.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-early:
			text := render.Printable(w.read(ctx))
			w.client.CloseIdle()
			if w.id != "" {
				early = nil
			}
			if !w.absent {
				continue
			}
			w.text, next = text, time.Now().Add(w.pace-waitUnseen/2)
		case <-ticker.C:
			early = nil
		}
		if now := time.Now(); !now.Before(next) {
			w.text = render.Printable(w.read(ctx))
			// the connection is not kept: every command that waits would have two
			w.client.CloseIdle()
			next = now.Add(w.pace - waitUnseen/2) // ticks are not exact
			w.pace = min(askGrows*w.pace, askLast)
		}
		left := ""
		if w.ends != nil {
			left = "; " + render.Until(w.ends, time.Now()) + " left"
		}
		switch {
		case ctx.Err() != nil || w.text == "":
		case w.live:
			fmt.Fprintf(w.say.Err, "\r\033[K%s%s", w.fit(w.text, left), left)
			w.shown = w.text
		case strings.HasSuffix(w.text, servers.TryingAgain) && strings.HasSuffix(w.shown, servers.TryingAgain):
			// once for an outage, however its words change
		case withoutAges(w.text) != withoutAges(w.shown):
			w.say.Sayf("%s%s", w.text, left)
			w.shown = w.text
		}
	}
}

// read returns the place of the request; nothing if it does not wait. If the server has too much to
// do, the text stays as it was. One reading that fails says little; two in a row are said.
func (w *waitLine) read(ctx context.Context) (text string) {
	if w.id == "" {
		found, err := w.client.Allocations().Get(ctx, &bursarv1.AllocationServiceGetRequest{RequestId: w.requestID})
		if err != nil {
			return w.unread(err)
		}
		if found.GetAllocation().GetState() != bursarv1.AllocationState_ALLOCATION_STATE_WAITING {
			return ""
		}
		w.id, w.ends = found.GetAllocation().GetId(), found.GetAllocation().GetExpireTime()
	}
	res, err := w.client.Allocations().Explain(ctx, &bursarv1.ExplainRequest{Id: w.id})
	if err != nil {
		return w.unread(err)
	}
	w.failures = 0
	w.absent = slices.ContainsFunc(res.GetShortfalls(), convert.HostIsAbsent)
	text = "waiting" + render.PlaceText(res)
	var lacks, ofNamed []string
	for _, s := range res.GetShortfalls() {
		lack := lackText(s, res.GetBlockedBy())
		switch isNamed := strings.HasPrefix(lack, lacksWord); {
		case isNamed && !slices.Contains(ofNamed, lack):
			ofNamed = append(ofNamed, lack)
		case !isNamed && !slices.Contains(lacks, lack):
			lacks = append(lacks, lack)
		}
	}
	if f := res.GetFilters(); len(lacks)+len(ofNamed) == 0 && f != nil {
		lacks = append(lacks, render.FiltersText(f, nil))
	}
	if len(ofNamed) > 0 {
		text += ", which " + strings.Join(ofNamed, ", ")
	}
	if len(lacks) > 0 {
		text += ": " + strings.Join(lacks, ", ")
	}
	return text
}

// unread is the text if the place could not be read.
func (w *waitLine) unread(err error) (text string) {
	switch code := connect.CodeOf(err); {
	case code == connect.CodeDeadlineExceeded, code == connect.CodeResourceExhausted:
		return w.text
	case client.Unavailable(err):
		if w.failures++; w.failures == 1 {
			w.pace = askFirst
			return w.text
		}
		w.id, w.ends = "", nil // it may have been granted meanwhile
		return "bursar: " + w.say.Message(err) + servers.TryingAgain
	}
	w.id, w.ends = "", nil // it does not wait any more
	return ""
}

// lacksWord comes before the quantity that an account lacks.
const lacksWord = "lacks "

// lackText says which quantity is missing without repeating the account that is already named.
func lackText(s *bursarv1.Shortfall, named *bursarv1.AccountName) string {
	if convert.HostIsAbsent(s) {
		return "for " + render.AccountText(s.GetAccount()) + ": " + render.ClosedText(s)
	}
	text := ""
	if account := render.AccountText(s.GetAccount()); named == nil || account != render.AccountText(named) {
		text = account + " "
	}
	if closed := render.ClosedText(s); closed != "" {
		return text + closed
	}
	if render.NoteOf(s) == render.NoteTooSmall {
		amount := func(n int64) string { return render.QuantityText(s.GetDimension(), n) }
		return fmt.Sprintf("for a host with %s; the largest today, %s, has %s", render.AmountText(s.GetDimension(), s.GetRequested()),
			render.AccountText(s.GetAccount()), amount(s.GetLimit()))
	}
	text += lacksWord + render.AmountText(s.GetDimension(), s.GetRequested()-s.GetAvailable())
	if note := render.NoteText(s); note != "" {
		text += " (" + note + ")"
	}
	return text
}

// withoutAges leaves out ages, which change all the time.
func withoutAges(text string) string {
	words := strings.Fields(text)
	kept := words[:0]
	for i, word := range words {
		if i+1 == len(words) || strings.TrimRight(words[i+1], ":;,)") != "ago" {
			kept = append(kept, word)
		}
	}
	return strings.Join(kept, " ")
}

// fit shortens the text so that it fits into one line of the terminal.
func (w *waitLine) fit(text, rest string) string {
	width, _, err := term.GetSize(int(w.say.Err.Fd()))
	runes := []rune(text)
	room := width - len(rest) - 1
	if err != nil || room < 1 || len(runes) <= room {
		return text
	}
	return string(runes[:room-1]) + "…"
}

// end removes the line, or says how long the wait took.
func (w *waitLine) end() {
	if w.shown == "" {
		return
	}
	if w.live {
		fmt.Fprint(w.say.Err, "\r\033[K")
	}
	w.say.Sayf("waited %s", render.DurationText(time.Since(w.began)))
}

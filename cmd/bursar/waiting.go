package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/proto/convert"
)

// waitUnseen is how long a request may wait before its user sees that, and how often what they see
// is brought up to date.
const waitUnseen = time.Second

// showWait shows on stderr, while a request waits, its place and the reason. On a terminal it
// keeps one line up to date, elsewhere it writes a line whenever something changed. The returned
// function ends it and may be called more than once.
func (c *cli) showWait(ctx context.Context, cl *client.Client, req *bursarv1.AllocateRequest) (stop func()) {
	if convert.Wait(req) == 0 {
		return func() {}
	}
	// A client that does not try again: what it shows is about now.
	quick := cl.With(client.WithoutRetries(), client.WithTimeout(2*time.Second))
	ctx, cancel := context.WithCancel(ctx)
	w := &waitLine{cli: c, client: quick, requestID: req.GetRequestId(), began: time.Now(), live: term.IsTerminal(int(c.err.Fd()))}
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

// waitLine is what stderr shows of one request that waits.
type waitLine struct {
	cli       *cli
	client    *client.Client
	requestID string
	began     time.Time
	// live: stderr is a terminal, and the line is written over.
	live  bool
	shown string // without what is left of the wait
}

func (w *waitLine) follow(ctx context.Context) {
	ticker := time.NewTicker(waitUnseen)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		text, left := w.read(ctx)
		text = printable(text)
		switch {
		case ctx.Err() != nil || text == "":
		case w.live:
			fmt.Fprintf(w.cli.err, "\r\033[K%s%s", w.fit(text, left), left)
			w.shown = text
		case withoutAges(text) != withoutAges(w.shown):
			w.cli.sayf("%s%s", text, left)
			w.shown = text
		}
	}
}

// read returns the place of the request, and how long it may still wait; nothing if it does not
// wait.
func (w *waitLine) read(ctx context.Context) (text, left string) {
	found, err := w.client.Allocations().Get(ctx, &bursarv1.AllocationServiceGetRequest{RequestId: w.requestID})
	if client.Unavailable(err) {
		return w.cli.message(err) + "; trying again", ""
	}
	a := found.GetAllocation()
	if err != nil || a.GetState() != bursarv1.AllocationState_ALLOCATION_STATE_WAITING {
		return "", ""
	}
	res, err := w.client.Allocations().Explain(ctx, &bursarv1.ExplainRequest{Id: a.GetId()})
	if err != nil {
		return "", ""
	}
	text = "waiting" + placeText(res)
	var lacks []string
	for _, s := range res.GetShortfalls() {
		if lack := lackText(s, res.GetBlockedBy()); !slices.Contains(lacks, lack) {
			lacks = append(lacks, lack)
		}
	}
	if f := res.GetFilters(); len(lacks) == 0 && f != nil {
		lacks = append(lacks, filtersText(f))
	}
	if len(lacks) > 0 {
		text += ": " + strings.Join(lacks, ", ")
	}
	return text, "; " + until(a.GetExpireTime(), time.Now()) + " left"
}

// lackText says what is missing without repeating the account that is already named.
func lackText(s *bursarv1.Shortfall, named *bursarv1.AccountName) string {
	text := ""
	if account := accountText(s.GetAccount()); named == nil || account != accountText(named) {
		text = account + " "
	}
	if closed := closedText(s); closed != "" {
		return text + closed
	}
	if noteOf(s) == noteTooSmall {
		amount := func(n int64) string { return quantityText(s.GetDimension(), n) }
		return fmt.Sprintf("for a host with %s of %s; the largest today, %s, has %s", amount(s.GetRequested()), s.GetDimension(),
			accountText(s.GetAccount()), amount(s.GetLimit()))
	}
	text += fmt.Sprintf("lacks %s of %s", quantityText(s.GetDimension(), s.GetRequested()-s.GetAvailable()), s.GetDimension())
	if note := noteText(s); note != "" {
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
	width, _, err := term.GetSize(int(w.cli.err.Fd()))
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
		fmt.Fprint(w.cli.err, "\r\033[K")
	}
	w.cli.sayf("waited %s", durationText(time.Since(w.began)))
}

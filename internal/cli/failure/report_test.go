package failure

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"connectrpc.com/connect"

	"github.com/bursar/bursar/client"
	"github.com/bursar/bursar/internal/cli/render"
	"github.com/bursar/bursar/internal/credential"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// reported is what the invocation prints for an error.
func reported(t *testing.T, r *Reporter, err error) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "stderr")
	file, openErr := os.Create(name)
	if openErr != nil {
		t.Fatal(openErr)
	}
	defer file.Close()
	r.Printer = render.NewPrinter(nil, file)
	r.Report(err)
	text, readErr := os.ReadFile(name)
	if readErr != nil {
		t.Fatal(readErr)
	}
	return string(text)
}

func TestBeginnersHintIsForThoseWhoHaveSaidNothing(t *testing.T) {
	refused := connect.NewError(connect.CodeUnavailable, syscall.ECONNREFUSED)
	untrusted := connect.NewError(connect.CodeUnavailable, &credential.TrustError{Err: errors.New("unknown authority"), Advice: "want tls.ca"})
	for name, c := range map[string]struct {
		byDefault bool
		err       error
		hint      bool
	}{
		"default address":   {true, refused, true},
		"said":              {false, refused, false},
		"wrong CA":          {true, untrusted, false},
		"answered, says no": {true, connect.NewError(connect.CodePermissionDenied, errors.New("no")), false},
	} {
		if got := strings.Contains(reported(t, &Reporter{ByDefault: c.byDefault}, c.err), "bursar dev"); got != c.hint {
			t.Errorf("%s: hint %v, want %v", name, got, c.hint)
		}
	}
}

func TestElectionIsNotSilence(t *testing.T) {
	err := &LeaderlessError{connect.NewError(connect.CodeUnavailable, syscall.ECONNREFUSED)}
	if got, want := reported(t, &Reporter{}, err), "bursar: nobody leads at the moment: try again in some seconds\n"; got != want {
		t.Errorf("reported %q, want %q", got, want)
	}
	told := &LeaderlessError{connect.NewWireError(connect.CodeUnavailable, errors.New("the leader does not know this coordinator"))}
	if got, want := reported(t, &Reporter{}, told), "the server: the leader does not know this coordinator\nhint: none of those that answer leads"; !strings.Contains(got, want) {
		t.Errorf("reported %q, want %q", got, want)
	}
	if got := ExitCode(err); got != ExitUnavailable {
		t.Errorf("exit code %d, want %d", got, ExitUnavailable)
	}
}

// queueShortfall is a shortfall of a queue in one dimension.
func queueShortfall(dimension string, requested, available, limit int64, note, detail string) *bursarv1.Shortfall {
	return &bursarv1.Shortfall{
		Account: &bursarv1.AccountName{
			Kind:   bursarv1.AccountKind_ACCOUNT_KIND_QUEUE,
			Labels: map[string]string{"kind": "yarn", "cluster": "default", "path": "root.a", "partition": ""},
		},
		Dimension: dimension, Requested: requested, Available: available, Limit: limit, Note: note, Detail: detail,
	}
}

func TestRefusalsOfQueuesSayWhy(t *testing.T) {
	const gib = 1 << 30
	for name, c := range map[string]struct {
		shortfalls []*bursarv1.Shortfall
		want       string
	}{
		"full": {
			[]*bursarv1.Shortfall{queueShortfall("memory", 4*gib, gib, 16*gib, "", "")},
			`bursar: not enough resources
  queue yarn:default:root.a: memory: asked for 4GiB, available 1GiB of 16GiB, short by 3GiB
hint: --wait 30s waits`,
		},
		"never": {
			[]*bursarv1.Shortfall{queueShortfall("memory", 32*gib, 16*gib, 16*gib, "never", "")},
			`bursar: not enough resources
  queue yarn:default:root.a: memory: asked for 32GiB, available 16GiB of 16GiB, short by 16GiB (above the limit, it can never fit)
hint: ask for less`,
		},
		"unknown, in two dimensions": {
			[]*bursarv1.Shortfall{
				queueShortfall("memory", 4*gib, 0, 0, "unknown", "last read 41s ago: no active server: refused"),
				queueShortfall("cpu", 4000, 0, 0, "unknown", "last read 41s ago: no active server: refused"),
			},
			`bursar: not enough resources
  queue yarn:default:root.a: unknown: last read 41s ago: no active server: refused
hint: --wait 30s waits until the cluster can be read again; ` + "`bursar providers`",
		},
		"stopped": {
			[]*bursarv1.Shortfall{queueShortfall("memory", 4*gib, 4*gib, 16*gib, "stopped", "STOPPED")},
			`bursar: not enough resources
  queue yarn:default:root.a: takes no applications: STOPPED
hint: --wait 30s waits until the queue takes applications again`,
		},
		"missing": {
			[]*bursarv1.Shortfall{queueShortfall("memory", 4*gib, 0, 0, "missing", "")},
			`bursar: not enough resources
  queue yarn:default:root.a: its cluster does not have it any more
hint: --wait`,
		},
	} {
		err := refusedFor(t, connect.CodeResourceExhausted, &bursarv1.InsufficientResources{Shortfalls: c.shortfalls, Reason: "refused"})
		if got := reported(t, &Reporter{}, err); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// hostShortfall is a shortfall of host h1.
func hostShortfall(dimension string, requested, available, limit int64, note bursarv1.ShortfallNote, detail string) *bursarv1.Shortfall {
	return &bursarv1.Shortfall{
		Account:   &bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_HOST, Labels: map[string]string{"host": "h1"}},
		Dimension: dimension, Requested: requested, Available: available, Limit: limit, NoteCode: note, Detail: detail,
	}
}

// A hint never speaks of waiting for what can never fit, nor of asking for less where waiting
// helps.
func TestRefusalsAndHintsAgreeWithTheVerdict(t *testing.T) {
	const gib = 1 << 30
	quota := &bursarv1.Shortfall{
		Account:   &bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_QUOTA, Labels: map[string]string{"user": "bob"}},
		Dimension: "memory", Requested: 9 * gib, Available: gib, Limit: 7 * gib, NoteCode: bursarv1.ShortfallNote_SHORTFALL_NOTE_NEVER, Largest: 4 * gib,
	}
	host := hostShortfall("memory", 9*gib, 8*gib, 8*gib, bursarv1.ShortfallNote_SHORTFALL_NOTE_NEVER, "")
	host.Largest = 8 * gib
	gpu := hostShortfall("gpu", 1, 0, 0, bursarv1.ShortfallNote_SHORTFALL_NOTE_NEVER, "")
	for name, c := range map[string]struct {
		detail *bursarv1.InsufficientResources
		want   string
	}{
		"never": {
			&bursarv1.InsufficientResources{Verdict: bursarv1.InsufficientResources_VERDICT_NEVER, Reason: "never", Shortfalls: []*bursarv1.Shortfall{host, quota, gpu}},
			`bursar: this can never fit
  host h1: memory: asked for 9GiB, available 8GiB of 8GiB, short by 1GiB (above the limit, it can never fit)
  quota user=bob: memory: asked for 9GiB, available 1GiB of 7GiB, short by 8GiB (above the limit, it can never fit)
  host h1: gpu: asked for 1, available 0 of 0, short by 1 (there is none, it can never fit)
hint: ask for at most 4GiB of memory (quota user=bob) and no gpu (host h1), or have the limit raised; `,
		},
		"never, after a wait": {
			&bursarv1.InsufficientResources{Verdict: bursarv1.InsufficientResources_VERDICT_NEVER, Reason: "waited", Shortfalls: []*bursarv1.Shortfall{host}},
			`bursar: this can never fit
  host h1: memory: asked for 9GiB, available 8GiB of 8GiB, short by 1GiB (above the limit, it can never fit)
hint: ask for at most 8GiB of memory (host h1); `,
		},
		"no host that large": {
			&bursarv1.InsufficientResources{
				Verdict: bursarv1.InsufficientResources_VERDICT_NOT_NOW, Reason: "refused",
				Shortfalls: []*bursarv1.Shortfall{hostShortfall("memory", 9*gib, 2*gib, 8*gib, bursarv1.ShortfallNote_SHORTFALL_NOTE_TOO_SMALL, "")},
			},
			`bursar: not enough resources
  host h1, the largest today: memory: asked for 9GiB, it has 8GiB
hint: --wait 1h waits until a host that large is there; `,
		},
		"no host with the labels": {
			&bursarv1.InsufficientResources{
				Verdict: bursarv1.InsufficientResources_VERDICT_NOT_NOW, Reason: "refused", Filters: &bursarv1.HostFilters{Total: 3, Labels: 3},
			},
			`bursar: not enough resources
  hosts: none of 3 is as asked for yet (--require, --avoid)
hint: --wait 1h waits until such a host is there; `,
		},
		"cordoned": {
			&bursarv1.InsufficientResources{
				Verdict: bursarv1.InsufficientResources_VERDICT_NOT_NOW, Reason: "refused",
				Shortfalls: []*bursarv1.Shortfall{hostShortfall("memory", gib, 0, 8*gib, bursarv1.ShortfallNote_SHORTFALL_NOTE_CORDONED, "new kernel")},
				Filters: &bursarv1.HostFilters{Total: 5, Health: 5, Closed: []*bursarv1.ClosedHosts{
					{Note: bursarv1.ShortfallNote_SHORTFALL_NOTE_CORDONED, Reason: "new kernel", Hosts: 2}, {Note: bursarv1.ShortfallNote_SHORTFALL_NOTE_DRAINING, Hosts: 1}, {Note: bursarv1.ShortfallNote_SHORTFALL_NOTE_HEALTH, Reason: "lost", Hosts: 1},
				}},
			},
			`bursar: not enough resources
  host h1: takes no new engines: cordoned: new kernel
  hosts: 0 of 5 fit, 1 not healthy, 2 cordoned (new kernel), 1 draining, 1 lost
hint: --wait 30s waits until the host is uncordoned; `,
		},
		"what it declares is missing": {
			&bursarv1.InsufficientResources{
				Verdict: bursarv1.InsufficientResources_VERDICT_NOT_NOW, Reason: "refused",
				Shortfalls: []*bursarv1.Shortfall{hostShortfall("gpu", 1, 0, 0, bursarv1.ShortfallNote_SHORTFALL_NOTE_MISSING, "")},
			},
			`bursar: not enough resources
  host h1: has no gpu now
hint: --wait 30s waits until it is there; `,
		},
		"an old server": {
			&bursarv1.InsufficientResources{Reason: "refused", Shortfalls: []*bursarv1.Shortfall{{
				Account: host.GetAccount(), Dimension: "memory", Requested: gib, Limit: 8 * gib, Note: "health",
			}}},
			`bursar: not enough resources
  host h1: memory: asked for 1GiB, available 0 of 8GiB, short by 1GiB (takes no new engines now)
hint: --wait 30s waits until it is there; `,
		},
	} {
		err := refusedFor(t, connect.CodeResourceExhausted, c.detail)
		if got := reported(t, &Reporter{}, err); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

func TestTooEarlyIsToldOnce(t *testing.T) {
	err := refusedFor(t, connect.CodeUnavailable, &bursarv1.InsufficientResources{
		Shortfalls: []*bursarv1.Shortfall{queueShortfall("memory", 1, 0, 0, "unknown", "not read yet")},
	})
	got := reported(t, &Reporter{}, err)
	if !strings.Contains(got, "too early to say") || !strings.Contains(got, "queue yarn:default:root.a: unknown: not read yet\n") || strings.Contains(got, "insufficient") {
		t.Error(got)
	}
	if code := ExitCode(err); code != ExitUnavailable {
		t.Errorf("code %d", code)
	}
}

func refusedFor(t *testing.T, code connect.Code, detail *bursarv1.InsufficientResources) error {
	t.Helper()
	err := connect.NewWireError(code, errors.New("insufficient resources (refused): queue kind=yarn: memory: requested 1"))
	added, detailErr := connect.NewErrorDetail(detail)
	if detailErr != nil {
		t.Fatal(detailErr)
	}
	err.AddDetail(added)
	return err
}

// TestAgentThatIsInTimeForNothing: the agent runs, so "nobody answers" would be misleading.
func TestAgentThatIsInTimeForNothing(t *testing.T) {
	late := connect.NewError(connect.CodeDeadlineExceeded, errors.New("context deadline exceeded"))
	for server, want := range map[string]string{
		"/run/a.sock":           "bursar: the agent at /run/a.sock gives no answer in time: it may have no coordinator that answers\n",
		"http://127.0.0.1:7070": "bursar: nobody answers at http://127.0.0.1:7070: no answer in time\n",
	} {
		called, err := client.New(server)
		if err != nil {
			t.Fatal(err)
		}
		defer called.Close()
		if got := reported(t, &Reporter{Asked: called}, late); got != want {
			t.Errorf("%s: %q, want %q", server, got, want)
		}
	}
}

// An agent that closes a connection for another one is there.
func TestAgentThatHangsUpIsThere(t *testing.T) {
	called, err := client.New("/run/a.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer called.Close()
	for failure, want := range map[error]string{
		syscall.ECONNRESET:   "bursar: the agent at /run/a.sock closed the connection: it restarts, or has too many: try again (connection reset by peer)\n",
		io.ErrUnexpectedEOF:  "bursar: the agent at /run/a.sock closed the connection: it restarts, or has too many: try again (unexpected EOF)\n",
		syscall.ECONNREFUSED: "bursar: nobody answers at /run/a.sock: connection refused\n",
	} {
		if got := reported(t, &Reporter{Asked: called}, connect.NewError(connect.CodeUnavailable, failure)); got != want {
			t.Errorf("%v: %q, want %q", failure, got, want)
		}
	}
}

func TestHostThatTakesNothingIsNoLackOfMemory(t *testing.T) {
	refused := &bursarv1.Shortfall{
		Account:   &bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_HOST, Labels: map[string]string{"host": "h1"}},
		Dimension: "memory", Requested: 1 << 20, Note: "refused", Detail: "/data: 1GiB of 9GiB free, want 2GiB",
	}
	err := refusedFor(t, connect.CodeResourceExhausted, &bursarv1.InsufficientResources{Shortfalls: []*bursarv1.Shortfall{refused}, Reason: "vetoed"})
	const want = "bursar: not enough resources: the host takes no new engines now\n  host h1: takes no new engines: /data: 1GiB of 9GiB free, want 2GiB\n"
	if got := reported(t, &Reporter{}, err); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A server may refuse without a word. The line says so, and is not empty.
func TestARefusalWithoutAReasonSaysSo(t *testing.T) {
	for _, message := range []string{"", " ", "\n"} {
		for _, code := range []connect.Code{connect.CodePermissionDenied, connect.CodeInternal, connect.CodeUnavailable, connect.CodeUnimplemented} {
			for _, ofAgent := range []bool{false, true} {
				got := reported(t, &Reporter{OfAgent: ofAgent}, connect.NewWireError(code, errors.New(message)))
				if first, _, _ := strings.Cut(got, "\n"); !strings.HasSuffix(first, "the server refuses with "+code.String()+" and gives no reason") {
					t.Errorf("%q, %s: %q", message, code, got)
				}
			}
		}
	}
}

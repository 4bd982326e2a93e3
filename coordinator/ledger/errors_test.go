package ledger_test

import (
	"errors"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/label"
)

// What a refused caller reads.
func TestErrorsSayWhatIsLackingAndWhere(t *testing.T) {
	host := ledger.AccountName{Kind: ledger.HostAccount, Labels: label.Of("host", "h1")}
	queue := ledger.AccountName{Kind: ledger.QueueAccount, Labels: label.Of("cluster", "prod", "kind", "yarn", "partition", "gpu", "path", "root.a")}
	short := func(of ledger.AccountName, note ledger.Note, detail string) ledger.Shortfall {
		return ledger.Shortfall{Account: of, Dimension: "memory", Requested: 4, Available: 1, Limit: 8, Note: note, Detail: detail}
	}
	filters := &ledger.HostFilters{Total: 9, Labels: 1, Health: 2, Measurement: 1, Books: 2, Headroom: 1, Held: 1, Fit: 1}
	nobody := &ledger.HostFilters{Total: 2, Books: 2}
	for want, err := range map[string]error{
		"insufficient resources (refused): host h1: memory: requested 4, available 1, limit 8": &ledger.InsufficientError{
			Reason: ledger.ReasonRefused, Shortfalls: []ledger.Shortfall{short(host, "", "")},
		},
		"insufficient resources (never): host h1: memory: requested 4, available 1, limit 8 (never); " +
			"hosts: 2 in all, removed by labels 0, health 0, measurement 0, books 2, headroom 0; 0 fit": &ledger.InsufficientError{
			Reason: ledger.ReasonNever, Shortfalls: []ledger.Shortfall{short(host, ledger.NoteNever, "")}, Filters: nobody,
		},
		"insufficient resources (waited): hosts: 9 in all, removed by labels 1, health 2, measurement 1, books 2, headroom 1, held 1; 1 fit": &ledger.InsufficientError{
			Reason: ledger.ReasonWaited, Filters: filters,
		},
		"insufficient resources (waited)": &ledger.InsufficientError{Reason: ledger.ReasonWaited},
		"hosts have not reported yet since this coordinator began to lead: try again; until then: insufficient resources (refused): " +
			"host h1: memory: requested 4, available 1, limit 8 (unknown)": &ledger.InsufficientError{
			Reason: ledger.ReasonRefused, Returning: true, Shortfalls: []ledger.Shortfall{short(host, ledger.NoteUnknown, "")},
		},
		"external clusters have not been read yet: try again; until then: insufficient resources (refused): " +
			"queue yarn:prod:root.a@gpu: memory: requested 4, available 1, limit 8 (unknown: not read yet)": &ledger.InsufficientError{
			Reason: ledger.ReasonRefused, Returning: true, Shortfalls: []ledger.Shortfall{short(queue, ledger.NoteUnknown, "not read yet")},
		},
		"allocation " + ledger.ID(7).String() + ": twice": &ledger.RestoreError{What: "allocation", ID: ledger.ID(7).String(), Err: errors.New("twice")},
		"alice may not stop allocation a":                 &ledger.DeniedError{Actor: "alice", Wanted: "stop allocation a"},
		"alice may not allocate: want a label":            &ledger.DeniedError{Actor: "alice", Wanted: "allocate", Instead: "a label"},
		"host h1: sequence 3 is older than 4":             &ledger.StaleError{Host: "h1", What: "sequence", Got: 3, Have: 4},
		"host h1 is lost: want one that is there":         &ledger.StateError{What: "host", ID: "h1", State: "lost", Want: "one that is there"},
		`no such host: "h1"`:                              &ledger.NotFoundError{What: "host", ID: "h1"},
		`wait: "-1s": want no less than 0`:                &ledger.FieldError{Field: "wait", Value: "-1s", Want: "no less than 0"},
		`request_id: "r1": already used for allocation ` + ledger.ID(7).String() + " with another request: want a new request_id": &ledger.ConflictError{
			RequestID: "r1", ID: 7,
		},
	} {
		if got := err.Error(); got != want {
			t.Errorf("says\n%s\nwant\n%s", got, want)
		}
	}
	for name, want := range map[string]string{
		ledger.AccountName{Kind: ledger.QuotaAccount, Labels: label.Of("user", "alice")}.String(): "quota user=alice",
		ledger.AccountName{Kind: ledger.QuotaAccount}.String():                                    "quota (all)",
	} {
		if name != want {
			t.Errorf("an account is named %q; want %q", name, want)
		}
	}
}

// Every value has a name of its own, and one from a later version is said to be unknown.
func TestEveryKindHasAName(t *testing.T) {
	for want, values := range map[string][]interface{ String() string }{
		"host quota queue unknown": {ledger.HostAccount, ledger.QuotaAccount, ledger.QueueAccount, ledger.QueueAccount + 1},
		"healthy suspect lost returning expected unknown": {
			ledger.Healthy, ledger.Suspect, ledger.LostHost, ledger.Returning, ledger.ExpectedHost, ledger.ExpectedHost + 1,
		},
		"observe warn limit kill unknown": {
			ledger.PolicyObserve, ledger.PolicyWarn, ledger.PolicyLimit, ledger.PolicyKill, ledger.PolicyKill + 1,
		},
	} {
		got := ""
		for _, value := range values {
			got += " " + value.String()
		}
		if got != " "+want {
			t.Errorf("named%s; want %s", got, want)
		}
	}
}

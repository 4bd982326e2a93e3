package seal_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/seal"
	"github.com/bursar/bursar/label"
	"github.com/bursar/bursar/resource"
)

const now = ledger.Instant(1_795_000_000_000_000_000)

func sealer(keys seal.Keys) seal.Sealer {
	return seal.Sealer{Keys: keys, Now: now, Lifetime: 24 * time.Hour}
}

func granted() ledger.Allocation {
	size := resource.Resource{Vector: resource.Vector{}.WithMemory(4 << 30).WithCPU(2000).WithInstances(1)}
	return ledger.Allocation{
		ID: 7, State: ledger.Active, HostID: "h1", Caller: "alice@h1", RequestID: "r1", Labels: label.Of("creator", "IDE", "user", "alice"),
		Requested: size, Entitled: size, Created: now - 30, Reserved: now - 20, Confirmed: now - 10, ApplicationIDs: []string{"application_1_2"},
	}
}

func TestASealVouchesForItsGrantAlone(t *testing.T) {
	s := sealer(seal.NewKeys())
	a := granted()
	sealed := s.Seal(&a)
	if !s.Vouches(sealed, "h1", &a) {
		t.Fatal("a grant is not known by its own seal")
	}
	if s.Vouches(sealed, "h2", &a) {
		t.Error("a grant is vouched for on another host")
	}
	for name, change := range map[string]func(*ledger.Allocation){
		"id":   func(a *ledger.Allocation) { a.ID++ },
		"user": func(a *ledger.Allocation) { a.Labels = label.Of("user", "bob") },
		"another key": func(a *ledger.Allocation) {
			a.Labels = append(slices.Clip(a.Labels), label.Label{Key: "zz", Value: "1"})
		},
		"memory":    func(a *ledger.Allocation) { a.Entitled.Vector = a.Entitled.WithMemory(1 << 50) },
		"a zero":    func(a *ledger.Allocation) { a.Entitled.Vector = a.Entitled.With("gpu", 0) },
		"requested": func(a *ledger.Allocation) { a.Requested.Vector = a.Requested.WithMemory(1) },
		"a queue": func(a *ledger.Allocation) {
			a.Entitled.External = []resource.External{{Address: resource.Address{Kind: "yarn", Cluster: "c", Path: "root.a"}, Vector: resource.Vector{}.WithMemory(1)}}
		},
		"caller":       func(a *ledger.Allocation) { a.Caller = "bob" },
		"request":      func(a *ledger.Allocation) { a.RequestID = "r2" },
		"moved text":   func(a *ledger.Allocation) { a.Caller, a.RequestID = a.Caller+a.RequestID[:1], a.RequestID[1:] },
		"created":      func(a *ledger.Allocation) { a.Created++ },
		"confirmed":    func(a *ledger.Allocation) { a.Confirmed++ },
		"priority":     func(a *ledger.Allocation) { a.Priority++ },
		"applications": func(a *ledger.Allocation) { a.ApplicationIDs = append(a.ApplicationIDs, "application_1_1") },
	} {
		changed := granted()
		change(&changed)
		if s.Vouches(sealed, "h1", &changed) {
			t.Errorf("%s: a seal vouches for what was changed", name)
		}
	}
	for i := range sealed {
		broken := bytes.Clone(sealed)
		broken[i] ^= 1
		if s.Vouches(broken, "h1", &a) || s.Vouches(sealed[:i], "h1", &a) {
			t.Errorf("byte %d: a broken seal vouches", i)
		}
	}
}

func TestOtherKeysAndOldSealsVouchForNothing(t *testing.T) {
	s := sealer(seal.NewKeys())
	a := granted()
	sealed := s.Seal(&a)
	next := sealer(seal.NewKeys() + s.Keys)
	for name, test := range map[string]struct {
		sealer seal.Sealer
		want   bool
	}{
		"another store":          {sealer(seal.NewKeys()), false},
		"no keys":                {sealer(""), false},
		"a newer key before it":  {next, true},
		"within its life":        {seal.Sealer{Keys: s.Keys, Now: now.Add(22 * time.Hour), Lifetime: 24 * time.Hour}, true},
		"after its life":         {seal.Sealer{Keys: s.Keys, Now: now.Add(24*time.Hour + 1), Lifetime: 24 * time.Hour}, false},
		"after a step back":      {seal.Sealer{Keys: s.Keys, Now: now.Add(-20 * time.Hour), Lifetime: 24 * time.Hour}, true},
		"long before it is made": {seal.Sealer{Keys: s.Keys, Now: now.Add(-30 * time.Hour), Lifetime: 24 * time.Hour}, false},
	} {
		if got := test.sealer.Vouches(sealed, "h1", &a); got != test.want {
			t.Errorf("%s: vouches: %t, want %t", name, got, test.want)
		}
	}
	if again := next.Seal(&a); sealer(s.Keys).Vouches(again, "h1", &a) {
		t.Error("the newest key does not seal")
	}
}

func TestWhatGetsNoSeal(t *testing.T) {
	s := sealer(seal.NewKeys())
	reserved, claimed := granted(), granted()
	reserved.State, claimed.Claimed = ledger.Reserved, &ledger.Claim{}
	for name, a := range map[string]*ledger.Allocation{"a reservation": &reserved, "an agent's word": &claimed} {
		if got := s.Seal(a); got != nil {
			t.Errorf("%s has a seal", name)
		}
	}
	a := granted()
	if got := sealer("").Seal(&a); got != nil {
		t.Error("there is a seal without a key")
	}
}

func TestKeysAreNotShown(t *testing.T) {
	keys := seal.NewKeys()
	text, _ := json.Marshal(keys)
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("x", "keys", keys, "meta", struct{ Keys seal.Keys }{keys})
	slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "keys", keys, "meta", struct{ Keys seal.Keys }{keys})
	shown := string(text) + log.String() + fmt.Sprintf("%v %+v %#v %s %q %x %v", keys, keys, keys, keys, keys, keys, struct{ Keys seal.Keys }{keys})
	for _, secret := range []string{string(keys), fmt.Sprintf("%x", string(keys)), fmt.Sprintf("%q", string(keys))} {
		if strings.Contains(shown, secret) {
			t.Errorf("shows the keys: %q", shown)
		}
	}
}

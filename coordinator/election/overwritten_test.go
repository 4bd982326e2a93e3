package election

import (
	"errors"
	"strings"
	"testing"

	"github.com/hashicorp/consul/api"

	"github.com/bursar/bursar/internal/discovery/consul"
)

// garbage is not an id: it is long, and has bytes that would break the lines of a log.
var garbage = "\n\x00garbage" + strings.Repeat("z", 400_000)

// write writes a key like a client that has the permission but should not write.
func write(t *testing.T, key, value string) {
	t.Helper()
	if _, err := admin(t, shared).KV().Put(&api.KVPair{Key: key, Value: []byte(value)}, nil); err != nil {
		t.Fatal(err)
	}
}

func remove(t *testing.T, key string) {
	t.Helper()
	if _, err := admin(t, shared).KV().Delete(key, nil); err != nil {
		t.Fatal(err)
	}
}

func value(t *testing.T, key string) string {
	t.Helper()
	pair, _, err := admin(t, shared).KV().Get(key, nil)
	if err != nil || pair == nil {
		t.Fatalf("%s: %v, %v", key, pair, err)
	}
	return string(pair.Value)
}

// loseLock ends a term as a lost health check does.
func loseLock(t *testing.T, c *coordinator, term Term) {
	t.Helper()
	if _, err := admin(t, shared).Session().Destroy(holder(t, shared, c), nil); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the term", term.Over())
	if err := term.Resign(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// saysLittle fails the test if a line of the log is longer than its few words and 64 bytes of
// foreign text.
func saysLittle(t *testing.T, c *coordinator) {
	t.Helper()
	for line := range strings.Lines(c.log.String()) {
		if len(line) > 2000 {
			t.Errorf("a line of %d bytes: %.200s", len(line), line)
		}
	}
}

// In earlier versions, one write of garbage into the keys of the ids ended every coordinator at its
// next loss of the lock.
func TestNonsenseInTheKeysOfTheIDsEndsNobody(t *testing.T) {
	a := newCandidate(t, shared.Address, "a", func(_ *consul.Config, o *Options) { o.StoreID = storeOne })
	id, err := ClusterID(t.Context(), a.client, a.options.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	a.options.ClusterID = id
	term := a.lead(t, 1)
	write(t, a.storeKey(), garbage)
	write(t, idKey(a.options.Cluster), garbage)
	loseLock(t, a, term)
	a.lead(t, 2)
	if got := value(t, a.storeKey()); got != storeOne {
		t.Errorf("%s holds %.80q, want %s", a.storeKey(), got, storeOne)
	}
	if got := a.options.Cluster + "/" + value(t, idKey(a.options.Cluster)); got != id {
		t.Errorf("the cluster is %.80q, want %s", got, id)
	}
	if n := strings.Count(a.log.String(), "put back"); n != 2 {
		t.Errorf("%d lines about it, want one for each key:\n%.2000s", n, a.log)
	}
	saysLittle(t, a)
}

// The separation of two stores does not depend on the store's key: the leader's key names the store
// of the last leadership.
func TestNonsenseInTheStoresKeyLetsNoOtherStoreIn(t *testing.T) {
	a := newCandidate(t, shared.Address, "a", func(_ *consul.Config, o *Options) { o.StoreID = storeOne })
	a.lead(t, 1)
	b := newCandidate(t, shared.Address, "b")
	for name, spoil := range map[string]func(){
		"nonsense": func() { write(t, a.storeKey(), garbage) },
		"deleted":  func() { remove(t, a.storeKey()) },
	} {
		spoil()
		var other *StoreError
		if err := b.ClaimStore(t.Context(), storeTwo, false); !errors.As(err, &other) || other.Theirs != storeOne {
			t.Errorf("%s: error %.200v: want a *StoreError that names %s", name, err, storeOne)
		}
		if err := a.ClaimStore(t.Context(), storeOne, false); err != nil || value(t, a.storeKey()) != storeOne {
			t.Errorf("%s: %v: want the store's own id back", name, err)
		}
	}
	write(t, a.storeKey(), garbage)
	if err := b.ClaimStore(t.Context(), storeTwo, true); err != nil || value(t, a.storeKey()) != storeTwo {
		t.Errorf("%.200v: want that an operator has the last word", err)
	}
}

// A leader's key with garbage names no leader, and is not logged in full.
func TestNonsenseInTheLeadersKeyIsCut(t *testing.T) {
	a := newCandidate(t, shared.Address, "a")
	a.rule(t) // again, if a slow machine loses the lock
	b := newCandidate(t, shared.Address, "b")
	b.knowsURL(t, a.options.URL)
	long := strings.Repeat("z", 300_000)
	for _, nonsense := range []string{
		garbage,
		`{"url":"http://` + long + `","id":"x"}`,
		`{"url":"ftp://` + long + `"}`,
		`{"url":"http://x","epoch":` + strings.Repeat("9", 300_000) + `}`,
		`{"url":"http://b.example.com:7070","id":"` + long[:200_000] + `","store_id":"` + long[:200_000] + `"}`,
	} {
		write(t, a.key(), nonsense)
		// the leader corrects it
		eventually(t, func() bool { return value(t, a.key()) != nonsense })
		eventually(t, func() bool {
			leader, _ := b.Leader()
			return leader.URL == a.options.URL
		})
	}
	saysLittle(t, a)
	saysLittle(t, b)
}

// A well-formed other id may be another store, which must not lead in turn with this one. But a
// coordinator that has led before keeps running, and reports the id: it was right once, and after
// an end of the process an operator would have to act even if the key is corrected.
func TestAnotherStoresIDIsWaitedForByWhoHasClaimedBefore(t *testing.T) {
	told := make(chan error, 100)
	a := newCandidate(t, shared.Address, "a", func(_ *consul.Config, o *Options) {
		o.StoreID, o.Mismatch = storeOne, func(err error) { told <- err }
	})
	term := a.lead(t, 1)
	if err := await(t, "the first claim", told); err != nil {
		t.Errorf("told %v, want that it is well", err)
	}
	write(t, a.storeKey(), storeTwo)
	loseLock(t, a, term)
	again := a.campaign(t)
	var other *StoreError
	if err := await(t, "a refusal", told); !errors.As(err, &other) || other.Theirs != storeTwo {
		t.Errorf("told %v, want a *StoreError", err)
	}
	if leader, _ := a.Leader(); leader.URL != "" || value(t, a.storeKey()) != storeTwo {
		t.Errorf("%+v leads, and the store is %s: want nobody, and that the id stays", leader, value(t, a.storeKey()))
	}
	write(t, a.storeKey(), storeOne)
	term = await(t, "the next term", again)
	var last error
	for len(told) > 0 {
		last = <-told
	}
	if last != nil || isOver(term) {
		t.Errorf("told %v at last, want that it is well", last)
	}
	if n := strings.Count(a.log.String(), "cannot stand for election"); n != 1 {
		t.Errorf("said %d times:\n%s", n, a.log)
	}
	write(t, a.storeKey(), storeTwo)
	b := newCandidate(t, shared.Address, "b", func(_ *consul.Config, o *Options) { o.StoreID = storeOne })
	if _, err := b.Campaign(t.Context()); !Permanent(err) {
		t.Errorf("error %v of who has never claimed: want one for good", err)
	}
}

func TestAClustersIDThatIsNoneIsAnError(t *testing.T) {
	c := newCandidate(t, shared.Address, "a")
	write(t, idKey("spoiled"), garbage)
	_, err := ClusterID(t.Context(), c.client, "spoiled")
	var none *IDError
	if !errors.As(err, &none) || len(err.Error()) > 500 || strings.ContainsAny(err.Error(), "\n\x00") {
		t.Errorf("error %.1000v: want a short *IDError", err)
	}
	for owner, want := range map[string]bool{
		"spoiled/abcdefg2": true, "spoiled/alone": true, "spoiled/": false, "spoiled": false, "": false, "other/abcdefg2": false, "spoiled/" + garbage: false,
	} {
		if got := IsClusterID(owner, "spoiled"); got != want {
			t.Errorf("%.40q: %v, want %v", owner, got, want)
		}
	}
}

package clusterid_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/bursar/bursar/internal/clusterid"
)

// The ids of stores, as stores make them.
const (
	storeA = "aaaabbbbccccddddeeeeffff22"
	storeB = "gggghhhhiiiijjjjkkkkllll33"
)

func TestIdentitiesOfOtherClustersAreTold(t *testing.T) {
	for _, c := range []struct {
		a, b  clusterid.Identity
		other bool
	}{
		{clusterid.New("a", storeA), clusterid.New("a", storeA), false},
		{clusterid.New("a", storeA), clusterid.New("a", storeB), true},    // a name is given twice
		{clusterid.New("a", storeA), clusterid.New("a-2", storeA), false}, // a cluster that was renamed
		{clusterid.New("a", ""), clusterid.New("a-2", storeA), true},      // names are compared whole
		{clusterid.New("a", ""), clusterid.New("a", storeB), false},
		{clusterid.New("", storeA), clusterid.New("b", ""), false},
		{clusterid.Identity{}, clusterid.New("a", storeA), false},
		{clusterid.New("a", storeA), clusterid.New("a/b", "no store's id"), false}, // nothing is known
	} {
		if c.a.Other(c.b) != c.other || c.b.Other(c.a) != c.other {
			t.Errorf("%s, %s: want other=%v", c.a, c.b, c.other)
		}
	}
}

func TestAPinKeepsToOneCluster(t *testing.T) {
	pin := clusterid.NewPin("")
	a, b := clusterid.New("a", storeA), clusterid.New("b", storeB)
	if err := pin.Check("u", b); err != nil {
		t.Fatalf("a pin that holds nothing refuses: %v", err)
	}
	if !pin.Hold(a) || pin.Hold(a) || pin.Hold(b) || pin.Held() != a {
		t.Fatalf("it holds %s: want %s", pin.Held(), a)
	}
	var refused *clusterid.Error
	if err := pin.Check("http://b:7070", b); !errors.As(err, &refused) || !strings.Contains(err.Error(), "http://b:7070") || !strings.Contains(err.Error(), storeB) {
		t.Errorf("error %v: want one that names the other", err)
	}
	if seen := pin.Seen(); len(seen) != 1 || seen[0] != b {
		t.Errorf("seen %v: want %s", seen, b)
	}
	for _, unknown := range []clusterid.Identity{{}, clusterid.New("a", "")} {
		if err := pin.Check("u", unknown); err != nil {
			t.Errorf("%s is refused: %v", unknown, err)
		}
	}
	if pin.Replace(b, storeB) || pin.Replace(clusterid.New("b", storeB), storeA) || !pin.Replace(clusterid.New("a", storeB), storeA) {
		t.Error("only a store of the same cluster that says that it replaces the one held takes its place")
	}
	pin.Forget()
	if pin.Held().Known() || len(pin.Seen()) > 0 {
		t.Errorf("it still holds %s", pin.Held())
	}
}

func TestAConfiguredNameCountsMoreThanTheStore(t *testing.T) {
	pin := clusterid.NewPin("a")
	if err := pin.Check("u", clusterid.New("b", storeA)); err == nil {
		t.Error("a coordinator of another name is taken")
	}
	if !pin.Hold(clusterid.New("a", storeA)) {
		t.Error("its own is not held")
	}
	if err := pin.Check("u", clusterid.New("b", storeA)); err == nil {
		t.Error("a coordinator of another name is taken because of its store")
	}
}

func TestSeenClustersAreBounded(t *testing.T) {
	pin := clusterid.NewPin("a")
	for i := range 1000 {
		pin.See(clusterid.New("c"+strings.Repeat("x", i%60), storeB))
	}
	if n := len(pin.Seen()); n != 16 {
		t.Errorf("%d are remembered: want 16", n)
	}
}

func TestAGuardRefusesCallersOfOtherClusters(t *testing.T) {
	guard := clusterid.NewGuard("a", []string{"mmmmnnnnooooppppqqqqrrrr44"})
	guard.SetStore(storeA)
	call := func(from clusterid.Identity) error {
		header := http.Header{}
		from.Put(header)
		return guard.Admit(header, "host-1")
	}
	for _, own := range []clusterid.Identity{{}, clusterid.New("a", storeA), clusterid.New("a", ""), clusterid.New("a", "mmmmnnnnooooppppqqqqrrrr44")} {
		if err := call(own); err != nil {
			t.Errorf("%s: %v", own, err)
		}
	}
	for _, other := range []clusterid.Identity{clusterid.New("a", storeB), clusterid.New("b", ""), clusterid.New("b", "mmmmnnnnooooppppqqqqrrrr44")} {
		var refused *clusterid.CallerError
		if err := call(other); !errors.As(err, &refused) || refused.Caller != other {
			t.Errorf("%s: error %v: want a refusal", other, err)
		}
	}
	if list := guard.Warnings(); len(list) != 1 || !strings.Contains(list[0], "host-1") {
		t.Errorf("warnings %q: want one that names the caller", list)
	}
}

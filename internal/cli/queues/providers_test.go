package queues

import (
	"testing"
	"time"

	"github.com/bursar/bursar/internal/cli/render"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestShortTimesKeepTheirSense(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "", 12345 * time.Microsecond: "12ms", 5 * time.Second: "5s", 1254 * time.Millisecond: "1.25s"} {
		if got := secondsText(d); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestOnlyClusterIsTheDefault(t *testing.T) {
	one := &bursarv1.Provider{Kind: "yarn", Cluster: "one"}
	two := &bursarv1.Provider{Kind: "yarn", Cluster: "two"}
	chosen := &bursarv1.Provider{Kind: "yarn", Cluster: "chosen", Default: true}
	other := &bursarv1.Provider{Kind: "other", Cluster: "one"}
	for _, test := range []struct {
		of   *bursarv1.Provider
		all  []*bursarv1.Provider
		want string
	}{
		{one, []*bursarv1.Provider{one, other}, "yes, the only one"},
		{one, []*bursarv1.Provider{one, two}, ""},
		{one, []*bursarv1.Provider{one, chosen}, ""},
		{chosen, []*bursarv1.Provider{one, chosen}, "yes"},
	} {
		if got := defaultText(test.of, test.all); got != test.want {
			t.Errorf("%s among %d: %q, want %q", render.ProviderName(test.of), len(test.all), got, test.want)
		}
	}
}

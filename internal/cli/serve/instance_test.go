package serve

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/bursar/bursar/coordinator"
)

func TestEveryCoordinatorHasAnIDOfItsOwnThatStays(t *testing.T) {
	const base = "http://127.0.0.1:7070"
	own := instanceOf("rm-1", "127.0.0.1:7070", base)
	if again := instanceOf("rm-1", "127.0.0.1:7070", base); again != own {
		t.Errorf("%q, then %q: want the same", own, again)
	}
	if !strings.HasPrefix(own, "127.0.0.1-7070-") {
		t.Errorf("%q: want it to say where it is", own)
	}
	ids := map[string]bool{own: true}
	for _, other := range []string{
		// Another machine that was set up alike.
		instanceOf("rm-2", "127.0.0.1:7070", base),
		// With the same address by mistake.
		instanceOf("rm-1", "127.0.0.1:7071", base),
		instanceOf("rm-1", "127.0.0.1:7070", "https://[fe80::1%25]:1"), // behind something
		instanceOf("rm-1", "0.0.0.0:7070", "https://"+strings.Repeat("long.", 60)+"example.com:7070"),
	} {
		if ids[other] {
			t.Errorf("%q: want one that nobody else has", other)
		}
		if !regexp.MustCompile(`^[A-Za-z0-9._-]{1,128}$`).MatchString(other) {
			t.Errorf("%q: Consul does not take that", other)
		}
		ids[other] = true
	}
}

func TestElectedCoordinatorHasAnAddressForOthers(t *testing.T) {
	for listen, want := range map[string]bool{
		"127.0.0.1:7070": false, "localhost:7070": false, "[::1]:7070": false, "127.9.9.9:1": false, "10.0.0.1:7070": true, "rm-1:7070": true,
	} {
		err := reachable(coordinator.Config{Listen: listen})
		if (err == nil) != want {
			t.Errorf("%s: %v", listen, err)
		}
		var wrong *coordinator.ConfigError
		if err != nil && (!errors.As(err, &wrong) || wrong.Field != "advertise" || !strings.Contains(wrong.Want, listen)) {
			t.Errorf("%s: %v: want one about advertise", listen, err)
		}
		if err := reachable(coordinator.Config{Listen: listen, Advertise: "http://127.0.0.1:7070"}); err != nil {
			t.Errorf("%s: %v: want what was said to be taken", listen, err)
		}
	}
	serves := coordinator.Config{Advertise: "http://rm-1:7070"}
	serves.TLS.Cert, serves.TLS.Key = "cert.pem", "key.pem"
	if err := reachable(serves); err == nil || !strings.Contains(err.Error(), "advertise") {
		t.Errorf("%v: want TLS to be advertised where it is served", err)
	}
}

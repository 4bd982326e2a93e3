package discovery

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStaticKeepsTheListInItsOrder(t *testing.T) {
	finder, err := Static([]string{"https://B.example.com:7070/", "http://10.0.0.1:7070", "http://[::1]:7070", "https://a"})
	if err != nil {
		t.Fatal(err)
	}
	list, changed := finder.Coordinators()
	want := []Coordinator{{URL: "https://b.example.com:7070"}, {URL: "http://10.0.0.1:7070"}, {URL: "http://[::1]:7070"}, {URL: "https://a"}}
	if diff := cmp.Diff(want, list); diff != "" {
		t.Errorf("coordinators (-want +got):\n%s", diff)
	}
	select {
	case <-changed:
		t.Error("a static list changed")
	default:
	}
}

func TestStaticRefusesWhatCannotBeCalled(t *testing.T) {
	for _, test := range []struct{ name, url, want string }{
		{"nothing", "", "http://"},
		{"no scheme", "bursar-1:7070", "http://"},
		{"another scheme", "ftp://bursar-1:7070", "http://"},
		{"no host", "http://:7070", "with a host"},
		{"port 0", "http://a:0", "port"},
		{"a large port", "http://a:65536", "port"},
		{"an empty port", "http://a:", "port"},
		{"a port in words", "http://a:http", "a URL such as"},
		{"a path", "http://a:7070/bursar", "without a path"},
		{"a query", "http://a:7070?x=1", "without a path"},
		{"an empty query", "http://a:7070?", "without a path"},
		{"a fragment", "http://a:7070#x", "without a path"},
		{"a space", "http://a b:7070", "a URL such as"},
		{"the same again", "HTTP://GOOD:7070/", "once"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Static([]string{"http://good:7070", test.url})
			var wrong *URLError
			if !errors.As(err, &wrong) {
				t.Fatalf("error %v: want a *URLError", err)
			}
			if wrong.URL != test.url || !strings.Contains(wrong.Want, test.want) {
				t.Errorf("error %+v: want one about %q that says %q", wrong, test.url, test.want)
			}
		})
	}
}

func TestStaticRefusesAnEmptyList(t *testing.T) {
	var wrong *URLError
	if _, err := Static(nil); !errors.As(err, &wrong) {
		t.Errorf("error %v: want a *URLError", err)
	}
}

func TestPasswordInAURLStaysOutOfTheError(t *testing.T) {
	for _, url := range []string{"http://admin:s3cret@a:7070", "://admin:s3cret@a", "http://admin:s3cret@a b"} {
		_, err := ParseURL(url)
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: error %v: want one without the password", url, err)
		}
	}
}

func TestLoopbackIsThisMachineAlone(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "127.0.0.1": true, "127.8.9.1": true, "::1": true, "::ffff:127.0.0.1": true,
		"": false, "0.0.0.0": false, "10.0.0.1": false, "localhost.example.com": false, "127.0.0.1.example.com": false, "rm-1": false,
	} {
		if got := Loopback(host); got != want {
			t.Errorf("%q: %v, want %v", host, got, want)
		}
	}
}

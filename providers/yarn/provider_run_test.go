package yarn

import (
	"strings"
	"testing"
	"time"
)

func TestAfterAFailoverFiguresAreNotTrustedUntilMachinesAreBack(t *testing.T) {
	clock := newClock()
	first, second := newRM(t), newRM(t)
	second.state, second.id = "STANDBY", first.id+1
	p := openAt(t, kind{now: clock.Now}, []*fakeRM{first, second})
	want := func(trusted bool, part string) {
		t.Helper()
		s := snapshot(t, p)
		if (s.Untrusted == "") != trusted || !strings.Contains(s.Untrusted, part) {
			t.Errorf("untrusted: %q, want trusted %v, %q", s.Untrusted, trusted, part)
		}
	}
	size := func(rm *fakeRM, memory int) { rm.change(func() { rm.memory = memory }) }
	want(true, "")

	first.Close()
	second.change(func() { second.state, second.memory = "ACTIVE", 0 })
	want(false, "no machine of the cluster has reported")
	size(second, 57<<10) // 89 %
	want(false, "not all of its machines are back (57GiB and 57 cores of 64GiB and 64 cores)")
	size(second, 58<<10) // 91 %
	want(true, "")
	size(second, 10<<10) // shrinks within the same run: the new size counts
	want(true, "")
	size(second, 0)
	want(false, "no machine of the cluster has reported")
	clock.advance(time.Hour) // no time limit makes an empty cluster trusted
	want(false, "no machine of the cluster has reported")
	size(second, 10<<10)
	want(true, "")

	// It restarts and half of the machines stay away: after a minute the smaller size counts.
	second.change(func() { second.id, second.memory = second.id+1, 5<<10 })
	second.CloseClientConnections()
	want(false, "not all of its machines are back")
	clock.advance(59 * time.Second)
	want(false, "not all of its machines are back")
	clock.advance(time.Second)
	want(true, "")
}

// The size to compare with is that of the last trusted reading, however often the active server
// changes until then.
func TestFailoverDuringAFailover(t *testing.T) {
	clock := newClock()
	rm := newRM(t)
	p := openAt(t, kind{now: clock.Now}, []*fakeRM{rm})
	snapshot(t, p)
	for i, memory := range []int{20 << 10, 30 << 10} {
		rm.change(func() { rm.id, rm.memory = rm.id+1, memory })
		rm.CloseClientConnections()
		clock.advance(30 * time.Second)
		if s := snapshot(t, p); !strings.Contains(s.Untrusted, "of 64GiB") {
			t.Errorf("restart %d: %q", i, s.Untrusted)
		}
	}
	clock.advance(30 * time.Second)
	if s := snapshot(t, p); s.Untrusted == "" {
		t.Error("trusted 30 s after the second restart")
	}
}

// A quick restart breaks the connection, which the provider notices. It then repeats the reading.
func TestQuickRestartIsNoticed(t *testing.T) {
	clock := newClock()
	rm := newRM(t)
	p := openAt(t, kind{now: clock.Now}, []*fakeRM{rm})
	snapshot(t, p)
	rm.takeAsked()
	rm.change(func() { rm.id, rm.memory = rm.id+1, 8<<10 })
	rm.CloseClientConnections()
	clock.advance(5 * time.Second)
	s := snapshot(t, p)
	if want := rm.URL + " 1700000000001"; s.Incarnation != want || s.Untrusted == "" {
		t.Errorf("%s, untrusted %q; want %s and not to be trusted", s.Incarnation, s.Untrusted, want)
	}
	if got := paths(rm.takeAsked()); got != "/info×1 /scheduler×2" {
		t.Errorf("asked: %s", got)
	}
	// A server that closes its connections is asked for its state each time, and its queues are
	// read once.
	rm.Config.SetKeepAlivesEnabled(false)
	for range 3 {
		snapshot(t, p)
		rm.takeAsked()
	}
	snapshot(t, p)
	if got := paths(rm.takeAsked()); got != "/info×1 /scheduler×1" {
		t.Errorf("without connections that are kept: %s", got)
	}
}

func TestActiveOneThatSaysItStandsByIsLeft(t *testing.T) {
	clock := newClock()
	first, second := newRM(t), newRM(t)
	second.state = "STANDBY"
	p := openAt(t, kind{now: clock.Now}, []*fakeRM{first, second})
	snapshot(t, p)
	// It answers normally, except for /info.
	first.does("/scheduler", answerJSON(fairAnswer(1024)))
	first.change(func() { first.state = "STANDBY" })
	second.change(func() { second.state = "ACTIVE" })
	clock.advance(time.Minute)
	if s := snapshot(t, p); s.Server != second.URL {
		t.Errorf("from %s", s.Server)
	}
}

// Servers other than ResourceManagers in high availability: no state, quoted numbers.
func TestInfoOfOtherVersions(t *testing.T) {
	rm := newRM(t)
	p := openAt(t, kind{}, []*fakeRM{rm})
	for body, want := range map[string]string{
		`{"clusterInfo":{"id":1324053971963,"startedOn":1324053971963,"state":"STARTED"}}`:            rm.URL + " 1324053971963",
		`{"clusterInfo":{"startedOn":"1324053971963","haState":"active","users":null}}`:               rm.URL + " 1324053971963",
		`{"clusterInfo":{"id":1,"startedOn":1,"haState":"ACTIVE","subClusterId":{"id":"x"}},"x":[1]}`: rm.URL + " 1",
		`{"clusterInfo":{}}`: "", `{"clusterInfo":null}`: "", `{}`: "", `[]`: "", `{"clusterInfo":{"id":"no"}}`: "",
		`{"clusterInfo":{"id":1,"haState":"ACTIVE"}} {}`: "", `{"clusterInfo":{"id":1,"haState":"ACTIVE"`: "",
	} {
		rm.does("/info", answerJSON(body))
		p.active = nil
		s, err := p.Snapshot(t.Context())
		if (err == nil) != (want != "") || s.Incarnation != want {
			t.Errorf("%s: %q, %v; want %q", body, s.Incarnation, err, want)
		}
	}
}

package yarn

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The error does not claim that a server does not answer if it was not asked, or if it answered.
func TestWhoWasNotAskedIsNotBlamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		web := newNetwork()
		one, two := web.start(t, "rm1:8088"), web.start(t, "rm2:8088")
		two.state = "STANDBY"
		p := openAt(t, kind{dial: web.dial}, []*fakeRM{one, two})
		snapshot(t, p)
		check := func(ctx context.Context, want map[string]Trouble, says string) {
			t.Helper()
			two.takeAsked()
			_, err := p.Snapshot(ctx)
			wantUnavailable(t, err, strings.HasPrefix(says, "no active"))
			got := troubles(t, err)
			for at, trouble := range want {
				if got[at] == nil || got[at].Trouble != trouble {
					t.Errorf("%s: %v; want that it %s", at, got[at], trouble)
				}
			}
			if asked := len(two.takeAsked()) > 0; asked != (want[two.URL] != NotAsked) {
				t.Errorf("%s was asked: %v", two.URL, asked)
			}
			if !strings.HasPrefix(err.Error(), says) {
				t.Errorf("it says %v; want %s", err, says)
			}
		}
		// The caller cancels during the request to the active server.
		one.does("/scheduler", hang)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		check(ctx, map[string]Trouble{one.URL: Unreachable, two.URL: NotAsked}, "no server can be read: ")
		// Before any request.
		check(ctx, map[string]Trouble{one.URL: NotAsked, two.URL: NotAsked}, "no server can be read: ")
		one.does("/scheduler", nil)
		// The active server is slow, and gets all of the time.
		one.does("/scheduler", func(w http.ResponseWriter, r *http.Request) {
			time.Sleep(4 * time.Second)
			answerJSON(fairAnswer(1024))(w, r)
		})
		snapshot(t, p)
		one.does("/scheduler", hang)
		check(t.Context(), map[string]Trouble{one.URL: Unreachable, two.URL: NotAsked}, "no server can be read: ")
		// All servers are asked, and one of them answers.
		one.does("*", hang)
		check(t.Context(), map[string]Trouble{one.URL: Unreachable}, "no active server: ")
		two.does("*", hang)
		check(t.Context(), map[string]Trouble{one.URL: Unreachable, two.URL: Unreachable}, "no server answers: ")
	})
}

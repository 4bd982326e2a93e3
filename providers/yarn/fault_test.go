package yarn

import (
	"context"
	"net/http"
	"testing"
	"time"
)

// fallsOver returns the value that a call panics with in this goroutine.
func fallsOver(t *testing.T, call func()) (cause any) {
	t.Helper()
	defer func() {
		if cause = recover(); cause == nil {
			t.Error("nothing was to be seen of the panic")
		}
	}()
	call()
	return nil
}

func TestAPanicComesToTheCaller(t *testing.T) {
	rm := newRM(t)
	p := openAt(t, kind{now: time.Now}, []*fakeRM{rm})
	snapshot(t, p)
	rm.does("*", answerWith(http.StatusInternalServerError, "ouch", "Content-Type", "text/plain"))
	rm.does("/info", answerWith(http.StatusInternalServerError, "ouch", "Content-Type", "text/plain"))
	p.servers[0].hide = func(string) string { panic("hidden too well") }
	for name, call := range map[string]func(){
		"a check": func() { p.Servers(t.Context()) },
		"the applications": func() {
			_, _ = p.Applications(t.Context(), []string{"application_1_1", "application_1_2", "application_1_3", "application_1_4", "application_1_5", "application_1_6"})
		},
	} {
		if cause, ok := fallsOver(t, call).(error); !ok || cause.Error() != "hidden too well" {
			t.Errorf("%s: %v", name, cause)
		}
	}
}

func TestAPanicOfALibraryKeepsNobodyFromTheNextTicket(t *testing.T) {
	k := &kerberos{turn: make(chan struct{}, 1)} // panics without files
	k.turn <- struct{}{}
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_ = fallsOver(t, func() { _, _ = k.token(ctx, "HTTP/rm") })
		cancel()
	}
	k.close()
}

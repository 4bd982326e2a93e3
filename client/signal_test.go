package client_test

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// A second signal may have another effect than the first: a signal that may have arrived is not
// sent again.
func TestASignalIsNotRepeated(t *testing.T) {
	var calls atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		calls.Add(1)
		panic(http.ErrAbortHandler)
	}))
	defer server.Close()
	c, err := client.New(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Engines().Signal(t.Context(), &bursarv1.SignalRequest{Id: "a", Signal: bursarv1.Signal_SIGNAL_USR1})
	if err == nil || !client.Undecided(err) || calls.Load() != 1 {
		t.Errorf("%v after %d attempts: want one, whose effect is not known", err, calls.Load())
	}
}

package report

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
)

func TestSeriesOfFailuresIsToldWhenItChanges(t *testing.T) {
	var s series
	a, b := errors.New("a: connection refused"), errors.New("b: connection refused")
	var loud []int
	for i := 1; i <= 2*loudEvery; i++ {
		err := a
		if i%2 == 0 {
			err = b
		}
		if i == 7 {
			err = errors.New("the token is not known")
		}
		if s.loud(err) {
			loud = append(loud, i)
		}
	}
	if got, want := fmt.Sprint(loud), "[1 2 7 30 60]"; got != want {
		t.Errorf("logged at %s, want %s", got, want)
	}
}

func TestSeriesOfEverOtherTextsIsNoFlood(t *testing.T) {
	var s series
	told := 0
	for i := range loudEvery {
		if s.loud(fmt.Errorf("read 127.0.0.1:%d: connection reset", i)) {
			told++
		}
	}
	if told != loudTexts+1 {
		t.Errorf("logged %d times, want %d", told, loudTexts+1)
	}
}

func TestRefusalIsNotToldAsSilence(t *testing.T) {
	for code, want := range map[connect.Code]string{
		connect.CodeUnavailable:      "the coordinator does not answer",
		connect.CodeUnauthenticated:  "the coordinator refuses this agent",
		connect.CodePermissionDenied: "the coordinator refuses this agent",
	} {
		var out bytes.Buffer
		r := &Reporter{log: slog.New(slog.NewJSONHandler(&out, nil))}
		r.logFailure(t.Context(), &series{}, fmt.Errorf("sync: %w", connect.NewError(code, errors.New("why"))), 1234567*time.Microsecond)
		if got := out.String(); !strings.Contains(got, want) || !strings.Contains(got, `"retry_in":"1.235s"`) {
			t.Errorf("%v: logged %s", code, got)
		}
	}
}

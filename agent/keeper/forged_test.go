package keeper_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/agent/keeper"
)

// An attacker who controls a keeper can make it say anything. No terminal must act on that, and it
// must not fill a log.
func TestWhatAForgedKeeperSaysIsPrintable(t *testing.T) {
	record, err := keeper.DecodeRecord([]byte(
		`{"exit":{"code":3},"time":"2026-01-02T03:04:05Z","stderr":["","\u001b[2Jgone","\n"," \u202ea","` + strings.Repeat("x", 20<<10) + `"]}` + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"[2Jgone", "a", strings.Repeat("x", 8<<10)}, record.Stderr); diff != "" {
		t.Error(diff)
	}
	started, err := keeper.DecodeStarted([]byte(`{"field":"\u001b[1m","value":"` + strings.Repeat("v", 20<<10) + `","want":"a\nb","error":"\u001b[31mred"}` + "\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := keeper.Started{Field: "[1m", Value: strings.Repeat("v", 8<<10), Want: "ab", Error: "[31mred"}
	if diff := cmp.Diff(want, started); diff != "" {
		t.Error(diff)
	}
}

package journal

import (
	"log/slog"
	"strings"
	"testing"
)

func TestLinesForTheJournalHavePrioritiesAndNoTime(t *testing.T) {
	var out strings.Builder
	log := slog.New(NewHandler(&out, slog.LevelDebug)).With("host_id", "vm-one")
	log.Debug("one")
	log.Info("two", "text", "a b\nc", "level", 7)
	log.Warn("three")
	log.WithGroup("g").Error("four", "time", "x")
	const want = "<7>msg=one host_id=vm-one\n<6>msg=two host_id=vm-one text=\"a b\\nc\"\n<4>msg=three host_id=vm-one\n<3>msg=four host_id=vm-one g.time=x\n"
	if out.String() != want {
		t.Errorf("got\n%swant\n%s", out.String(), want)
	}
}

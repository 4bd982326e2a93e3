package keeper_test

import (
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/agent/keeper"
)

func TestLooksThatCannotBeMade(t *testing.T) {
	spec := func(look keeper.Look) keeper.Spec {
		look.Interval, look.Limit = time.Second, time.Second
		if look.Within == 0 {
			look.Within = time.Second
		}
		return keeper.Spec{
			ID: "a1", Command: []string{"x"}, WorkingDirectory: "/", Log: keeper.Log{Directory: "/", MaxBytes: 1}, Look: &look,
		}
	}
	line := func(pattern string, streams ...string) *keeper.LineLook {
		return &keeper.LineLook{Pattern: pattern, Streams: streams}
	}
	for name, test := range map[string]struct {
		look keeper.Look
		want string // part of the error; "": there is none
	}{
		"a file":          {keeper.Look{File: "/x"}, ""},
		"a line":          {keeper.Look{Line: line("x", "stdout", "stderr")}, ""},
		"a command":       {keeper.Look{Command: []string{"x"}}, ""},
		"none":            {keeper.Look{}, "0 checks"},
		"two":             {keeper.Look{File: "/x", Command: []string{"x"}}, "2 checks"},
		"a relative path": {keeper.Look{File: "x"}, "not absolute"},
		"a zero byte":     {keeper.Look{File: "/x\x00"}, "zero byte"},
		"no program":      {keeper.Look{Command: []string{""}}, "no command"},
		"no stream":       {keeper.Look{Line: line("x")}, "no stream"},
		"another file":    {keeper.Look{Line: line("x", "../../etc/passwd")}, "want stdout or stderr"},
		"no time":         {keeper.Look{File: "/x", Within: -1}, "within"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := keeper.Encode(spec(test.look))
			if err != nil {
				t.Fatal(err)
			}
			_, err = keeper.DecodeSpec(text)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v: want %q", err, test.want)
			}
		})
	}
}

func TestWhatAForgedHelperSaysIsPrintable(t *testing.T) {
	got, found := keeper.DecodeLooked([]byte(
		`{"looked":{"reason":"` + strings.Repeat("y", 1<<10) + `\u001b[2J\n","time":"2026-01-02T03:04:05Z"}}` + "\n" + `{"looked":{"ready":true}}` + "\n" + `{"looked":{"ready":true,"time":"2026-01`))
	if !found || got.Ready || got.Reason != strings.Repeat("y", keeper.MaxLookReason) {
		t.Errorf("%t: %+v", found, got)
	}
	if got, found := keeper.DecodeLooked([]byte("\x00\n{}\n\n")); found {
		t.Errorf("%+v", got)
	}
}

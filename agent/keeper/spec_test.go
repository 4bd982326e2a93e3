package keeper_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/agent/keeper"
)

func TestLastWholeRecordCounts(t *testing.T) {
	one, err := keeper.Encode(keeper.Record{Exit: keeper.Exit{Code: new(int32(1))}, Time: time.Unix(5, 0).UTC()})
	if err != nil {
		t.Fatal(err)
	}
	two, err := keeper.Encode(keeper.Record{Exit: keeper.Exit{Signal: 9}, Time: time.Unix(6, 0).UTC(), Stderr: []string{"<&>"}})
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		content string
		signal  int32
		none    bool
	}{
		"the last":                  {string(one) + string(two), 9, false},
		"behind a crash":            {"panic: x\n\ngoroutine 1:\n" + string(two), 9, false},
		"before something else":     {string(two) + "fatal error: x\n", 9, false},
		"before one that is cut":    {string(two) + string(one[:len(one)-1]), 9, false},
		"nothing":                   {"", 0, true},
		"one that is cut":           {string(two[:len(two)-1]), 0, true},
		"a code and a signal":       {`{"exit":{"code":1,"signal":9},"time":"2020-01-01T00:00:00Z"}` + "\n", 0, true},
		"neither":                   {`{"exit":{},"time":"2020-01-01T00:00:00Z"}` + "\n", 0, true},
		"a code that none is":       {`{"exit":{"code":256},"time":"2020-01-01T00:00:00Z"}` + "\n", 0, true},
		"a signal that none is":     {`{"exit":{"signal":65},"time":"2020-01-01T00:00:00Z"}` + "\n", 0, true},
		"no time":                   {`{"exit":{"signal":9}}` + "\n", 0, true},
		"less than nothing dropped": {`{"exit":{"signal":9},"time":"2020-01-01T00:00:00Z","dropped_bytes":-1}` + "\n", 0, true},
		"more lines than there are": {`{"exit":{"signal":9},"time":"2020-01-01T00:00:00Z","stderr":[` + strings.Repeat(`"",`, 100) + `""]}` + "\n", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := keeper.DecodeRecord([]byte(test.content))
			if (err != nil) != test.none || got.Exit.Signal != test.signal {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// FuzzSpec: what is accepted can be started, and is the same when it is sent on.
func FuzzSpec(f *testing.F) {
	good, err := keeper.Encode(keeper.Spec{
		ID: "a1", Command: []string{"/bin/true", "x\ny"}, Environment: []string{"A=b"}, WorkingDirectory: "/tmp",
		Log: keeper.Log{Directory: "/tmp", MaxBytes: 1, Keep: 3}, StderrLines: 20, OwnCgroup: true,
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(append(good, good...))
	f.Add([]byte(`{"command":["\u0000"]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		spec, err := keeper.DecodeSpec(line)
		if err != nil {
			return
		}
		if len(spec.Command) == 0 || spec.Command[0] == "" || spec.WorkingDirectory[0] != '/' || spec.Log.Directory[0] != '/' || spec.Log.MaxBytes <= 0 {
			t.Errorf("accepted: %+v", spec)
		}
		again, err := keeper.Encode(spec)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Count(again, []byte("\n")) != 1 {
			t.Errorf("more than a line: %q", again)
		}
		other, err := keeper.DecodeSpec(again)
		if err != nil {
			t.Fatalf("%v of %q", err, again)
		}
		if diff := cmp.Diff(spec, other); diff != "" {
			t.Error(diff)
		}
	})
}

// FuzzRecord: the engine's user may have written anything.
func FuzzRecord(f *testing.F) {
	f.Add([]byte(`{"exit":{"code":3},"time":"2026-01-02T03:04:05Z","stderr":["a"],"dropped_bytes":7}` + "\n"))
	f.Add([]byte("panic: x\n" + `{"exit":{"signal":9},"time":"2026-01-02T03:04:05Z","out_of_memory":true}` + "\n"))
	f.Fuzz(func(t *testing.T, content []byte) {
		record, err := keeper.DecodeRecord(content)
		if err != nil {
			return
		}
		code, signal := record.Exit.Code, record.Exit.Signal
		if code != nil && (*code < 0 || *code > 255 || signal != 0) || code == nil && (signal < 1 || signal > 64) {
			t.Errorf("exit %+v", record.Exit)
		}
		if record.Time.IsZero() || record.DroppedBytes < 0 || len(record.Stderr) > keeper.MaxStderrLines {
			t.Errorf("%+v", record)
		}
	})
}

// FuzzStarted: so may it here.
func FuzzStarted(f *testing.F) {
	f.Add([]byte(`{"pid":77,"start_time":5}` + "\n"))
	f.Add([]byte(`{"field":"command[0]","value":"x","want":"y","error":"z"}` + "\n"))
	f.Fuzz(func(t *testing.T, line []byte) {
		if s, err := keeper.DecodeStarted(line); err == nil && s.Error == "" && (s.PID <= 1 || s.StartTime == 0) {
			t.Errorf("%+v", s)
		}
	})
}

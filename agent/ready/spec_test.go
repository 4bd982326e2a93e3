package ready_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/agent/launch"
	"github.com/bursar/bursar/agent/ready"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestChecksThatCannotBeMeant(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for name, test := range map[string]struct {
		spec  ready.Spec
		field string // without its prefix; "": the check is right
		value string
	}{
		"none":                        {ready.Spec{}, "check", "0 checks"},
		"two":                         {ready.Spec{Port: 80, File: "/x"}, "check", "2 checks"},
		"a port":                      {ready.Spec{Port: 65535}, "", ""},
		"a large port":                {ready.Spec{Port: 65536}, "port", "65536"},
		"a negative port":             {ready.Spec{Port: -1}, "port", "-1"},
		"a long path":                 {ready.Spec{File: long}, "file", long[:100]},
		"a path with a zero byte":     {ready.Spec{File: "/a\x00b"}, "file", "/a\x00b"},
		"an empty pattern":            {ready.Spec{Line: &ready.Line{}}, "line.pattern", ""},
		"no regular expression":       {ready.Spec{Line: &ready.Line{Pattern: "a("}}, "line.pattern", "a("},
		"no RE2":                      {ready.Spec{Line: &ready.Line{Pattern: `(a)\1`}}, "line.pattern", `(a)\1`},
		"a long pattern":              {ready.Spec{Line: &ready.Line{Pattern: long}}, "line.pattern", long[:100]},
		"a pattern that grows":        {ready.Spec{Line: &ready.Line{Pattern: "((((a{30}){30}){30}){30}){30}"}}, "line.pattern", "((((a{30}){30}){30}){30}){30}"},
		"a pattern that grows widely": {ready.Spec{Line: &ready.Line{Pattern: strings.Repeat("x{500}", 9)}}, "line.pattern", strings.Repeat("x{500}", 9)},
		"a pattern of two lines":      {ready.Spec{Line: &ready.Line{Pattern: "a\nb"}}, "line.pattern", "a\nb"},
		"a pattern of two lines too":  {ready.Spec{Line: &ready.Line{Pattern: `(ready\n)+`}}, "line.pattern", `(ready\n)+`},
		"a line break that may be":    {ready.Spec{Line: &ready.Line{Pattern: `ready(\n|$)[^\n]*`}}, "", ""},
		"a stream":                    {ready.Spec{Line: &ready.Line{Pattern: "a", Stream: "stdin"}}, "line.stream", "stdin"},
		"a command":                   {ready.Spec{Command: []string{"curl", "s3cret"}}, "", ""},
		"a command without a name":    {ready.Spec{Command: []string{"", "s3cret"}}, "command.command", ""},
		"a relative program":          {ready.Spec{Command: []string{"bin/x", "s3cret"}}, "command.command", "bin/x"},
		"a zero byte in an argument":  {ready.Spec{Command: []string{"x", "s3cret\x00"}}, "command.command", "x"},
		"too many arguments":          {ready.Spec{Command: append([]string{"x"}, strings.Repeat("s3cret", 1<<20))}, "command.command", "x"},
		"a negative time":             {ready.Spec{Port: 80, Within: -1}, "within", "-1ns"},
		"a long time":                 {ready.Spec{Port: 80, Within: 25 * time.Hour}, "within", "25h0m0s"},
		"a short interval":            {ready.Spec{Port: 80, Interval: time.Millisecond}, "interval", "1ms"},
		"a long interval":             {ready.Spec{Port: 80, Interval: time.Hour}, "interval", "1h0m0s"},
	} {
		t.Run(name, func(t *testing.T) { expectField(t, test.spec.Check(), test.field, test.value) })
	}
}

// expectField expects an error about a field, with its value and what would be right.
func expectField(t *testing.T, err error, field, value string) {
	t.Helper()
	if field == "" {
		if err != nil {
			t.Error(err)
		}
		return
	}
	wrong, is := errors.AsType[*launch.FieldError](err)
	if !is || wrong.Field != "readiness."+field || wrong.Value != value || wrong.Want == "" || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%v: want one about %s, %q", err, field, value)
	}
}

func TestChecksOfRequests(t *testing.T) {
	for name, test := range map[string]struct {
		request *bursarv1.Readiness
		want    ready.Spec
		field   string
		value   string
	}{
		"none":   {&bursarv1.Readiness{}, ready.Spec{}, "check", "0 checks"},
		"nil":    {nil, ready.Spec{}, "check", "0 checks"},
		"port 0": {&bursarv1.Readiness{Check: &bursarv1.Readiness_Port{}}, ready.Spec{}, "port", "0"},
		"a port": {
			&bursarv1.Readiness{Check: &bursarv1.Readiness_Port{Port: 80}, Within: durationpb.New(time.Minute)},
			ready.Spec{Port: 80, Within: time.Minute},
			"", "",
		},
		"no time": {
			&bursarv1.Readiness{Check: &bursarv1.Readiness_Port{Port: 80}, Within: durationpb.New(0)}, ready.Spec{}, "within", "0s",
		},
		"a time that is none": {
			&bursarv1.Readiness{Check: &bursarv1.Readiness_Port{Port: 80}, Within: &durationpb.Duration{Seconds: 1 << 60}}, ready.Spec{}, "within", "2562047h47m16.854775807s",
		},
		"a file":        {&bursarv1.Readiness{Check: &bursarv1.Readiness_File{File: "a/b"}}, ready.Spec{File: "a/b"}, "", ""},
		"an empty file": {&bursarv1.Readiness{Check: &bursarv1.Readiness_File{}}, ready.Spec{}, "file", ""},
		"a line": {
			&bursarv1.Readiness{Check: &bursarv1.Readiness_Line{Line: &bursarv1.LineCheck{Pattern: "x", Stream: bursarv1.OutputStream_OUTPUT_STREAM_STDERR}}},
			ready.Spec{Line: &ready.Line{Pattern: "x", Stream: ready.Stderr}},
			"", "",
		},
		"an unknown stream": {
			&bursarv1.Readiness{Check: &bursarv1.Readiness_Line{Line: &bursarv1.LineCheck{Pattern: "x", Stream: 9}}}, ready.Spec{}, "line.stream", "9",
		},
		"a line that is nil": {&bursarv1.Readiness{Check: &bursarv1.Readiness_Line{}}, ready.Spec{}, "check", "0 checks"},
		"a command": {
			&bursarv1.Readiness{Check: &bursarv1.Readiness_Command{Command: &bursarv1.CommandCheck{Command: []string{"a", "b"}}}},
			ready.Spec{Command: []string{"a", "b"}},
			"", "",
		},
		"an empty command": {&bursarv1.Readiness{Check: &bursarv1.Readiness_Command{Command: &bursarv1.CommandCheck{}}}, ready.Spec{}, "command.command", ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ready.FromProto(test.request)
			expectField(t, err, test.field, test.value)
			if diff := cmp.Diff(test.want, got); err == nil && diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What an agent stores has nothing of the user's, and is the same after it was read.
func TestWhatIsStored(t *testing.T) {
	for name, test := range map[string]struct {
		spec ready.Spec
		want string
	}{
		"port":    {ready.Spec{Port: 80}, `{"port":80,"within":300000000000,"interval":1000000000}`},
		"file":    {ready.Spec{File: "/s3cret", Within: time.Hour}, `{"what":"file","within":3600000000000,"interval":1000000000}`},
		"line":    {ready.Spec{Line: &ready.Line{Pattern: "s3cret"}}, `{"what":"line","within":300000000000,"interval":1000000000}`},
		"command": {ready.Spec{Command: []string{"s3cret"}, Interval: 2 * time.Second}, `{"what":"command","within":300000000000,"interval":2000000000}`},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := json.Marshal(test.spec.Stored())
			if err != nil || string(text) != test.want {
				t.Errorf("%s, %v: want %s", text, err, test.want)
			}
			var read ready.Check
			if err := json.Unmarshal(text, &read); err != nil || read != test.spec.Stored() {
				t.Errorf("%+v, %v", read, err)
			}
		})
	}
}

func TestChecksWhoseResultCannotBeSeen(t *testing.T) {
	folder := t.TempDir()
	script := filepath.Join(folder, "script")
	if err := os.WriteFile(script, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	sees := func() string { return "" }
	root := ready.Sight{Proc: "/proc", UID: 0, MayTrace: true, Blind: sees, Keeper: programs.keeper}
	user := ready.Sight{Proc: "/proc", UID: 1000, Blind: sees, Keeper: programs.keeper}
	launched := ready.Subject{UID: 1000, Launched: true, WorkingDirectory: "/"}
	other := ready.Subject{UID: 1001, Launched: true, WorkingDirectory: "/"}
	change := func(s ready.Sight, change func(*ready.Sight)) ready.Sight { change(&s); return s }
	for name, test := range map[string]struct {
		sight ready.Sight
		spec  ready.Spec
		on    ready.Subject
		field string
		value string
	}{
		"root sees all ports":            {root, ready.Spec{Port: 80}, launched, "", ""},
		"an agent's own user":            {user, ready.Spec{Port: 80}, launched, "", ""},
		"another user":                   {user, ready.Spec{Port: 80}, other, "port", "80"},
		"root without the capability":    {change(root, func(s *ready.Sight) { s.MayTrace = false }), ready.Spec{Port: 80}, other, "port", "80"},
		"hidepid":                        {change(root, func(s *ready.Sight) { s.Blind = func() string { return "hidepid" } }), ready.Spec{Port: 80}, other, "port", "80"},
		"hidepid, and its own user":      {change(user, func(s *ready.Sight) { s.Blind = func() string { return "hidepid" } }), ready.Spec{Port: 80}, launched, "", ""},
		"no process table":               {change(root, func(s *ready.Sight) { s.Proc = folder }), ready.Spec{Port: 80}, launched, "port", "80"},
		"a port of a confirmed engine":   {root, ready.Spec{Port: 80}, ready.Subject{UID: 1000}, "", ""},
		"a file of a confirmed engine":   {root, ready.Spec{File: "/x"}, ready.Subject{UID: 1000}, "file", "/x"},
		"a line of a confirmed engine":   {root, ready.Spec{Line: &ready.Line{Pattern: "x"}}, ready.Subject{UID: 1000}, "line.pattern", "x"},
		"a command of one":               {root, ready.Spec{Command: []string{"x", "s3cret"}}, ready.Subject{UID: 1000}, "command.command", "x"},
		"no keeper":                      {change(root, func(s *ready.Sight) { s.Keeper = "" }), ready.Spec{File: "/x"}, launched, "file", "/x"},
		"a keeper that is not there":     {change(root, func(s *ready.Sight) { s.Keeper = folder + "/none" }), ready.Spec{File: "/x"}, launched, "file", "/x"},
		"a keeper that is a folder":      {change(root, func(s *ready.Sight) { s.Keeper = folder }), ready.Spec{File: "/x"}, launched, "file", "/x"},
		"a keeper that is no program":    {change(root, func(s *ready.Sight) { s.Keeper = script }), ready.Spec{File: "/x"}, launched, "file", "/x"},
		"a port needs no keeper":         {change(root, func(s *ready.Sight) { s.Keeper = "" }), ready.Spec{Port: 80}, launched, "", ""},
		"a file":                         {user, ready.Spec{File: "x"}, launched, "", ""},
		"a relative path without a base": {user, ready.Spec{File: "x"}, ready.Subject{UID: 1000, Launched: true}, "file", "x"},
		"an absolute path without one":   {user, ready.Spec{File: "/x"}, ready.Subject{UID: 1000, Launched: true}, "", ""},
		"a check that is wrong":          {user, ready.Spec{Port: 70000}, launched, "port", "70000"},
	} {
		t.Run(name, func(t *testing.T) { expectField(t, test.sight.Refuse(test.spec, test.on), test.field, test.value) })
	}
}

func TestTheSightOfThisProcess(t *testing.T) {
	s := ready.Own("/proc", programs.keeper, nil)
	if s.UID != uint32(os.Geteuid()) || os.Geteuid() != 0 && s.MayTrace {
		t.Errorf("%+v", s)
	}
}

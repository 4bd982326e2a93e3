package launches

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/bursar/bursar/internal/cli/cmdline"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// requested reads a command line, with a text on standard input.
func requested(t *testing.T, input string, args ...string) (*bursarv1.StartRequest, error) {
	t.Helper()
	in := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(in, []byte(input), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(in)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var f Flags
	var start *bursarv1.StartRequest
	cmd := &cobra.Command{Use: "x", SilenceErrors: true, SilenceUsage: true, RunE: func(_ *cobra.Command, args []string) error {
		start, err = f.Request(cmdline.New(cmdline.Streams{In: file}, ""), &bursarv1.AllocateRequest{Labels: map[string]string{"user": "alice"}}, args)
		return err
	}}
	cmd.Flags().StringArrayVar(&f.Env, "env", nil, "")
	f.Add(cmd, "")
	cmd.Flags().SetInterspersed(false)
	cmd.SetArgs(args)
	err = cmd.Execute()
	return start, err
}

func write(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestALaunchIsWhatTheFlagsSay(t *testing.T) {
	start, err := requested(t, "", "--dir", "/work", "--account", "bob", "--ready-line", "^up", "--ready-within", "1m", "--retries", "2",
		"--need-file", "/data", "--need-variable", "JAVA_HOME", "--env", "A=b", "--", "serve", "-x")
	if err != nil {
		t.Fatal(err)
	}
	launch := start.GetLaunch()
	if launch.GetAccount() != "bob" || launch.GetWorkingDirectory() != "/work" || strings.Join(launch.GetCommand(), " ") != "serve -x" ||
		launch.GetReady().GetLine().GetPattern() != "^up" || launch.GetReady().GetWithin().GetSeconds() != 60 || start.GetRetries() != 2 ||
		launch.GetRequiredFiles()[0] != "/data" || launch.GetRequiredVariables()[0] != "JAVA_HOME" || launch.GetEnvironment()["A"] != "b" {
		t.Errorf("%v", start)
	}
	start, err = requested(t, "", "--ready-command", "curl -f localhost", "--", "serve")
	if err != nil || start.GetLaunch().GetAccount() != "alice" || strings.Join(start.GetLaunch().GetReady().GetCommand().GetCommand(), "|") != "/bin/sh|-c|curl -f localhost" {
		t.Errorf("%v, %v", start, err)
	}
	for flag, want := range map[string]func(*bursarv1.Readiness) bool{
		"--ready-port=8080": func(r *bursarv1.Readiness) bool { return r.GetPort() == 8080 },
		"--ready-file=up":   func(r *bursarv1.Readiness) bool { return r.GetFile() == "up" },
	} {
		if start, err := requested(t, "", flag, "--", "serve"); err != nil || !want(start.GetLaunch().GetReady()) {
			t.Errorf("%s: %v, %v", flag, start, err)
		}
	}
}

// The file of variables is read as it is: no shell is between.
func TestVariablesComeFromFiles(t *testing.T) {
	file := write(t, "# words\n\nA=1\r\nB='x y'\nC=a=b\nD=\n  # more\n")
	start, err := requested(t, "", "--env-file", file, "--env", "A=2", "--", "job")
	want := map[string]string{"A": "2", "B": "'x y'", "C": "a=b", "D": ""}
	if err != nil || !maps.Equal(start.GetLaunch().GetEnvironment(), want) {
		t.Errorf("%v, %v", start, err)
	}
	for _, content := range []string{"export A=hunter2\n", "hunter2\n", "=hunter2\n", " A=hunter2\n", "A=hunter2\xff\n"} {
		_, err := requested(t, "", "--env-file", write(t, content), "--", "job")
		if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%q: %v", content, err)
		}
	}
}

func TestAScriptIsTakenAlong(t *testing.T) {
	script := "#!/bin/sh\necho $1 \x01\n"
	for name, args := range map[string][]string{"a file": {"--script", write(t, script), "--", "arg"}, "standard input": {"--script", "-", "--", "arg"}} {
		start, err := requested(t, script, args...)
		if err != nil || !bytes.Equal(start.GetLaunch().GetScript(), []byte(script)) || strings.Join(start.GetLaunch().GetCommand(), "") != "arg" {
			t.Errorf("%s: %v, %v", name, start, err)
		}
	}
	if _, err := requested(t, "", "--script", write(t, "\x7fELF\x00")); err != nil {
		t.Errorf("a program: %v", err)
	}
	for name, content := range map[string]string{"#!": "echo hello\n", "is empty": "", "60KiB": "#!/bin/sh\n" + strings.Repeat("#", maxScript)} {
		if _, err := requested(t, "", "--script", write(t, content)); err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "--script") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAMistakeNamesItsFlagAndTheRightForm(t *testing.T) {
	for _, test := range []struct {
		args []string
		want string
	}{
		{nil, "--script FILE"},
		{[]string{"--", ""}, "--script FILE"},
		{[]string{"--dir", "work", "--", "job"}, `--dir "work": want a path`},
		{[]string{"--need-file", "data", "--", "job"}, `--need-file "data": want a path`},
		{[]string{"--need-file", "", "--", "job"}, `--need-file "": want a path`},
		{[]string{"--need-variable", "A=b", "--", "job"}, "--need-variable"},
		{[]string{"--account", "", "--", "job"}, `--account ""`},
		{[]string{"--script", "", "--", "job"}, `--script ""`},
		{[]string{"--ready-file", "", "--", "job"}, `--ready-file ""`},
		{[]string{"--ready-port", "0", "--", "job"}, "--ready-port 0: want a port"},
		{[]string{"--ready-port", "65536", "--", "job"}, "--ready-port 65536: want a port"},
		{[]string{"--ready-port", "1", "--ready-file", "x", "--", "job"}, "--ready-port and --ready-file"},
		{[]string{"--ready-line", "(", "--", "job"}, "missing closing )"},
		{[]string{"--ready-line", strings.Repeat("a", 1025), "--", "job"}, "at most 1024"},
		{[]string{"--ready-within", "1m", "--", "job"}, "--ready-within 1m: want --ready-port"},
		{[]string{"--ready-within", "48h", "--ready-port", "1", "--", "job"}, "at most 24h"},
		{[]string{"--ready-within", "-1s", "--ready-port", "1", "--", "job"}, "not negative"},
		{[]string{"--retries", "1", "--", "job"}, "--retries 1: want a --ready-… flag"},
		{[]string{"--retries", "8", "--ready-port", "1", "--", "job"}, "from 0 to 7"},
		{[]string{"--retries", "-1", "--", "job"}, "from 0 to 7"},
		{[]string{"--account", "a b", "--", "job"}, `--account "a b": want the name of an account`},
		{[]string{"--env", "=b", "--", "job"}, "--env"},
		{[]string{"--env", "A B=1", "--", "job"}, `--env "A B": want NAME=VALUE`},
		{[]string{"--env", "A\t=1", "--", "job"}, "no blank in NAME"},
		{[]string{"--env", "BURSAR_NOT_SET_HERE", "--", "job"}, "--env BURSAR_NOT_SET_HERE: there is no such variable here"},
		{[]string{"--env-file", "/no/such/file", "--", "job"}, "--env-file"},
		{[]string{"--script", "/no/such/file"}, "--script"},
	} {
		if start, err := requested(t, "", test.args...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: %v, %v; want %q", test.args, start, err, test.want)
		}
	}
}

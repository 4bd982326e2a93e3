package command

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){Name: func() {
		os.Exit(Execute(context.Background(), "1.2.3", os.Args[1:], Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
	}})
}

// TestScripts runs testdata/*.txtar. In addition to testscript's own commands there is
//
//	code N COMMAND…   run a command that ends with exit code N
//
// FREE is an address on loopback that nobody serves. No program bursar is in PATH.
func TestScripts(t *testing.T) {
	free := unserved(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", strings.Join(withoutBursar(env.Getenv("PATH")), ":"))
			env.Setenv("FREE", free)
			env.Setenv("BURSAR_ADDR", "")
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"code": endsWith},
	})
}

func withoutBursar(path string) (folders []string) {
	for _, folder := range filepath.SplitList(path) {
		if _, err := os.Stat(filepath.Join(folder, "bursar")); err != nil {
			folders = append(folders, folder)
		}
	}
	return folders
}

func unserved(t *testing.T) string {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

func endsWith(ts *testscript.TestScript, _ bool, args []string) {
	err := ts.Exec(args[1], args[2:]...)
	ended := (*exec.ExitError)(nil)
	if !errors.As(err, &ended) || strconv.Itoa(ended.ExitCode()) != args[0] {
		ts.Fatalf("%v: want exit code %s", err, args[0])
	}
}

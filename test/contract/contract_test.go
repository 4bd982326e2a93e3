// Package contract is a snapshot of what others depend on: the help of each command, exit codes,
// the words of errors and logs, the shape of JSON, metrics, spans, the audit log, and stored
// bytes. It consists of tests and of golden files, which -update rewrites. Each file depends on
// values only, and on no name of a file, package, type or function: a change that moves or renames
// code leaves it as it is, and one that changes a word shows the word in its diff.
//
// What is held elsewhere is not repeated here: messages and procedures (make lint-proto), the
// configuration (test/docs), and what scripts of cmd/bursar compare.
package contract

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/test/proc"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const root = "../.."

// program is bursar, which TestMain builds.
var program string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "contract")
	if err == nil {
		defer os.RemoveAll(dir)
		program = filepath.Join(dir, "bursar")
		programs := []string{"./cmd/bursar", "./cmd/bursar-keeper", "./integrations/linkis/bursar-linkis-check"}
		err = proc.Build{Into: dir + "/", Packages: programs}.Run(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// golden compares a text with testdata/name, or rewrites that file.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("%s differs; if that is meant: go test ./test/contract -update (-want +got):\n%s", path, diff)
	}
}

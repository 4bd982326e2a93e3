//go:build linux

package linkis

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bursar/bursar/test/netlab"
	"github.com/bursar/bursar/test/proc"
)

// built is what TestMain has built: a program, and a folder of classes.
var built struct{ bursar, driver string }

func TestMain(m *testing.M) {
	if isFill() {
		fill()
		return
	}
	if !netlab.Inside() { // it will start this program again, or become another one
		os.Exit(netlab.Main(m))
	}
	dir, err := os.MkdirTemp("", "bursar-linkis")
	if err == nil {
		err = errors.Join(os.Chmod(dir, 0o755), build(dir)) // engines of other users have a keeper
	}
	code := 1
	if err == nil {
		code = netlab.Main(m)
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// build builds bursar and the driver at the same time.
func build(dir string) error {
	built.bursar, built.driver = filepath.Join(dir, "bursar"), filepath.Join(dir, "driver")
	programs := make(chan error)
	go func() {
		programs <- proc.Build{Into: dir + "/", Packages: []string{"./cmd/bursar", "./cmd/bursar-keeper"}}.Run(context.Background())
	}()
	return errors.Join(buildDriver(), <-programs)
}

func buildDriver() error {
	here, err := installed()
	if err != nil {
		return err
	}
	path, err := here.classPath("manager", "linkis-application-manager")
	if err != nil {
		return err
	}
	var sources []string
	err = filepath.WalkDir("driver", func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".java") {
			sources = append(sources, path)
		}
		return err
	})
	if err != nil {
		return err
	}
	line := append([]string{"--release", "8", "-proc:none", "-nowarn", "-cp", path, "-d", built.driver}, sources...)
	said, err := exec.Command(filepath.Join(here.jdk, "bin", "javac"), line...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("javac: %w\n%s", err, said)
	}
	return nil
}

// patience is how long a service of Linkis may take for what usually takes some seconds.
const patience = 2 * time.Minute

// pollEvery is how often a condition is checked.
const pollEvery = 100 * time.Millisecond

// eventually waits until the condition gives no error.
func eventually(t *testing.T, what string, condition func() error) time.Duration {
	t.Helper()
	return proc.Eventually(t, patience, pollEvery, what, condition)
}

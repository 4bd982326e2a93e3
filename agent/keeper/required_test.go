package keeper

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// A file system that does not answer holds nobody up, and is named.
func TestARequiredFileThatHangsIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answers := make(chan struct{})
		began := time.Now()
		err := checkRequired([]string{"/bin", "/net/x", "/etc"}, func(file string) error {
			if file == "/net/x" {
				<-answers
			}
			return nil
		})
		wrong, is := errors.AsType[*refusal](err)
		if !is || wrong.field != "required_files[1]" || wrong.value != "/net/x" || !strings.Contains(err.Error(), "does not answer within 5s") || time.Since(began) != requiredPatience {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		close(answers)
	})
	if err := checkRequired([]string{"/bin"}, func(string) error { return unix.EACCES }); !errors.Is(err, unix.EACCES) {
		t.Errorf("%v", err)
	}
}

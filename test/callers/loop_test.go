package callers

import (
	"bytes"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bursar/bursar/test/proc"
)

// pollEvery is how often a condition is checked.
const pollEvery = 50 * time.Millisecond

// loop starts jobs in the background, as a user does who knows nothing of limits, and prints the
// exit code of each.
const loop = `for i in $(seq "$1"); do
  (bursar run --custom slot=1 -l user="$2" --wait 30m -- true; echo "code $?") &
done
wait`

// Before, 14 of 90 jobs ended with 69, and 200 were told 234 times that there are too many
// requests or that nobody answers.
func TestALoopOfJobsOfAnOrdinaryUserEndsWell(t *testing.T) {
	h := newHost(t, 4)
	before := resident(t, h.agent) + resident(t, h.coordinator)
	// Nobody gets a turn until all wait.
	first := proc.Start(t, h.run(bob, "--custom", "slot=4", "--", "sleep", "1000"))
	h.eventually("the first runs", func() error {
		status, err := h.status()
		if err == nil && status.GetActive() != 1 {
			err = errNotYet
		}
		return err
	})
	var out, said bytes.Buffer
	all := h.as(alice, exec.Command("sh", "-c", loop, "sh", strconv.Itoa(*jobs), strconv.Itoa(alice)))
	all.Stdout, all.Stderr = &out, &said
	began := time.Now()
	shell := proc.Start(t, all)
	h.waiting(*jobs)
	t.Logf("%d jobs wait after %s; the agent and the coordinator have %d KiB more each", *jobs, time.Since(began).Round(time.Millisecond),
		(resident(t, h.agent)+resident(t, h.coordinator)-before) / *jobs >> 10)
	// Another user is answered meanwhile.
	proc.Run(t, patience, func(cmd *exec.Cmd) { h.as(bob, cmd) }, program, "run", "--memory", "1MiB", "-l", "user="+strconv.Itoa(bob), "--", "true").Expect(t, 0)
	first.Signal(syscall.SIGTERM)
	began = time.Now()
	shell.Wait(10 * time.Minute)
	t.Logf("all have ended after %s", time.Since(began).Round(time.Millisecond))
	if got := strings.Count(out.String(), "code 0\n"); got != *jobs {
		t.Errorf("%d of %d ended with 0:\n%s%s", got, *jobs, out.String(), said.String())
	}
	if told := regexp.MustCompile("(?i).*(too many|nobody answers|reset|trying again).*").FindAllString(said.String(), 10); told != nil {
		t.Errorf("they were told:\n%s", strings.Join(told, "\n"))
	}
	h.empty()
}

package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// childVariable is the environment variable with the place of a child's store.
const childVariable = "BURSAR_STORETEST_CHILD"

// Child makes this process the one that Kill kills, if it was started for that. It commits one
// batch after the other and writes the revision of each acknowledged one to standard output. Call
// it first in TestMain. It returns false in other processes, and an error in a child that cannot go
// on.
func Child(open func(where string) (store.Store, error)) (isChild bool, err error) {
	where, isChild := os.LookupEnv(childVariable)
	if !isChild {
		return false, nil
	}
	return true, commitForever(where, open)
}

func commitForever(where string, open func(where string) (store.Store, error)) error {
	s, err := open(where)
	if err != nil {
		return err
	}
	ctx := context.Background()
	meta, err := s.Lead(ctx, 0)
	if err != nil {
		return err
	}
	for revision := meta.Sequence + 1; ; revision++ {
		if err := s.Commit(ctx, store.Batch{Epoch: meta.Epoch, Changes: killedBatch(revision)}); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(os.Stdout, revision); err != nil {
			return err
		}
	}
}

// killedBatch is the child's batch for a revision. It begins, confirms and ends allocations and
// changes a host, so that half a batch would show.
func killedBatch(revision uint64) ledger.Changes {
	c := ledger.Changes{Revision: revision, LastID: ledger.ID(revision)}
	for back, state := range []ledger.State{ledger.Waiting, ledger.Reserved, ledger.Active, ledger.Released} {
		if at := revision - uint64(back)*3; at > 0 && at <= revision {
			c.Transitions = append(c.Transitions, Typical(ledger.ID(at), state, revision))
		}
	}
	c.Hosts = []ledger.HostRecord{{ID: fmt.Sprintf("h%d", revision%4), Revision: revision}}
	c.HostsRemoved = []string{fmt.Sprintf("h%d", (revision+1)%4)}
	return c
}

// Kill starts this test's binary as a child that commits at a place, and kills it with SIGKILL at
// some moment. Then it opens the store and checks that every acknowledged batch is there and that
// no batch is there in part. It does so rounds times, at the same place. The binary's TestMain must
// call Child.
func Kill(t *testing.T, where string, rounds int, open func(where string) (store.Store, error)) {
	t.Helper()
	for round := range rounds {
		// The rounds differ in the acknowledgement after which the child is killed, and in the
		// progress of the next commit at that time.
		acknowledged := killAfter(t, where, 1+round*7%40)
		verifyKilled(t, where, acknowledged, open)
	}
}

// killAfter runs a child and kills it once it has acknowledged so many commits. It returns the last
// acknowledged revision.
func killAfter(t *testing.T, where string, commits int) (last uint64) {
	t.Helper()
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), executable) //nolint:gosec // this binary
	child.Env = append(os.Environ(), childVariable+"="+where)
	var complaint strings.Builder
	child.Stderr = &complaint
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(output)
	for n := 1; ; n++ {
		line, err := lines.ReadString('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) || n <= commits { // it ended by itself
				t.Errorf("the child ended after %d commits: %v\n%s", n-1, err, complaint.String())
			}
			break
		}
		if last, err = strconv.ParseUint(strings.TrimSpace(line), 10, 64); err != nil {
			t.Fatal(err)
		}
		if n == commits {
			if err := child.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = child.Wait() // it was killed
	return last
}

func verifyKilled(t *testing.T, where string, acknowledged uint64, open func(where string) (store.Store, error)) {
	t.Helper()
	s, err := open(where)
	if err != nil {
		t.Fatalf("after a kill at revision %d: %v", acknowledged, err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	meta := lead(t, s, 0)
	if meta.Sequence != acknowledged && meta.Sequence != acknowledged+1 {
		t.Fatalf("revision %d was acknowledged, the store is at %d", acknowledged, meta.Sequence)
	}
	m := newModel()
	for revision := uint64(1); revision <= meta.Sequence; revision++ {
		m.commit(killedBatch(revision))
	}
	wantLoad(t, s, meta.Epoch, m, 0)
	ended := 0
	query := store.HistoryQuery{PageSize: store.MaxPage}
	for {
		page, next, err := s.History(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		ended += len(page)
		if query.PageToken = next; next == "" {
			break
		}
	}
	if want := len(m.history()); ended != want {
		t.Fatalf("%d in the history, want %d", ended, want)
	}
}

//go:build linux

package ha

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

// TestStoreIsPutBack: PostgreSQL is restored from a backup, while the agents have seen later
// epochs and run engines that the backup does not know. The engines are what matters. The test
// checks only those that run on a host: only its owner knows of an engine without a process, and
// learns at the next Renew that nobody remembers it.
func TestStoreIsPutBack(t *testing.T) {
	c := newCluster(t, size{coordinators: 3, agents: 20}, nil)
	l := c.startLoad(uint64(time.Now().UnixNano()))
	l.startLaunchers()
	l.acknowledges(100)
	backup := filepath.Join(c.dir, "backup")
	l.backUp(backup)
	from := time.Now()
	l.recovered()
	// More epochs, and allocations that the backup does not have. None of the epochs is the last
	// one possible, which an attacker announces: the agents would remember it, and nobody could
	// lead above it.
	backedUp := l.epoch()
	asked, err := c.consuls[0].Client()
	l.must(err)
	l.survives(fault{"the leader is killed while the last epoch is announced", func(l *load) {
		(&rogue{load: l, consul: asked}).write(announce(l.leader().url, 1<<48-1), l.leaderKilled)
	}})
	l.acknowledges(100)
	before := l.epoch()
	if before <= backedUp || before > backedUp+20 {
		t.Errorf("epoch %d after %d", before, backedUp)
	}

	l.putBack(backup)
	if after := l.epoch(); after <= before || after > before+20 {
		t.Errorf("epoch %d after %d", after, before)
	}
	to := time.Now()

	l.acknowledges(100)
	l.check()
	l.finish(span{from, to})
}

// backUp copies the store while nobody asks for anything. Otherwise a reservation in the copy
// would come back with it, and hold until its time is over, like that of a launcher that died.
func (l *load) backUp(into string) {
	l.t.Helper()
	l.steps.Lock()
	defer l.steps.Unlock()
	l.inDatabase(func() error { return l.database.Backup(l.t.Context(), into) })
}

// putBack restores the backup while nobody asks for anything. What ended since the backup was made
// may be unknown again, or have ended in another way. What runs must be in the ledger.
func (l *load) putBack(backup string) {
	l.t.Helper()
	l.steps.Lock()
	defer l.steps.Unlock()
	l.inDatabase(func() error { return l.database.Restore(l.t.Context(), backup) })
	l.recovered()
	l.book.removeEnded()
	eventually(l.t, "what ran before the store was put back is in the ledger", l.agrees)
	l.audited()
}

// acknowledges waits until n more allocations were acknowledged.
func (l *load) acknowledges(more int) {
	l.t.Helper()
	want := l.book.size() + more
	eventually(l.t, "the load goes on", func() error {
		if n := l.book.size(); n < want {
			return fmt.Errorf("%d acknowledged, want %d", n, want)
		}
		return nil
	})
}

// epoch is the epoch of the leader.
func (c *cluster) epoch() (epoch uint64) {
	c.t.Helper()
	eventually(c.t, "the epoch", func() error {
		status, err := c.admin.Cluster().Status(c.t.Context(), &bursarv1.StatusRequest{})
		if err == nil && !status.GetIsLeader() {
			err = errors.New("nobody leads")
		}
		epoch = status.GetEpoch()
		return err
	})
	return epoch
}

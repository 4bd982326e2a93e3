//go:build linux

package ha

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/bursar/bursar/coordinator/ledger"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/proc"
)

// TestCoordinatorsWhoseClocksDiffer: one whose clock is an hour ahead leads for a moment, then one
// of the version before (02ade4b does not store the ledger's time), then one whose clock is right;
// and then somebody moves the last id ten years ahead. Under each of the latter, what was granted
// ends in time, ids and times rise, and a host whose agent was killed does not stay healthy.
func TestCoordinatorsWhoseClocksDiffer(t *testing.T) {
	before := versionBefore(t)
	c := &clocks{cluster: newCluster(t, size{coordinators: 3, agents: 3, program: before.program, suspectAfter: silentAfter}, nil)}
	ahead, right, old := c.inOrder()
	for m, program := range map[*member]string{ahead: buildAhead(t), right: ""} {
		m.Stop(patience)
		m.program = program
		m.Start()
	}
	c.awaitMembers()

	c.leads(ahead)
	c.fill()
	began := time.Now()
	held, waits := c.holdAndWait(longer)
	if off := held.GetCreateTime().AsTime().Sub(began); off < 59*time.Minute || off > 61*time.Minute {
		t.Fatalf("a coordinator whose clock shall be an hour ahead is ahead by %v", off)
	}

	c.leads(old)
	c.holdAndWait(longer) // by whose time these last is not this version's concern
	c.hosts[0].Kill()

	c.leads(right)
	began = time.Now()
	c.tellsTheSkew(right, time.Hour)
	c.goesOn(c.over(held, began, 0), c.over(waits, began, 0), due{
		c.hosts[0].id + ", whose agent was killed, is suspect", began, 0, silentAfter * tick, c.oneIsSuspect,
	})

	for _, m := range c.members {
		m.Kill()
		m.program = ""
	}
	years := 10 * 365 * 24 * time.Hour / time.Millisecond
	if err := c.database.Execute(t.Context(), "bursar", fmt.Sprintf("UPDATE meta SET last_id = last_id + (%d::bigint << 22)", years)); err != nil {
		t.Fatal(err)
	}
	c.hosts[0].Start()
	for _, m := range c.members {
		m.Start()
	}
	c.awaitMembers()
	c.awaitHosts()
	c.goesOn()
	if skew := c.tellsTheSkew(c.leader(), time.Hour); skew > time.Hour {
		t.Errorf("the last id has moved the time: the skew is %v", skew)
	}
	c.audited()
}

const (
	silentAfter = 4               // intervals, each of a tick
	longer      = 4 * time.Second // how long reservations last; waits last twice as long
	late        = 3 * time.Second // what a machine with other work may take
)

// clocks is an installation that asks for what ends by itself.
type clocks struct {
	*cluster

	asked    int
	lastID   ledger.ID // that was given out
	lastMade time.Time // when, by the ledger
}

// fill takes all instances that the user "waits" may have, as long as the test lasts, so that
// requests of that user wait.
func (c *clocks) fill() {
	c.t.Helper()
	for range userInstances {
		c.allocate("waits", 30*time.Minute, 0)
	}
}

// allocate asks for an instance. What has a wait is not waited for.
func (c *clocks) allocate(user string, ttl, wait time.Duration) *bursarv1.Allocation {
	c.t.Helper()
	c.asked++
	one := int64(1)
	r := &bursarv1.AllocateRequest{
		RequestId: fmt.Sprintf("clocks-%d", c.asked), Labels: map[string]string{"user": user}, Resource: &bursarv1.Resource{Instances: &one},
		ReservationTtl: durationpb.New(ttl), Wait: durationpb.New(wait), Async: wait > 0,
	}
	var a *bursarv1.Allocation
	eventually(c.t, "an allocation of "+user, func() error {
		res, err := c.admin.Allocations().Allocate(c.t.Context(), r)
		a = res.GetAllocation()
		return err
	})
	id, err := ledger.ParseID(a.GetId())
	if err != nil {
		c.t.Fatal(err)
	}
	if made := a.GetCreateTime().AsTime(); id <= c.lastID || made.Before(c.lastMade) {
		c.t.Errorf("%d of %v was made after %d of %v", id, made, c.lastID, c.lastMade)
	}
	c.lastID, c.lastMade = id, a.GetCreateTime().AsTime()
	return a
}

// holdAndWait makes a reservation, and a request that waits twice as long for nothing.
func (c *clocks) holdAndWait(ttl time.Duration) (held, waits *bursarv1.Allocation) {
	c.t.Helper()
	held, waits = c.allocate("holds", ttl, 0), c.allocate("waits", ttl, 2*ttl)
	if held.GetState() != reserved || waits.GetState() != waiting {
		c.t.Fatalf("%v, %v: want one reserved and one that waits", held, waits)
	}
	return held, waits
}

// due is what must hold after some time of the machine's clock, and not before. While a skew is
// worked off, it may take a ninth longer.
type due struct {
	what        string
	began       time.Time
	least, most time.Duration
	holds       func() error
}

// over is due when an allocation has ended by itself.
func (c *clocks) over(a *bursarv1.Allocation, began time.Time, least time.Duration) due {
	lasts := longer
	if a.GetState() == waiting {
		lasts = 2 * longer
	}
	return due{fmt.Sprintf("%s, which was %s, is over", a.GetId(), a.GetState()), began, min(least, lasts), lasts, func() error {
		res, err := c.admin.Allocations().Get(c.t.Context(), &bursarv1.AllocationServiceGetRequest{Id: a.GetId()})
		if state := res.GetAllocation().GetState(); err == nil && (state == reserved || state == waiting) {
			err = fmt.Errorf("it is %s", state)
		}
		return err
	}}
}

// oneIsSuspect holds when one host is suspect and all others live.
func (c *clocks) oneIsSuspect() error {
	status, err := c.admin.Cluster().Status(c.t.Context(), &bursarv1.StatusRequest{})
	if err == nil && (status.GetHostsSuspect() != 1 || status.GetHostsHealthy() != int64(len(c.hosts)-1)) {
		err = fmt.Errorf("%d are healthy, %d suspect", status.GetHostsHealthy(), status.GetHostsSuspect())
	}
	return err
}

// goesOn holds that what is due, and what begins now, comes in time.
func (c *clocks) goesOn(list ...due) {
	c.t.Helper()
	began := time.Now()
	held, waits := c.holdAndWait(longer)
	list = append(list, c.over(held, began, 2*longer), c.over(waits, began, 2*longer))
	eventually(c.t, "what is due comes", func() (wrong error) {
		list = slices.DeleteFunc(list, func(d due) bool {
			err := d.holds()
			if err != nil {
				wrong = errors.Join(wrong, fmt.Errorf("%s: %w", d.what, err))
				return false
			}
			if took := time.Since(d.began); took < d.least || took > d.most*10/9+late {
				c.t.Errorf("%s after %v, want %v to %v", d.what, took, d.least, d.most)
			}
			return true
		})
		return wrong
	})
}

// tellsTheSkew holds that people and monitoring see how far the ledger's time is ahead of the
// leader's clock.
func (c *clocks) tellsTheSkew(leader *member, about time.Duration) time.Duration {
	c.t.Helper()
	status, err := c.status(leader)
	if err != nil {
		c.t.Fatal(err)
	}
	near := func(skew time.Duration) bool { return skew > about-3*time.Minute && skew < about+time.Minute }
	if skew := status.GetClockSkew().AsDuration(); !near(skew) {
		c.t.Errorf("the skew is %v by the status, want about %v", skew, about)
	}
	if !slices.ContainsFunc(status.GetWarnings(), func(w string) bool { return strings.Contains(w, "ahead of this coordinator's clock") }) {
		c.t.Errorf("no warning of the skew: %q", status.GetWarnings())
	}
	if skew := time.Duration(c.metric(leader, "bursar_clock_skew_seconds") * float64(time.Second)); !near(skew) {
		c.t.Errorf("the skew is %v by the metric, want about %v", skew, about)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	cmd := c.lab.Node("hosts-1").Command(ctx, executable, "status")
	cmd.Env = proc.Environment("BURSAR_ADDR=" + leader.url)
	printed, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(printed, []byte("clock skew")) || !bytes.Contains(printed, []byte("the ledger's time is ahead of the leader's clock")) {
		c.t.Errorf("bursar status: %v\n%s", err, printed)
	}
	return status.GetClockSkew().AsDuration()
}

// metric reads a gauge without labels.
func (c *cluster) metric(m *member, name string) float64 {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url+"/metrics", http.NoBody)
	if err != nil {
		c.t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(io.LimitReader(res.Body, 8<<20)); lines.Scan(); {
		if text, found := strings.CutPrefix(lines.Text(), name+" "); found {
			value, err := strconv.ParseFloat(text, 64)
			if err != nil {
				c.t.Fatal(err)
			}
			return value
		}
	}
	c.t.Fatalf("%s has no %s", m.Name, name)
	return 0
}

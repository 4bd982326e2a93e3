package yarn_test

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/bursar/bursar/providers"
	provider "github.com/bursar/bursar/providers/yarn"
	"github.com/bursar/bursar/resource"
	"github.com/bursar/bursar/test/yarn"
)

var capture = flag.String("yarn.capture", "", "folder to write the answers of the ResourceManagers into")

func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(m)
}

// open opens a provider of a cluster, with settings that override the addresses.
func open(t *testing.T, c *yarn.Cluster, settings map[string]string) providers.Provider {
	t.Helper()
	all := map[string]string{"addresses": c.Addresses()}
	maps.Copy(all, settings)
	p, err := provider.Kind().Open("test", all)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// expect waits until the queues are as expected, one line each in the format of show. An untrusted
// snapshot is an error.
func expect(t *testing.T, p providers.Provider, want string) {
	t.Helper()
	want = strings.Trim(want, "\n") + "\n"
	var got string
	deadline, again := time.After(2*time.Minute), time.NewTicker(100*time.Millisecond)
	defer again.Stop()
	for got != want {
		s, err := p.Snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if got = show(s.Queues); s.Untrusted != "" {
			got = "untrusted: " + s.Untrusted + "\n" + got
		}
		select {
		case <-deadline:
			t.Fatalf("queues (-want +got):\n%s", gocmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
		case <-again.C:
		}
	}
}

// show formats each queue and partition on one line:
//
//	PATH[@PARTITION] limit MiB/CORES used MiB/CORES guaranteed MiB/CORES apps ALL=ACTIVE+PENDING STATE
//
// without the parts that have no figure.
func show(queues []providers.Queue) string {
	slices.SortFunc(queues, func(a, b providers.Queue) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Partition, b.Partition))
	})
	var b strings.Builder
	for _, q := range queues {
		b.WriteString(q.Path)
		if q.Partition != "" {
			b.WriteString("@" + q.Partition)
		}
		for _, part := range []struct {
			name string
			resource.Vector
		}{{"limit", q.Limit}, {"used", q.Used}, {"guaranteed", q.Guaranteed}} {
			b.WriteString(" " + part.name + " " + quantities(part.Vector))
		}
		if q.Applications != nil {
			fmt.Fprintf(&b, " apps %d", *q.Applications)
		}
		if q.Active != nil && q.Pending != nil {
			fmt.Fprintf(&b, "=%d+%d", *q.Active, *q.Pending)
		}
		if q.State != "" {
			b.WriteString(" " + q.State)
		}
		if q.Closed {
			b.WriteString(" closed")
		}
		if q.CreatesChildren {
			b.WriteString(" creates")
		}
		if q.DefaultPartition != "" {
			b.WriteString(" default@" + q.DefaultPartition)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// quantities formats whole MiB and whole cores as such, others as bytes and millicores with their
// unit, and custom resources. It leaves out the dimensions of applications: see applicationsOf.
func quantities(v resource.Vector) string {
	memory, cpu := "-", "-"
	if bytes, ok := v.Get(resource.Memory); ok {
		if memory = fmt.Sprint(bytes >> 20); bytes%(1<<20) != 0 {
			memory = fmt.Sprint(bytes, "B")
		}
	}
	if millis, ok := v.Get(resource.CPU); ok {
		if cpu = fmt.Sprint(millis / 1000); millis%1000 != 0 {
			cpu = fmt.Sprint(millis, "m")
		}
	}
	text := memory + "/" + cpu
	for _, custom := range v.Custom() {
		if resource.OfApplications(custom.Name) {
			continue
		}
		text += fmt.Sprintf("/%s=%d", custom.Name, custom.Value)
	}
	return text
}

// applications formats the provider's answer about applications, one line each.
func applications(t *testing.T, p providers.Provider, ids ...string) string {
	t.Helper()
	list, err := p.Applications(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	lines := make([]string, len(ids))
	for _, a := range list {
		line := fmt.Sprintf("known=%v ended=%v queue=%s", a.Known, a.Ended, a.Queue)
		for _, partition := range slices.Sorted(maps.Keys(a.Allocated)) {
			line += fmt.Sprintf(" @%s %s", partition, quantities(a.Allocated[partition]))
		}
		lines[slices.Index(ids, a.ID)] = line
	}
	return strings.Join(lines, "\n")
}

// expectApplications waits until the provider gives that answer.
func expectApplications(t *testing.T, p providers.Provider, want string, ids ...string) {
	t.Helper()
	want = strings.Trim(want, "\n")
	var got string
	deadline, again := time.After(2*time.Minute), time.NewTicker(100*time.Millisecond)
	defer again.Stop()
	for got = applications(t, p, ids...); got != want; got = applications(t, p, ids...) {
		select {
		case <-deadline:
			t.Fatalf("applications (-want +got):\n%s", gocmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")))
		case <-again.C:
		}
	}
}

// keep writes answers of the cluster into the folder of the flag, if it is set.
func keep(t *testing.T, c *yarn.Cluster, name string, paths map[string]string) {
	t.Helper()
	if *capture == "" {
		return
	}
	folder := filepath.Join(*capture, name)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for file, path := range paths {
		answer := append(json.RawMessage(nil), c.Get(t, path)...)
		if err := os.WriteFile(filepath.Join(folder, file+".json"), append(answer, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

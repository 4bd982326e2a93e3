package render

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestQuantitiesAreReadable(t *testing.T) {
	for _, c := range []struct {
		dimension string
		n         int64
		want      string
	}{
		{"memory", 0, "0"},
		{"memory", 512, "512B"},
		{"memory", 4 << 30, "4GiB"},
		{"memory", 1536 << 20, "1.5GiB"},
		{"memory", 1984 << 20, "1984MiB"},
		{"memory", 4_000_000_000, "4G"},
		{"memory", 225748 << 10, "220.5MiB"},
		{"memory", 25231165952, "23.5GiB"},
		{"memory", -(1 << 30), "-1GiB"},
		{"cpu", 2000, "2"},
		{"cpu", 500, "500m"},
		{"cpu", -500, "-500m"},
		{"gpu", 3, "3"},
	} {
		if got := QuantityText(c.dimension, c.n); got != c.want {
			t.Errorf("%s %d is written %s, want %s", c.dimension, c.n, got, c.want)
		}
	}
}

func TestDurationsAreReadable(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0s", 1900 * time.Millisecond: "1s", 59 * time.Second: "59s", 65 * time.Second: "1m05s", 12*time.Minute + 5*time.Second: "12m",
		2*time.Hour + 5*time.Minute: "2h05m", 50 * time.Hour: "2d02h",
	} {
		if got := DurationText(d); got != want {
			t.Errorf("%v is written %s, want %s", d, got, want)
		}
	}
}

func TestRefusalNamesAccountsInWords(t *testing.T) {
	in := &bursarv1.InsufficientResources{
		Reason: "refused",
		Shortfalls: []*bursarv1.Shortfall{
			{
				Account:   &bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_HOST, Labels: map[string]string{"host": "vm-1"}},
				Dimension: "memory", Requested: 4 << 30, Available: 3 << 29, Limit: 8 << 30, Note: "measured",
			},
			{
				Account:   &bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_QUOTA},
				Dimension: "instances", Requested: 1, Available: -2, Limit: 5,
			},
			{
				Account: &bursarv1.AccountName{Kind: bursarv1.AccountKind_ACCOUNT_KIND_QUEUE, Labels: map[string]string{"kind": "yarn", "cluster": "east", "path": "root.a"}},
				Note:    "unknown",
			},
		},
		Filters: &bursarv1.HostFilters{Total: 5, Labels: 1, Health: 1, Measurement: 1, Books: 1, Headroom: 1},
	}
	want := []string{
		"host vm-1: memory: asked for 4GiB, available 1.5GiB of 8GiB, short by 2.5GiB (by what the machine measures)",
		"quota of everything: instances: asked for 1, available 0 of 5, short by 3",
		"queue yarn:east:root.a: unknown",
		"hosts: 0 of 5 fit, 1 by labels, 1 not healthy, 1 closed because of what they measure, 1 without room in the ledger, 1 short of measured memory",
	}
	got := ShortfallLines(in)
	if len(got) != len(want) {
		t.Fatalf("%q", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got  %s\nwant %s", got[i], want[i])
		}
	}
}

func TestTheDeadlineOfADrainIsWrittenAsOtherTimes(t *testing.T) {
	at := Local(time.Date(2026, 11, 26, 12, 0, 5, 0, time.UTC)).Format(time.DateTime)
	for reason, want := range map[string]string{
		"": "", "draining: disk": "draining: disk",
		"draining: deadline for its engines: 2026-11-26T12:00:05Z":       "draining: deadline for its engines: " + at,
		"draining: disk; deadline for its engines: 2026-11-26T12:00:05Z": "draining: disk; deadline for its engines: " + at,
		"cordoned: disk; ends by itself: 2026-11-26T12:00:05Z":           "cordoned: disk; ends by itself: " + at,
		"deadline for its engines: soon":                                 "deadline for its engines: soon",
		"until 2026-11-26T12:00:05Z":                                     "until 2026-11-26T12:00:05Z",
	} {
		if got := withLocalDeadline(reason); got != want {
			t.Errorf("%q is %q: want %q", reason, got, want)
		}
	}
}

func TestTheNoteOfAHostThatDoesNotReportSaysSo(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		state bursarv1.HostState
		last  *timestamppb.Timestamp
		why   string // the coordinator's
		want  string
		ended bool
	}{
		{bursarv1.HostState_HOST_STATE_HEALTHY, timestamppb.New(now), "", "", false},
		{bursarv1.HostState_HOST_STATE_HEALTHY, timestamppb.New(now), "under memory pressure", "under memory pressure", false},
		{bursarv1.HostState_HOST_STATE_SUSPECT, timestamppb.New(now.Add(-48 * time.Second)), "suspect", "its agent has not reported for 48s", false},
		{bursarv1.HostState_HOST_STATE_LOST, timestamppb.New(now.Add(-6 * time.Minute)), "lost", "its agent has not reported for 6m00s", false},
		{bursarv1.HostState_HOST_STATE_LOST, nil, "lost", "its agent does not report", false},
		{bursarv1.HostState_HOST_STATE_RETURNING, nil, "returning", "its agent has not reported to this leader yet", false},
		{bursarv1.HostState_HOST_STATE_HEALTHY, timestamppb.New(now.Add(-4 * time.Second)), "its agent has ended", "its agent has ended 4s ago", true},
		{bursarv1.HostState_HOST_STATE_SUSPECT, timestamppb.New(now.Add(-48 * time.Second)), "its agent has ended; cordoned: disk", "its agent has ended 48s ago; cordoned: disk", true},
		{bursarv1.HostState_HOST_STATE_LOST, nil, "its agent has ended", "its agent has ended", true},
	} {
		h := &bursarv1.Host{State: c.state, LastSyncTime: c.last, UnavailableReason: c.why, AgentEnded: c.ended}
		if got := HostNote(h, now); got != c.want {
			t.Errorf("%s: %q; want %q", c.state, got, c.want)
		}
	}
}

func TestTheNoteOfAHostSaysThatAllOfItIsProtected(t *testing.T) {
	now := time.Now()
	gib := func(n int64) *bursarv1.Resource {
		return &bursarv1.Resource{MemoryBytes: new(n << 30), CpuMillis: new(n * 1000)}
	}
	h := &bursarv1.Host{Account: &bursarv1.Account{Limit: gib(8), Protected: &bursarv1.Resource{MemoryBytes: new(int64(9 << 30)), CpuMillis: new(int64(1))}}}
	if got, want := HostNote(h, now), "all of its memory is protected: 9GiB of 8GiB"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
	h.UnavailableReason = "/data: the file system is read-only"
	if got, want := HostNote(h, now), "/data: the file system is read-only; all of its memory is protected: 9GiB of 8GiB"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
	h.Account.Protected = gib(1)
	if got, want := HostNote(h, now), "/data: the file system is read-only"; got != want {
		t.Errorf("%q; want %q", got, want)
	}
}

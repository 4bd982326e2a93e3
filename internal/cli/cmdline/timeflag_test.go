package cmdline

import (
	"testing"
	"time"

	"github.com/bursar/bursar/internal/cli/render"
)

func TestATimeIsADayATimeOrHowLongAgoItWas(t *testing.T) {
	now := time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC)
	zone := render.Local(now).Location()
	for text, want := range map[string]time.Time{
		"2h":                        now.Add(-2 * time.Hour),
		"1d":                        now.AddDate(0, 0, -1),
		"2027-01-30":                time.Date(2027, 1, 30, 0, 0, 0, 0, zone),
		"2027-01-30 08:15:30":       time.Date(2027, 1, 30, 8, 15, 30, 0, zone),
		"2027-01-30T08:15:30":       time.Date(2027, 1, 30, 8, 15, 30, 0, zone),
		"2027-01-30 08:15":          time.Date(2027, 1, 30, 8, 15, 0, 0, zone),
		"2027-01-30T08:15:30Z":      time.Date(2027, 1, 30, 8, 15, 30, 0, time.UTC),
		"2027-01-30T08:15:30+02:00": time.Date(2027, 1, 30, 6, 15, 30, 0, time.UTC),
	} {
		if got, err := parseTime(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q is %v, %v: want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-2h", "yesterday", "2027-02-30", "08:15", "20270130"} {
		if got, err := parseTime(text, now); err == nil {
			t.Errorf("%q is %v: want an error", text, got)
		}
	}
}

package duration

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDaysAreUnderstoodNextToTheUnitsOfGo(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "30s": 30 * time.Second, "1h30m": 90 * time.Minute, "1.5h": 90 * time.Minute, "500ms": 500 * time.Millisecond, "-1s": -time.Second,
		"1d": Day, "1.5d": 36 * time.Hour, "1d12h": 36 * time.Hour, "4d03h": 99 * time.Hour, "-1d12h": -36 * time.Hour, "+2d": 2 * Day, "0d": 0,
		"1d0.5h": Day + 30*time.Minute,
	} {
		if got, err := Parse(text); err != nil || got != want {
			t.Errorf("%q is %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestWhatIsNoDurationIsRefusedWithWhatWouldBeRight(t *testing.T) {
	const anyUnit = "a duration with its unit, such as 500ms, 30s, 10m, 2h or 1d"
	for text, want := range map[string]string{
		"10":  "a duration with its unit, such as 10s, 10m or 10h",
		"1.5": "a duration with its unit, such as 1.5s, 1.5m or 1.5h",
		"":    anyUnit, "soon": anyUnit, "d": anyUnit, "-d": anyUnit, "1w": anyUnit, "1dd": anyUnit, "1d-1h": anyUnit, "1d+1h": anyUnit, "--1d": anyUnit, "1d1": anyUnit, "1e3d": anyUnit,
		"1h1d": anyUnit, "1 d": anyUnit, "106752d": anyUnit, "106751d24h": anyUnit, "999999999999999999999d": anyUnit, ".d": anyUnit,
	} {
		_, err := Parse(text)
		wrong, ok := errors.AsType[*Error](err)
		if !ok || wrong.Text != text || wrong.Want != want {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}

// What Go writes is read as the same, and so is it with days before it.
func TestParseReadsWhatGoWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64().Draw(t, "d"))
		if got, err := Parse(d.String()); err != nil || got != d {
			t.Fatalf("%s is %v, %v", d, got, err)
		}
		days, rest := rapid.Int64Range(0, 10_000).Draw(t, "days"), time.Duration(rapid.Int64Range(0, int64(1000*Day)).Draw(t, "rest"))
		text := strconv.FormatInt(days, 10)
		if got, err := Parse(text + "d" + rest.String()); err != nil || got != time.Duration(days)*Day+rest {
			t.Fatalf("%sd%s is %v, %v", text, rest, got, err)
		}
	})
}

package process

import (
	"slices"
	"testing"
)

// What descends from the engine's reaper is the engine's, also if nothing else tells. The reaper
// and what is above it is not, and a process that has only got its pid has no engine.
func TestWhatDescendsFromTheReaperIsTheEngines(t *testing.T) {
	table := map[int]fake{
		1: {0, 1, "/"}, 80: {1, 80, "/"}, 81: {80, 81, "/"},
		90: {80, 90, "/"}, 101: {90, 101, "/"}, 102: {101, 102, "/"}, 103: {1, 103, "/"}, 50: {103, 50, "/"},
	}
	gone := Ref{PID: 100, StartTime: 100}
	for name, test := range map[string]struct {
		engine Engine
		want   []int32
	}{
		"its main process has gone": {Engine{Root: gone, Reaper: Ref{90, 90}}, []int32{101, 102}},
		"its main process is there": {Engine{Root: Ref{101, 101}, Reaper: Ref{90, 90}}, []int32{101, 102}},
		"another has its pid":       {Engine{Root: gone, Reaper: Ref{90, 89}}, nil},
		"younger than its child":    {Engine{Root: gone, Reaper: Ref{103, 103}}, nil},
		"there is none":             {Engine{Root: gone}, nil},
		"another engine below it":   {Engine{Root: gone, Reaper: Ref{90, 90}, Others: []Ref{{101, 101}}}, nil},
		"another engine below that": {Engine{Root: gone, Reaper: Ref{90, 90}, Others: []Ref{{102, 102}}}, []int32{101}},
	} {
		refs, err := Members(fixture(t, table), test.engine)
		var got []int32
		for _, ref := range refs {
			got = append(got, ref.PID)
		}
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, %v; want %v", name, got, err, test.want)
		}
	}
}

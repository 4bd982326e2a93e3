package reload_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bursar/bursar/internal/reload"
)

type config struct {
	Name  string            `yaml:"name" reload:"start"`
	Tags  map[string]string `yaml:"tags" reload:"live"`
	Limit limits            `yaml:"limit"`
	Place place             `yaml:"place" reload:"start"`
}

type limits struct {
	Rate int   `yaml:"rate" reload:"live"`
	Size int   `yaml:"size" reload:"start"`
	List []int `yaml:"list" reload:"live"`
}

type place struct {
	Path string `yaml:"path"`
}

func TestWhatCanChangeDoes(t *testing.T) {
	running := config{Name: "a", Limit: limits{Rate: 1, Size: 2, List: []int{}}, Place: place{"x"}}
	wanted := config{Name: "b", Tags: map[string]string{"k": "v"}, Limit: limits{Rate: 3, Size: 4}, Place: place{"y"}}
	got, changes := reload.Take(running, wanted)
	want := config{Name: "a", Tags: map[string]string{"k": "v"}, Limit: limits{Rate: 3, Size: 2}, Place: place{"x"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(reload.Changes{Taken: []string{"tags", "limit.rate"}, Kept: []string{"name", "limit.size", "place"}}, changes); diff != "" {
		t.Error(diff)
	}
	for path, want := range map[string]bool{"tags": true, "limit": true, "limit.rate": true, "name": false, "limit.size": false, "lim": false} {
		if changes.Has(path) != want {
			t.Errorf("Has(%q) is %v", path, !want)
		}
	}
	if running.Name != "a" || wanted.Name != "b" || changes.Empty() {
		t.Error("what was given has changed")
	}
}

func TestNothingChangesWhereNothingDiffers(t *testing.T) {
	c := config{Name: "a", Tags: map[string]string{}}
	if got, changes := reload.Take(c, config{Name: "a"}); !changes.Empty() || got.Name != "a" {
		t.Errorf("%+v, %+v", got, changes)
	}
}

func TestTable(t *testing.T) {
	if diff := cmp.Diff([]string{"tags", "limit.rate", "limit.list"}, reload.Live(config{})); diff != "" {
		t.Error(diff)
	}
	if left := reload.Untagged(config{}); left != nil {
		t.Error(left)
	}
	type incomplete struct {
		Known   int    `yaml:"known" reload:"live"`
		Unknown int    `yaml:"unknown"`
		Odd     int    `yaml:"odd" reload:"maybe"`
		Inner   place  `yaml:"inner"`
		None    string `yaml:"-"`
	}
	if diff := cmp.Diff([]string{`unknown ("")`, `odd ("maybe")`, `inner.path ("")`}, reload.Untagged(incomplete{})); diff != "" {
		t.Error(diff)
	}
}

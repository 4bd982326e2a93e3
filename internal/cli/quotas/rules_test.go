package quotas

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bursar/bursar/internal/cli/cmdline"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
)

func TestRulesThatAreTooManyToListAreCounted(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	c := cmdline.New(cmdline.Streams{Out: out}, "test")
	printApplied(c.Printer, &bursarv1.ApplyResponse{
		Changed: []*bursarv1.Quota{{Selector: map[string]string{"user": "alice"}}}, MoreChanged: 2, MoreDeleted: 30, Unchanged: 4,
	}, false)
	got, err := os.ReadFile(out.Name())
	want := "changed  user=alice\nchanged  2 more, which are too many to list\ndeleted  30 more, which are too many to list\n0 added, 3 changed, 30 deleted, 4 unchanged\n"
	if err != nil || string(got) != want {
		t.Errorf("%v, printed\n%s\nwant\n%s", err, got, want)
	}
}

package processtable

import (
	"os"
	"syscall"
	"testing"
)

func TestThisProcessIsInTheTable(t *testing.T) {
	own, there := Look(os.Getpid())
	group, err := syscall.Getpgid(0)
	if err != nil {
		t.Fatal(err)
	}
	if !there || own.Parent != os.Getppid() || own.Group != group || own.Ended {
		t.Errorf("%+v, %t: want parent %d and group %d", own, there, os.Getppid(), group)
	}
	if table := Read(); table[os.Getpid()] != own || !table.Descends(os.Getpid(), os.Getppid()) || table.Descends(os.Getppid(), os.Getpid()) {
		t.Errorf("the table has %+v, want %+v below its parent", table[os.Getpid()], own)
	}
	if p, there := Look(1 << 30); there {
		t.Errorf("a process that cannot be is %+v", p)
	}
}

func TestDescendsEnds(t *testing.T) {
	for name, test := range map[string]struct {
		table Table
		want  bool
	}{
		"a child":             {Table{5: {Parent: 3}}, true},
		"a grandchild":        {Table{5: {Parent: 4}, 4: {Parent: 3}}, true},
		"of another":          {Table{5: {Parent: 4}, 4: {Parent: 1}, 3: {Parent: 1}}, false},
		"its parent has gone": {Table{5: {Parent: 4}}, false},
		"a circle":            {Table{5: {Parent: 4}, 4: {Parent: 5}}, false},
		"not there":           {Table{}, false},
		"itself":              {Table{3: {Parent: 1}}, false},
	} {
		pid := 5
		if name == "itself" {
			pid = 3
		}
		if got := test.table.Descends(pid, 3); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

package keeper_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bursar/bursar/agent/keeper"
)

// stranger is another user: the uid of a person, whoever that is.
const stranger = 31337

// sharedFolder is a folder to which every user may write, and which root owns.
func sharedFolder(t *testing.T, mode os.FileMode) string {
	t.Helper()
	dir := folder(t)
	must(t, os.Chmod(dir, mode))
	if os.Geteuid() == 0 {
		must(t, os.Chown(dir, 0, 0))
	}
	return dir
}

// as gives a file or a link to a user, if this is root.
func as(t *testing.T, uid int, path string) {
	t.Helper()
	if os.Geteuid() == 0 {
		must(t, os.Lchown(path, uid, uid))
	}
}

// A reader refuses files of other users. So the output of an engine goes into none either: the
// other user would read it, and the engine's user could not.
func TestOutputGoesIntoNoFileOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		return // only root can make files of another user
	}
	for _, name := range []string{"stdout", "stderr", "stdout.1", "stderr.3", ".stdout.offsets", ".stderr.offsets", ".stdout.offsets.new"} {
		for _, mode := range []os.FileMode{os.ModeSticky | 0o777, 0o777} {
			t.Run(name+" "+mode.String(), func(t *testing.T) {
				spec := shell(t, "echo secret; echo secret >&2")
				spec.Log.Directory = sharedFolder(t, mode)
				file := filepath.Join(spec.Log.Directory, name)
				must(t, os.WriteFile(file, []byte("theirs\n"), 0o666), os.Chmod(file, 0o666))
				as(t, stranger, file)
				s := begin(t, spec).started
				if s.Field != keeper.FieldLogs || s.Value != spec.Log.Directory || s.PID != 0 ||
					!strings.Contains(s.Error, name+": is a file of uid 31337: want one of the engine's user, uid 65534") {
					t.Errorf("%+v", s)
				}
				if content, err := os.ReadFile(file); err != nil || string(content) != "theirs\n" {
					t.Errorf("%q, %v", content, err)
				}
			})
		}
	}
}

// In a shared folder another user may put a link, also a hard one, to a file that the engine's user
// may write to.
func TestOutputGoesIntoNoFileWithAnotherName(t *testing.T) {
	spec := shell(t, "echo secret")
	precious := filepath.Join(folder(t), "precious")
	must(t, os.WriteFile(precious, []byte("precious\n"), 0o644), os.Chmod(precious, 0o644))
	as(t, nobody, precious)
	spec.Log.Directory = sharedFolder(t, 0o777)
	must(t, os.Link(precious, filepath.Join(spec.Log.Directory, "stdout")))
	if s := begin(t, spec).started; s.Field != keeper.FieldLogs || s.PID != 0 || !strings.Contains(s.Error, "stdout: has another name") {
		t.Errorf("%+v", s)
	}
	if info, err := os.Stat(precious); err != nil || info.Mode().Perm() != 0o644 || info.Size() != 9 {
		t.Errorf("%v, %v", info, err)
	}
}

// A link on the way to the folder may belong to root and to the engine's user, and to nobody else.
func TestNoLinkOfAnotherUserLeadsToTheFolder(t *testing.T) {
	for name, c := range map[string]struct {
		owner int
		below string
		good  bool
	}{
		"of root":                 {0, "", true},
		"of its user":             {nobody, "", true},
		"of a stranger":           {stranger, "", false},
		"of a stranger, above it": {stranger, "sub", false},
		"relative, of a stranger": {stranger, ".", false},
	} {
		t.Run(name, func(t *testing.T) {
			if os.Geteuid() != 0 && !c.good {
				return // only root can make a link of another user
			}
			spec := shell(t, "echo hello")
			there := spec.Log.Directory
			link := filepath.Join(sharedFolder(t, 0o777), "link")
			target := there
			switch c.below {
			case "sub":
				target = filepath.Dir(there)
				spec.Log.Directory = filepath.Join(link, filepath.Base(there))
			case ".":
				target = "../" + filepath.Base(there)
				fallthrough
			default:
				spec.Log.Directory = link
			}
			must(t, os.Symlink(target, link))
			as(t, c.owner, link)
			if c.good {
				run(t, spec).end()
				return
			}
			s := begin(t, spec).started
			if s.Field != keeper.FieldLogs || s.PID != 0 || !strings.Contains(s.Want, ": link is a link of uid 31337") {
				t.Errorf("%+v", s)
			}
			if entries, err := os.ReadDir(there); err != nil || len(entries) > 0 {
				t.Errorf("%v, %v", entries, err)
			}
		})
	}
}

// Files of an earlier engine of the same user are the user's: output goes on in them.
func TestASharedFolderHasTheOutputOfOneUser(t *testing.T) {
	spec := shell(t, "echo hello; seq 1 300")
	spec.Log.Directory = sharedFolder(t, os.ModeSticky|0o777)
	spec.Log.MaxBytes, spec.Log.Keep = 1000, 2
	run(t, spec).end()
	run(t, spec).end()
	if got := said(t, spec, "stdout"); !strings.Contains(got, "300\n") {
		t.Errorf("%q", got)
	}
}

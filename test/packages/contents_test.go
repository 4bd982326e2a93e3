package packages

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// wanted are the files of the package for Debian except manual pages, each with its mode, and
// "conf" if dpkg keeps an administrator's changes.
const wanted = `
-rw-r--r-- /etc/bursar/agent.yaml conf
-rw-r--r-- /etc/bursar/coordinator.yaml conf
drwxr-x--- /etc/bursar/credentials
-rw-r--r-- /lib/systemd/system/bursar-agent.service
-rw-r--r-- /lib/systemd/system/bursar-agent.socket
-rw-r--r-- /lib/systemd/system/bursar-coordinator.service
-rw-r--r-- /lib/systemd/system/bursar-engines.slice
-rwxr-xr-x /usr/bin/bursar
-rwxr-xr-x /usr/bin/bursar-linkis-check
-rw-r--r-- /usr/lib/sysusers.d/bursar.conf
-rw-r--r-- /usr/lib/tmpfiles.d/bursar.conf
-rwx--x--x /usr/libexec/bursar/bursar-keeper
-rw-r--r-- /usr/share/bash-completion/completions/bursar
-rw-r--r-- /usr/share/bash-completion/completions/bursar-linkis-check
-rw-r--r-- /usr/share/doc/bursar/changelog.Debian.gz
-rw-r--r-- /usr/share/doc/bursar/copyright
-rw-r--r-- /usr/share/doc/bursar/examples/agent-direct-cgroups.conf
-rw-r--r-- /usr/share/doc/bursar/examples/agent-in-a-container.conf
-rw-r--r-- /usr/share/doc/bursar/examples/agent-socket-group.conf
-rw-r--r-- /usr/share/doc/bursar/examples/agent.yaml
-rw-r--r-- /usr/share/doc/bursar/examples/coordinator-commands.conf
-rw-r--r-- /usr/share/doc/bursar/examples/coordinator-credentials.conf
-rw-r--r-- /usr/share/doc/bursar/examples/coordinator.yaml
-rw-r--r-- /usr/share/doc/bursar/examples/engines-slice-limits.conf
-rw-r--r-- /usr/share/doc/bursar/examples/flexlm-licences.sh
-rw-r--r-- /usr/share/doc/bursar/examples/kubernetes-quotas.sh
-rw-r--r-- /usr/share/doc/bursar/examples/providers.yaml
-rw-r--r-- /usr/share/doc/bursar/examples/quotas.yaml
-rw-r--r-- /usr/share/fish/vendor_completions.d/bursar-linkis-check.fish
-rw-r--r-- /usr/share/fish/vendor_completions.d/bursar.fish
-rw-r--r-- /usr/share/lintian/overrides/bursar
-rw-r--r-- /usr/share/zsh/vendor-completions/_bursar
-rw-r--r-- /usr/share/zsh/vendor-completions/_bursar-linkis-check
`

// file is one of a package.
type file struct {
	mode, owner, path string
	conf              bool
	content           []byte
}

// line is the file as wanted has it; another owner than root shows.
func (f file) line() string {
	line := f.mode + " " + f.path
	if f.conf {
		line += " conf"
	}
	if f.owner != "root:root" {
		line += " of " + f.owner
	}
	return line
}

func TestContents(t *testing.T) {
	debian := strings.Split(strings.TrimSpace(wanted), "\n")
	var others, archive []string
	for _, line := range debian {
		archive = append(archive, strings.TrimSuffix(line, " conf"))
		if !strings.Contains(line, "/lintian/") && !strings.Contains(line, "changelog.Debian") {
			line = strings.ReplaceAll(line, " /lib/systemd", " /usr/lib/systemd")
			others = append(others, strings.ReplaceAll(line, "vendor-completions/_", "site-functions/_"))
		}
	}
	slices.Sort(others)
	for arch := range strings.FieldsSeq(*arches) {
		for name, test := range map[string]struct {
			files []file
			want  []string
		}{
			"deb": {debFiles(t, built.deb(arch)), debian},
			"rpm": {rpmFiles(t, built.rpm(arch)), others},
			"tar": {tarFiles(t, built.tar(arch)), archive},
		} {
			var got []string
			pages := 0
			for _, f := range test.files {
				if strings.HasPrefix(f.path, "/usr/share/man/") {
					pages++
					if f.mode != "-rw-r--r--" || f.owner != "root:root" {
						t.Errorf("%s %s: %s", name, arch, f.line())
					}
					continue
				}
				got = append(got, f.line())
			}
			byPath := func(a, b string) int { return strings.Compare(strings.Fields(a)[1], strings.Fields(b)[1]) }
			slices.SortFunc(got, byPath)
			slices.SortFunc(test.want, byPath)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%s %s (-want +got):\n%s", name, arch, diff)
			}
			if pages < 40 {
				t.Errorf("%s %s: %d manual pages", name, arch, pages)
			}
		}
	}
}

func TestProgramsAreStaticAndOfTheirArchitecture(t *testing.T) {
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}
	// Bytes: a program, or a package of all, that is larger than this contains something that it
	// should not.
	limits := map[string]int{"/usr/bin/bursar": 60 << 20, "/usr/bin/bursar-linkis-check": 20 << 20, "/usr/libexec/bursar/bursar-keeper": 4 << 20}
	for arch := range strings.FieldsSeq(*arches) {
		for _, f := range debFiles(t, built.deb(arch)) {
			limit := limits[f.path]
			if limit == 0 {
				continue
			}
			program, err := elf.NewFile(bytes.NewReader(f.content))
			if err != nil {
				t.Fatal(err)
			}
			if program.Machine != machines[arch] {
				t.Errorf("%s for %s is for %v", f.path, arch, program.Machine)
			}
			for _, segment := range program.Progs {
				if segment.Type == elf.PT_INTERP || segment.Type == elf.PT_DYNAMIC {
					t.Errorf("%s for %s is not static: it has %v", f.path, arch, segment.Type)
				}
			}
			if len(f.content) > limit {
				t.Errorf("%s for %s has %d bytes, more than %d", f.path, arch, len(f.content), limit)
			}
		}
		if info, err := os.Stat(built.deb(arch)); err != nil || info.Size() > 25<<20 {
			t.Errorf("the package for %s: %v, %v", arch, info, err)
		}
	}
}

func TestProgramKnowsItsVersion(t *testing.T) {
	for program, asked := range map[string]string{"bursar": "version", "bursar-linkis-check": "--version"} {
		got := output(t, filepath.Join(unpacked(t), "usr/bin", program), asked)
		if fields := strings.Fields(got); len(fields) < 2 || fields[1] != built.version {
			t.Errorf("%s: %q, want version %s", program, got, built.version)
		}
	}
}

// A dependence on the machine, the time or the user would show: the second build differs in all of
// these.
func TestSameTreeGivesTheSameBytes(t *testing.T) {
	again := made{t.TempDir(), built.version}
	if err := again.make("ARCHES="+runtime.GOARCH, "TZ=Asia/Tokyo", "LC_ALL=C.UTF-8", "HOSTNAME=another", "TMPDIR="+t.TempDir()); err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]string{
		{built.deb(runtime.GOARCH), again.deb(runtime.GOARCH)},
		{built.rpm(runtime.GOARCH), again.rpm(runtime.GOARCH)},
		{built.tar(runtime.GOARCH), again.tar(runtime.GOARCH)},
	} {
		if first, second := read(t, pair[0]), read(t, pair[1]); !bytes.Equal(first, second) {
			t.Errorf("%s differs: %d and %d bytes", filepath.Base(pair[0]), len(first), len(second))
		}
	}
}

func TestChecksums(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", "SHA256SUMS")
	cmd.Dir = built.dir
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Count(string(out), ": OK\n") != 3*len(strings.Fields(*arches)) {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestLintianHasNothingToSay(t *testing.T) {
	for arch := range strings.FieldsSeq(*arches) {
		if said := output(t, "lintian", "--allow-root", "--display-info", "--display-experimental", "--pedantic", "--fail-on", "none", built.deb(arch)); said != "" {
			t.Errorf("%s:\n%s", arch, said)
		}
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// debFiles lists a package's files in their order, without the folders above them.
func debFiles(t *testing.T, name string) []file {
	t.Helper()
	confs := strings.Fields(output(t, "dpkg-deb", "-I", name, "conffiles"))
	files := filesOf(t, strings.NewReader(output(t, "dpkg-deb", "--fsys-tarfile", name)))
	for i := range files {
		files[i].conf = slices.Contains(confs, files[i].path)
	}
	return files
}

func tarFiles(t *testing.T, name string) []file {
	t.Helper()
	unzipped, err := gzip.NewReader(bytes.NewReader(read(t, name)))
	if err != nil {
		t.Fatal(err)
	}
	files := filesOf(t, unzipped)
	top := "/" + strings.TrimSuffix(filepath.Base(name), ".tar.gz")
	for i := range files {
		below, ok := strings.CutPrefix(files[i].path, top)
		if !ok {
			t.Errorf("%s: %s is not below %s", name, files[i].path, top)
		}
		files[i].path = below
	}
	return files
}

// filesOf reads a tar; of folders only those with a mode of their own are listed.
func filesOf(t *testing.T, from io.Reader) []file {
	t.Helper()
	var files []file
	for archive := tar.NewReader(from); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(archive)
		if err != nil {
			t.Fatal(err)
		}
		mode := header.FileInfo().Mode().String()
		if mode != "drwxr-xr-x" {
			files = append(files, file{mode: mode, owner: header.Uname + ":" + header.Gname, path: path.Clean("/" + header.Name), content: content})
		}
	}
}

func rpmFiles(t *testing.T, name string) []file {
	t.Helper()
	var files []file
	list := output(t, "rpm", "-qp", "--nosignature", "--qf", `[%{FILEMODES:perms} %{FILEUSERNAME}:%{FILEGROUPNAME} %{FILENAMES} .%{FILEFLAGS:fflags}\n]`, name)
	for line := range strings.Lines(list) {
		var f file
		var flags string
		if _, err := fmt.Sscan(line, &f.mode, &f.owner, &f.path, &flags); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		f.conf = flags == ".cn" // config, noreplace
		if f.mode != "drwxr-xr-x" {
			files = append(files, f)
		}
	}
	return files
}

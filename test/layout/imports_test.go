package layout

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// floors lists the folders from the ground up. A package may import packages of its own floor and
// of those below.
func floors() [][]string {
	return [][]string{
		{"resource", "internal/spelling", "internal/duration"},
		{"label", "resource/linkis", "internal/identity", "internal/clusterid", "internal/yamlfile", "internal/reload", "internal/regularfile", "internal/credential", "internal/sockdiag", "internal/subuid", "internal/osuser", "internal/localuser", "internal/cgroupfs", "internal/command", "internal/processtable", "internal/reaper", "internal/hold", "internal/peercred", "internal/pause", "test/baseline", "test/certs", "test/consul", "test/hostile", "test/otlp", "test/pipes", "test/postgres", "test/proc", "test/underrace"},
		{"proto"},
		{"internal/quotafile", "internal/access", "internal/tracing", "internal/admission", "internal/endreason"},
		{"providers"},
		{"internal/discovery", "internal/standin", "internal/readlimit"},
		{"client"},
		{"coordinator/ledger", "coordinator/hostlabels"},
		{"coordinator/placement", "coordinator/seal", "test/trapplacer", "test/fakecluster"},
		{"coordinator/store"},
		{"coordinator/election", "coordinator/turns"},
		{"coordinator/core"},
		{"coordinator/wire"},
		{"coordinator/commit"},
		{"coordinator/clusters"},
		{"coordinator/auth"},
		{"coordinator/forward"},
		{"coordinator"},
		{"agent/cgroup", "agent/keeper", "agent/look", "agent/loops", "agent/once", "agent/output/folder", "agent/output/offsets", "agent/output/reading", "agent/peak", "agent/policy", "agent/process", "agent/refusal", "agent/statefile", "agent/tracker", "agent/unit"},
		{"agent/launch", "agent/hoststate", "agent/machine"},
		{"agent/output"},
		{"agent/socket", "agent/contain", "agent/ready"},
		{"agent/engine"},
		{"agent/report"},
		{"agent/callers"},
		{"agent/orders"},
		{"agent"},
		{"internal/cli/render", "internal/cli/journal", "internal/cli/kinds", "internal/cli/storefacts"},
		{"internal/cli/failure"},
		{"internal/cli/servers"},
		{"internal/cli/cmdline"},
		{"internal/cli/lookup"},
		{"internal/cli/requests", "internal/cli/outputs"},
		{"internal/cli/launches"},
		{"internal/cli"},
		{"cmd"},
		{"integrations"},
		{"test", "bench", "tools"},
	}
}

// topFolders are all top folders of the tree. Packages that are no API are in internal; each other
// package has a stable one.
func topFolders() []string {
	return []string{
		"agent", "bench", "client", "cmd", "coordinator", "deploy", "docs", "examples", "integrations", "internal", "label",
		"proto", "providers", "resource", "test", "third_party", "tools",
	}
}

// topBroken names what else stands there.
func topBroken(files tree) []string {
	var complaints []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if top, _, below := strings.Cut(name, "/"); below && !strings.HasPrefix(top, ".") && !slices.Contains(topFolders(), top) {
			complaints = append(complaints, fmt.Sprintf("%s: the top folder %s is none of %s", name, top, strings.Join(topFolders(), ", ")))
		}
	}
	return complaints
}

// strangers are pairs of folders that meet on the wire only, whatever their floors allow.
func strangers() [][2]string {
	return [][2]string{{"agent", "coordinator"}}
}

// noun reports whether a folder has the commands on one noun, such as hosts. Nouns stand next to
// each other, and share only what stands below all of them.
func noun(folder string) bool {
	return strings.HasPrefix(folder, "internal/cli/") && floorOf(folder) == floorOf("internal/cli")
}

// serving are the packages of servers and of their clients that text for people does without.
func serving() []string { return []string{"agent", "client", "coordinator"} }

// calls reports whether a package that makes text for people would reach a server by an import. The
// ledger's values are no server.
func calls(folder, imported string) bool {
	return within(folder, []string{"internal/cli/render"}) && within(imported, serving()) && imported != "coordinator/ledger"
}

// pure are the packages that compute and do nothing else: the same input gives the same output, on
// any machine, at any time. The ledger can be replayed, and the race detector has nothing to find,
// because of it.
func pure() []string {
	return []string{"internal/spelling", "internal/duration", "resource", "resource/linkis", "label", "internal/identity", "coordinator/ledger", "coordinator/hostlabels", "coordinator/placement", "coordinator/turns", "agent/policy"}
}

// computing are pairs of a pure package and a library that it may import, which computes and does
// nothing else.
func computing() [][2]string {
	return [][2]string{{"coordinator/ledger", "github.com/tidwall/btree"}}
}

// small are the packages of programs that run in many processes: they import the standard library,
// golang.org/x/sys and each other.
func small() []string {
	return []string{"agent/keeper", "agent/look", "agent/output/folder", "agent/output/offsets", "agent/output/reading", "cmd/bursar-keeper", "internal/hold", "internal/processtable"}
}

// shunned are pairs of a program and a library that it must not have in it, by whatever way.
func shunned() [][2]string {
	return [][2]string{
		{"cmd/bursar", "github.com/go-sql-driver/mysql"}, // for those alone who have a Linkis: bursar-linkis-check
	}
}

// impure are the standard packages that reach outside of a computation, each with all that is
// below it.
func impure() []string {
	return []string{
		"context", "crypto/rand", "database", "embed", "io/fs", "io/ioutil", "log", "math/rand", "net", "os", "plugin",
		"runtime", "sync", "syscall", "testing", "unsafe",
	}
}

// floorsBroken holds tests to their floor too: a test that needs more than its package stands in
// test/.
func floorsBroken(files tree) []string {
	var complaints []string
	for _, s := range files.sources() {
		own := floorOf(s.folder)
		if own < 0 {
			complaints = append(complaints, fmt.Sprintf("%s: folder %s stands on no floor: give it one in test/layout", s.path, s.folder))
			continue
		}
		for _, imported := range s.imports() {
			folder, ours := strings.CutPrefix(imported, module+"/")
			switch {
			case !ours:
			case floorOf(folder) > own:
				complaints = append(complaints, fmt.Sprintf("%s imports %s, which stands on a higher floor", s.path, folder))
			case estranged(s.folder, folder):
				complaints = append(complaints, fmt.Sprintf("%s imports %s: they meet on the wire only", s.path, folder))
			case noun(s.folder) && noun(folder) && s.folder != folder:
				complaints = append(complaints, fmt.Sprintf("%s imports %s: nouns share only what is below them", s.path, folder))
			case calls(s.folder, folder):
				complaints = append(complaints, fmt.Sprintf("%s imports %s: text needs no server", s.path, folder))
			}
		}
	}
	return complaints
}

// floorOf is the number of the floor with the longest name that holds the folder, or -1.
func floorOf(folder string) int {
	floor, length := -1, 0
	for number, names := range floors() {
		for _, name := range names {
			if len(name) > length && within(folder, []string{name}) {
				floor, length = number, len(name)
			}
		}
	}
	return floor
}

func estranged(a, b string) bool {
	return slices.ContainsFunc(strangers(), func(pair [2]string) bool {
		return within(a, pair[:1]) && within(b, pair[1:]) || within(b, pair[:1]) && within(a, pair[1:])
	})
}

// purityBroken leaves tests alone: they read files and run in parallel.
func purityBroken(files tree) []string {
	var complaints []string
	for _, s := range files.sources() {
		if s.test || !within(s.folder, pure()) {
			continue
		}
		for _, imported := range s.imports() {
			folder, ours := strings.CutPrefix(imported, module+"/")
			standard := !strings.Contains(strings.Split(imported, "/")[0], ".")
			switch {
			case ours && within(folder, pure()):
			case standard && !within(imported, impure()):
			case slices.Contains(computing(), [2]string{s.folder, imported}):
			default:
				complaints = append(complaints, fmt.Sprintf("%s is pure and imports %s", s.path, imported))
			}
		}
		for node := range ast.Preorder(s.File) {
			if what := concurrent(node); what != "" {
				complaints = append(complaints, fmt.Sprintf("%s: %s in a pure package", s.at(node), what))
			}
		}
	}
	return complaints
}

// racesBroken finds what the race detector is needed for in the packages that the Makefile tests
// without it. Generated code is left alone, as are tests: they may run in parallel, with values of
// their own.
func racesBroken(files tree) []string {
	list := regexp.MustCompile(`(?m)^pure_names := (?:\$\(pure_names\)\|)?(.+)$`)
	var names []string
	for _, match := range list.FindAllStringSubmatch(files["Makefile"], -1) {
		names = append(names, match[1])
	}
	if len(names) == 0 {
		return []string{"Makefile names no packages (pure_names) that are tested without the race detector"}
	}
	untested := regexp.MustCompile("^(" + strings.Join(names, "|") + ")(/|$)")
	var complaints []string
	for _, s := range files.sources() {
		if s.test || !untested.MatchString(s.folder) || within(s.folder, []string{"proto"}) {
			continue
		}
		for _, imported := range s.imports() {
			if within(imported, []string{"sync"}) {
				complaints = append(complaints, fmt.Sprintf("%s imports %s and is tested without the race detector", s.path, imported))
			}
		}
		for node := range ast.Preorder(s.File) {
			if what := concurrent(node); what != "" {
				complaints = append(complaints, fmt.Sprintf("%s: %s in a package tested without the race detector", s.at(node), what))
			}
		}
	}
	return complaints
}

// sizeBroken leaves tests alone: they are not in the program.
func sizeBroken(files tree) []string {
	var complaints []string
	for _, s := range files.sources() {
		if s.test || !within(s.folder, small()) {
			continue
		}
		for _, imported := range s.imports() {
			folder, ours := strings.CutPrefix(imported, module+"/")
			standard := !strings.Contains(strings.Split(imported, "/")[0], ".")
			heavy := within(imported, []string{"net", "crypto", "os/user", "log"})
			switch {
			case ours && within(folder, small()), standard && !heavy, within(imported, []string{"golang.org/x/sys"}):
			default:
				complaints = append(complaints, fmt.Sprintf("%s is of a small program and imports %s", s.path, imported))
			}
		}
	}
	return complaints
}

// shunnedBroken follows the imports of programs through all packages of this module. Tests are in
// no program.
func shunnedBroken(files tree) []string {
	inFolder := map[string][]source{}
	for _, s := range files.sources() {
		if !s.test {
			inFolder[s.folder] = append(inFolder[s.folder], s)
		}
	}
	var complaints []string
	for _, pair := range shunned() {
		program, library := pair[0], pair[1]
		for next, seen := []string{program}, map[string]bool{program: true}; len(next) > 0; {
			folder := next[0]
			next = next[1:]
			for _, s := range inFolder[folder] {
				for _, imported := range s.imports() {
					below, ours := strings.CutPrefix(imported, module+"/")
					switch {
					case within(imported, []string{library}):
						complaints = append(complaints, fmt.Sprintf("%s imports %s, and %s must not have that in it", s.path, imported, program))
					case ours && !seen[below]:
						seen[below] = true
						next = append(next, below)
					}
				}
			}
		}
	}
	return complaints
}

// concurrent names the part of a node that needs more than one goroutine.
func concurrent(node ast.Node) string {
	switch node := node.(type) {
	case *ast.GoStmt:
		return "a goroutine"
	case *ast.ChanType:
		return "a channel"
	case *ast.SelectStmt:
		return "a select"
	case *ast.UnaryExpr:
		if node.Op == token.ARROW {
			return "a receive"
		}
	}
	return ""
}

func (s source) imports() []string {
	var list []string
	for _, spec := range s.Imports {
		list = append(list, strings.Trim(spec.Path.Value, "`\""))
	}
	return list
}

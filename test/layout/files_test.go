package layout

import (
	"fmt"
	"go/ast"
	"path"
	"regexp"
	"slices"
	"strings"
)

// maxLines is the size from which a file usually holds more than one idea.
const maxLines = 450

func filesBroken(files tree) []string {
	var complaints []string
	for _, s := range files.sources() {
		if lines := strings.Count(s.content, "\n"); lines > maxLines && !s.generated {
			complaints = append(complaints, fmt.Sprintf("%s has %d lines, more than %d", s.path, lines, maxLines))
		}
	}
	words := regexp.MustCompile(`[^a-z]+`)
	vague := regexp.MustCompile(`^(utils?|helpers?|managers?|common|misc)$`)
	for _, name := range files.paths() {
		if path.Ext(name) == ".go" && slices.ContainsFunc(words.Split(name, -1), vague.MatchString) {
			complaints = append(complaints, fmt.Sprintf("%s: the name does not say what it holds", name))
		}
	}
	return complaints
}

// packageCommentsBroken accepts the comment in any file of the folder. A folder that has only
// tests has it in a test.
func packageCommentsBroken(files tree) []string {
	said := map[string]bool{}
	var folders []string
	for _, s := range files.sources() {
		if s.generated {
			continue
		}
		folders = append(folders, s.folder)
		name := strings.TrimSuffix(s.Name.Name, "_test")
		said[s.folder] = said[s.folder] || strings.HasPrefix(s.Doc.Text(), "Package "+name+" ") ||
			name == "main" && strings.HasPrefix(s.Doc.Text(), "Command "+path.Base(s.folder)+" ")
	}
	var complaints []string
	for _, folder := range slices.Compact(folders) {
		if !said[folder] {
			complaints = append(complaints, fmt.Sprintf("%s: no file has a package comment (Package … or Command …)", folder))
		}
	}
	return complaints
}

// leftoversBroken finds skips in the code, and in the scripts of testscript, and marks in every
// file.
func leftoversBroken(files tree) []string {
	marks := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)
	skips := regexp.MustCompile(`(?m)^(\[.+\] *)?skip\b`)
	complaints := files.matches(marks, "is left over")
	for _, name := range files.paths() {
		if strings.Contains(name, "testdata/") && slices.Contains([]string{".txtar", ".txt"}, path.Ext(name)) {
			complaints = append(complaints, tree{name: files[name]}.matches(skips, "skips a test")...)
		}
	}
	for _, s := range files.sources() {
		for call := range s.calls() {
			receiver, _ := call.X.(*ast.Ident)
			if receiver != nil && slices.Contains([]string{"t", "b", "f", "tb"}, receiver.Name) && strings.HasPrefix(call.Sel.Name, "Skip") {
				complaints = append(complaints, fmt.Sprintf("%s: %s.%s skips a test", s.at(call), receiver.Name, call.Sel.Name))
			}
		}
	}
	return complaints
}

// sleepsBroken allows sleeping in files with synctest bubbles: in a bubble, sleeping is how time
// passes.
func sleepsBroken(files tree) []string {
	var complaints []string
	for _, s := range files.sources() {
		if !s.test || slices.Contains(s.imports(), "testing/synctest") {
			continue
		}
		for call := range s.calls() {
			if receiver, _ := call.X.(*ast.Ident); receiver != nil && receiver.Name == "time" && call.Sel.Name == "Sleep" {
				complaints = append(complaints, fmt.Sprintf("%s: wait for what the test waits for", s.at(call)))
			}
		}
	}
	return complaints
}

// placesBroken finds what works on one machine only: a home or work folder, and the host of a
// package registry.
func placesBroken(files tree) []string {
	places := regexp.MustCompile(`(^|[^\w./~}-])/(home|root|work)/`)
	registries := regexp.MustCompile(`(proxy\.golang|sum\.golang|registry\.npmjs|repo1\.maven|files\.pythonhosted)\.\w+`)
	return append(files.matches(places, "is a place of one machine"), files.matches(registries, "is a package registry")...)
}

// matches names every line of every file in which the pattern is found.
func (files tree) matches(pattern *regexp.Regexp, complaint string) []string {
	var complaints []string
	for _, name := range files.paths() {
		if !pattern.MatchString(files[name]) {
			continue
		}
		for number, line := range strings.Split(files[name], "\n") {
			if found := pattern.FindString(line); found != "" {
				complaints = append(complaints, fmt.Sprintf("%s:%d: %q %s", name, number+1, strings.TrimSpace(found), complaint))
			}
		}
	}
	return complaints
}

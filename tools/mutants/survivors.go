package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// survivors is the list of mutants that no test notices and that are known to be harmless, by the
// text of their keys.
type survivors map[string]bool

// readSurvivors reads a list. A line that begins with "#" is a remark. An indented line says why
// the mutants above it, up to the last empty line, are harmless. Every mutant has such a reason.
func readSurvivors(path string) (survivors, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the list that the caller names
	if err != nil {
		return nil, err
	}
	known := make(survivors)
	unexplained := 0 // the line of a mutant that has no reason yet
	explained := false
	for i, line := range strings.Split(string(text), "\n") {
		at := fmt.Sprintf("%s:%d", path, i+1)
		switch {
		case strings.HasPrefix(line, "#"):
		case strings.TrimSpace(line) == "":
			if unexplained > 0 {
				return nil, fmt.Errorf("%s:%d: a mutant without a reason: want an indented line below it that says why it is harmless", path, unexplained)
			}
			explained = false
		case line[0] == ' ' || line[0] == '\t':
			unexplained, explained = 0, true
		case explained:
			return nil, fmt.Errorf("%s: a mutant below the reason of another: want an empty line between them", at)
		case known[line]:
			return nil, fmt.Errorf("%s: listed twice: %s", at, line)
		default:
			known[line] = true
			unexplained = i + 1
		}
	}
	if unexplained > 0 {
		return nil, fmt.Errorf("%s:%d: a mutant without a reason: want an indented line below it that says why it is harmless", path, unexplained)
	}
	return known, nil
}

// dead is the entries of this package that did not survive, or are no longer mutants. It does not
// have mutants that were not tried.
func (s survivors) dead(p *loaded, mutants []*mutant) []string {
	lives := make(map[string]bool)
	for _, m := range mutants {
		lives[m.key.String()] = m.survived || !m.tried
	}
	var keys []string
	for key := range s {
		file, _, _ := strings.Cut(key, separator)
		if filepath.Dir(file) == p.dir && !lives[key] {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

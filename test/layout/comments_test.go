package layout

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// maxColumns is the width of a comment that has a line for itself, with a tab counted as 4.
const maxColumns = 100

// commentsBroken finds comments that are too wide to read next to another file. A comment behind
// code is as wide as that code makes it. An address, a directive, and the lines of a table or a
// sample, which begin with a tab, cannot be broken.
func commentsBroken(files tree) []string {
	unbreakable := regexp.MustCompile(`^//(nolint|go:|\t)|://`)
	var complaints []string
	for _, s := range files.sources() {
		if s.generated {
			continue
		}
		lines := strings.Split(s.content, "\n")
		for _, group := range s.Comments {
			for _, comment := range group.List {
				line := lines[s.lines.Position(comment.Pos()).Line-1]
				width := utf8.RuneCountInString(strings.ReplaceAll(line, "\t", "    "))
				if strings.HasPrefix(strings.TrimSpace(line), "//") && width > maxColumns && !unbreakable.MatchString(comment.Text) {
					complaints = append(complaints, fmt.Sprintf("%s: a comment of %d columns, more than %d", s.at(comment), width, maxColumns))
				}
			}
		}
	}
	return complaints
}

package layout

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// linksBroken follows the links of every Markdown file that lead to a file or folder of the tree.
// Links to the web are not followed: a test needs no network.
func linksBroken(files tree) []string {
	code := regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	link := regexp.MustCompile(`\]\(<?([^)>\s]+)|(?m:^\[[^\]]+\]:\s+(\S+))`)
	var complaints []string
	for _, name := range files.paths() {
		if path.Ext(name) != ".md" {
			continue
		}
		for _, match := range link.FindAllStringSubmatch(code.ReplaceAllString(files[name], ""), -1) {
			target, _, _ := strings.Cut(match[1]+match[2], "#")
			if target == "" || strings.Contains(target, ":") {
				continue // a heading of the same file, or the web
			}
			if !files.holds(path.Join(path.Dir(name), target)) {
				complaints = append(complaints, fmt.Sprintf("%s: the link to %s leads nowhere", name, target))
			}
		}
	}
	return complaints
}

// holds reports whether there is such a file, or a folder with files.
func (files tree) holds(name string) bool {
	if _, ok := files[name]; ok {
		return true
	}
	for other := range files {
		if strings.HasPrefix(other, name+"/") {
			return true
		}
	}
	return false
}

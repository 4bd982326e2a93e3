package storetest

import (
	"fmt"
	"io/fs"
	"regexp"
	"strings"
)

// additions match the statements that do not affect the previous version, because that names the
// columns that it reads and writes. It ignores another table or another plain index, and another
// column gets its default.
var additions = []*regexp.Regexp{
	regexp.MustCompile(`^CREATE TABLE \w+ \(`),
	regexp.MustCompile(`^CREATE INDEX \w+ ON \w+ `),
	regexp.MustCompile(`^ALTER TABLE \w+ ADD COLUMN \w+ \w+$`),
	regexp.MustCompile(`^ALTER TABLE \w+ ADD COLUMN \w+ \w+ (NOT NULL )?DEFAULT ('[^']*'|-?\d+)$`),
	regexp.MustCompile(`^PRAGMA user_version = \d+$`),
}

var (
	sqlComment = regexp.MustCompile(`--[^\n]*`)
	sqlSpace   = regexp.MustCompile(`\s+`)
)

// CheckAdditions returns an error unless every migration except the first only adds. Coordinators
// of two versions share a database during an upgrade, and one of the previous version may lead
// again with the tables of this one.
func CheckAdditions(migrations fs.FS) error {
	files, err := fs.Glob(migrations, "*.sql")
	if err != nil || len(files) == 0 {
		return fmt.Errorf("%d migrations, %w", len(files), err)
	}
	for _, name := range files[1:] {
		text, err := fs.ReadFile(migrations, name)
		if err != nil {
			return fmt.Errorf("migrations: %w", err)
		}
		for statement := range strings.SplitSeq(sqlComment.ReplaceAllString(string(text), ""), ";") {
			statement = strings.TrimSpace(sqlSpace.ReplaceAllString(statement, " "))
			if statement != "" && !adds(statement) {
				return fmt.Errorf("%s: %q: want a new table, a new index that is not unique, or a new column with a default: "+
					"a coordinator of the version before must be able to go on", name, statement)
			}
		}
	}
	return nil
}

func adds(statement string) bool {
	for _, addition := range additions {
		if addition.MatchString(statement) {
			return true
		}
	}
	return false
}

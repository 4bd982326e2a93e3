package check

import (
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"strings"
)

// Properties are those of Linkis's files. A later file overrides an earlier one.
type Properties map[string]string

// Add reads a file in the format of Java's properties. The error names the file and the line.
func (p Properties) Add(file, text string) error {
	read := Properties{}
	whole := ""
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimLeft(strings.TrimRight(line, "\r"), " \t\f")
		if whole == "" && (line == "" || line[0] == '#' || line[0] == '!') {
			continue
		}
		if continued, found := strings.CutSuffix(line, `\`); found && !strings.HasSuffix(continued, `\`) {
			whole += continued
			continue
		}
		whole += line
		at := strings.IndexAny(whole, "=:")
		if at <= 0 {
			return fmt.Errorf("%s:%d: %q: want NAME=VALUE", file, i+1, shown(whole))
		}
		read[strings.TrimSpace(whole[:at])] = unescape(strings.TrimSpace(whole[at+1:]))
		whole = ""
	}
	maps.Copy(p, read)
	return nil
}

// SetDatabase names another database than the files do.
func (p Properties) SetDatabase(jdbc string) { p[urlSetting] = jdbc }

// shown is the part of a wrong line that an error may have: the rest may hold a password.
func shown(line string) string {
	name, _, _ := strings.Cut(line, " ")
	return name[:min(len(name), 40)]
}

var escape = regexp.MustCompile(`\\(u[0-9a-fA-F]{4}|.)`)

func unescape(value string) string {
	return escape.ReplaceAllStringFunc(value, func(e string) string {
		if code, err := strconv.ParseUint(strings.TrimPrefix(e, `\u`), 16, 16); err == nil && len(e) == len(`\u0000`) {
			return string(rune(code))
		}
		switch e[1] {
		case 'n':
			return "\n"
		case 't':
			return "\t"
		default:
			return e[1:]
		}
	})
}

var size = regexp.MustCompile(`^([0-9]{1,15})(b|[kmgtp]b?|)$`)

// bytesOf reads a size as Linkis does: 1024, 512m, 20G. ok is false if it is none.
func bytesOf(text string) (n int64, ok bool) {
	m := size.FindStringSubmatch(strings.ToLower(strings.TrimSpace(text)))
	if m == nil {
		return 0, false
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	power := 0
	if m[2] != "" {
		power = strings.IndexByte("bkmgtp", m[2][0])
	}
	shift := 10 * power
	if err != nil || n > (1<<62)>>shift {
		return 0, false
	}
	return n << shift, true
}

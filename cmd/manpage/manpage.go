// Package manpage writes manual pages in the macros of man(7), in the plain form that both groff
// and mandoc read well. It formats text and knows nothing about its subject.
//
// A Page is a value; it may be used by one goroutine at a time.
package manpage

import (
	"fmt"
	"strings"
	"time"
)

// Page is one manual page. Its parts are written in the order of the calls.
type Page struct {
	body strings.Builder
}

// New begins a page. Section is the section of the manual (1 commands, 5 files, 7 topics, 8
// administration), source is the program and its version. whatis(1) and apropos(1) find name and
// summary.
func New(name, section, source string, date time.Time, summary string) *Page {
	p := &Page{}
	p.linef(".TH %s %s %s %s %s", quoted(strings.ToUpper(name)), quoted(section), quoted(date.UTC().Format(time.DateOnly)), quoted(source), quoted("Bursar"))
	// No hyphenation: words here are fields, flags and paths.
	p.linef(".nh")
	p.Heading("NAME")
	p.linef("%s \\- %s", escaped(name), escaped(summary))
	return p
}

// Heading begins a section of the page.
func (p *Page) Heading(title string) { p.linef(".SH %s", quoted(title)) }

// Text adds paragraphs, with empty lines between them. A line that begins with a space is kept as
// it is, and so are the lines after it.
func (p *Page) Text(text string) {
	asIs, open := false, false
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		indented := strings.HasPrefix(line, " ")
		switch {
		case line == "" && asIs:
			p.linef("")
			continue
		case line == "":
			open = false
			continue
		case indented && !asIs:
			p.linef(".PP\n.nf")
		case !indented && asIs:
			p.linef(".fi\n.PP")
			open = true
		case !indented && !open:
			p.linef(".PP")
			open = true
		}
		asIs = indented
		p.linef("%s", shown(line))
	}
	if asIs {
		p.linef(".fi")
	}
}

// Literal adds text as it is.
func (p *Page) Literal(text string) {
	p.linef(".PP\n.nf")
	for line := range strings.SplitSeq(strings.Trim(text, "\n"), "\n") {
		p.linef("%s", shown(line))
	}
	p.linef(".fi")
}

// Term adds the meaning of a name: of an option, of a field.
func (p *Page) Term(name, meaning string) {
	p.linef(".TP\n\\fB%s\\fR", escaped(name))
	p.linef("%s", shown(strings.Join(strings.Fields(meaning), " ")))
}

// References adds the section SEE ALSO, of names such as bursar(1).
func (p *Page) References(names ...string) {
	p.Heading("SEE ALSO")
	for i, name := range names {
		title, section, _ := strings.Cut(name, "(")
		end := " ,"
		if i == len(names)-1 {
			end = ""
		}
		p.linef(".BR %s (%s%s", escaped(title), section, end)
	}
}

// String is the page.
func (p *Page) String() string { return p.body.String() }

func (p *Page) linef(format string, args ...any) { fmt.Fprintf(&p.body, format+"\n", args...) }

// escaped is text within a line: a backslash stays one, and a hyphen can be copied and is never a
// place to break a line.
func escaped(text string) string { return strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text) }

// shown is text that makes up a whole line: its beginning is never a request to roff.
func shown(line string) string {
	line = escaped(line)
	if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
		line = `\&` + line
	}
	return line
}

// quoted is text as one argument of a request.
func quoted(text string) string { return `"` + strings.ReplaceAll(escaped(text), `"`, `\(dq`) + `"` }

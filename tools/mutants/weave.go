package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// mutant is one change of the code.
type mutant struct {
	number   int // from 1 on
	key      key
	line     int
	tried    bool
	survived bool
}

// key names a mutant so that the name stays valid when other parts of its file change.
type key struct {
	file, function, operator string
	text                     string // what is changed
	again                    int    // 2 for the second such place in the function, and so on
}

// String is the key's line in the list of survivors.
func (k key) String() string {
	line := strings.Join([]string{k.file, k.function, k.operator, k.text}, separator)
	if k.again > 1 {
		line += fmt.Sprintf("%s%d", separator, k.again)
	}
	return line
}

const separator = " | "

// edit replaces a piece of a file with text.
type edit struct {
	from, to int
	text     string
	closes   bool // it ends what another edit begins
	order    int
}

// weaver puts the mutants of one package into its files.
type weaver struct {
	*loaded

	file     *source
	function string
	stack    []ast.Node // the nodes around the one that is looked at
	mutants  []*mutant
	counts   map[key]int
	numbers  map[string]int // mutants of named constants, which may stand in many places
}

// weave finds all mutants of a package and puts them into its files.
func weave(p *loaded) []*mutant {
	w := &weaver{loaded: p, counts: make(map[key]int), numbers: make(map[string]int)}
	for _, f := range p.files {
		w.file = f
		for _, d := range f.syntax.Decls {
			if g, is := d.(*ast.GenDecl); is && g.Tok != token.VAR {
				continue
			}
			w.function = nameOf(d)
			ast.PreorderStack(d, nil, func(n ast.Node, stack []ast.Node) bool {
				w.stack = stack
				return w.look(n)
			})
		}
	}
	return w.mutants
}

// nameOf is the name that a declaration declares, with its receiver.
func nameOf(d ast.Decl) string {
	f, is := d.(*ast.FuncDecl)
	if !is {
		return "var"
	}
	if f.Recv == nil {
		return f.Name.Name
	}
	receiver, pointer := f.Recv.List[0].Type, ""
	if star, is := receiver.(*ast.StarExpr); is {
		receiver, pointer = star.X, "*"
	}
	switch generic := receiver.(type) {
	case *ast.IndexExpr:
		receiver = generic.X
	case *ast.IndexListExpr:
		receiver = generic.X
	}
	return fmt.Sprintf("(%s%s).%s", pointer, receiver, f.Name.Name)
}

// add makes a mutant of a node and returns its number.
func (w *weaver) add(operator string, n ast.Node) int {
	text := w.textOf(n.Pos(), n.End())
	if s := w.statement(); s != "" && s != text {
		text += " in " + s
	}
	return w.addKey(key{file: w.file.path, function: w.function, operator: operator, text: text}, n)
}

func (w *weaver) addKey(k key, n ast.Node) int {
	w.counts[k]++
	k.again = w.counts[k]
	m := &mutant{number: len(w.mutants) + 1, key: k, line: w.fset.Position(n.Pos()).Line}
	w.mutants = append(w.mutants, m)
	return m.number
}

// textOf is a piece of the file on one line. A long one is cut off.
func (w *weaver) textOf(from, to token.Pos) string {
	const most = 100
	text := strings.Join(strings.Fields(string(w.file.text[w.offset(from):w.offset(to)])), " ")
	if letters := []rune(text); len(letters) > most {
		return string(letters[:most]) + "…"
	}
	return text
}

// statement is the text of the current statement, without the blocks in it.
func (w *weaver) statement() string {
	for _, n := range slices.Backward(w.stack) {
		s, is := n.(ast.Stmt)
		if !is {
			continue
		}
		end := s.End()
		switch s := s.(type) {
		case *ast.BlockStmt:
			return ""
		case *ast.IfStmt:
			end = s.Body.Lbrace
		case *ast.ForStmt:
			end = s.Body.Lbrace
		case *ast.RangeStmt:
			end = s.Body.Lbrace
		case *ast.SwitchStmt:
			end = s.Body.Lbrace
		case *ast.CaseClause:
			end = s.Colon
		}
		return w.textOf(s.Pos(), end)
	}
	return ""
}

func (w *weaver) offset(at token.Pos) int { return w.fset.Position(at).Offset }

// wrap puts text around a node.
func (w *weaver) wrap(n ast.Node, before, after string) {
	w.edit(n.Pos(), n.Pos(), before, false)
	w.edit(n.End(), n.End(), after, true)
}

// replace replaces a token with text.
func (w *weaver) replace(at token.Pos, t token.Token, text string) {
	w.edit(at, at+token.Pos(len(t.String())), text, false)
}

func (w *weaver) edit(from, to token.Pos, text string, closes bool) {
	order := len(w.file.edits)
	if closes { // what was begun last is ended first
		order = -order
	}
	w.file.edits = append(w.file.edits, edit{w.offset(from), w.offset(to), text, closes, order})
}

// woven is the text of the file with all mutants in it.
func (f *source) woven() []byte {
	rank := func(e edit) int {
		if e.closes {
			return 0
		}
		return 1
	}
	slices.SortFunc(f.edits, func(a, b edit) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(rank(a), rank(b)), cmp.Compare(a.order, b.order))
	})
	var text []byte
	at := 0
	for _, e := range f.edits {
		text = append(append(text, f.text[at:e.from]...), e.text...)
		at = e.to
	}
	return append(text, f.text[at:]...)
}

package yamlfile

import (
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

const (
	// maxDepth is the largest nesting of lists and sets of fields. Our files have fewer than ten
	// levels. The library's time for a file grows with the square of its depth.
	maxDepth = 32
	// maxMarks is the largest number of the characters in marks in a file. A rule has 10 to 30; the
	// library needs about 600 bytes of memory for each.
	maxMarks = 1 << 20
	marks    = "[]{},:-?&*!|>'\"#%@`\n"
	// maxRepeated is the largest number of values that all aliases (*name) together may repeat.
	maxRepeated = 100_000
)

// tooMuch returns an error if the file has too many marks; it does not tokenize the file.
func (d *Document) tooMuch() *Error {
	var isMark [256]bool
	for i := range len(marks) {
		isMark[marks[i]] = true
	}
	count, at := 0, token.Position{Line: 1, Column: 1}
	for _, c := range d.data {
		if isMark[c] {
			count++
		}
		if count > maxMarks {
			return d.errorAt(&token.Token{Position: &at}, "", "more than 1048576 colons, dashes, brackets, line ends and the like: want at most so many in a file")
		}
		if at.Column++; c == '\n' {
			at.Line, at.Column = at.Line+1, 1
		}
	}
	return nil
}

// tooDeep finds the place where the nesting of lists and sets of fields becomes too deep.
func (d *Document) tooDeep(tokens token.Tokens) *Error {
	var nested nesting
	for _, t := range tokens {
		if nested.add(t); nested.depth() > maxDepth {
			return d.errorAt(t, "", "nested more than 32 deep: want at most 32 lists and sets of fields within each other")
		}
	}
	return nil
}

// nesting computes an upper bound of a token's depth: a token at the start of a line, or of an item
// of a list, may begin a set of fields.
type nesting struct {
	columns []int // of the enclosing lists and sets of fields, outside of brackets
	flow    int   // enclosing brackets
	last    *token.Token
}

func (n *nesting) depth() int { return len(n.columns) + n.flow }

func (n *nesting) add(t *token.Token) {
	begins := n.last == nil || n.last.Position.Line != t.Position.Line || n.last.Type == token.SequenceEntryType || n.last.Type == token.MappingKeyType
	n.last = t
	isItem := t.Type == token.SequenceEntryType
	switch {
	case t.Type == token.SequenceStartType, t.Type == token.MappingStartType:
		n.flow++
		return
	case t.Type == token.SequenceEndType, t.Type == token.MappingEndType:
		n.flow = max(0, n.flow-1)
		return
	case t.Type == token.CommentType, n.flow > 0, !begins && !isItem:
		return
	}
	for len(n.columns) > 0 && n.columns[len(n.columns)-1] >= t.Position.Column {
		n.columns = n.columns[:len(n.columns)-1]
	}
	n.columns = append(n.columns, t.Position.Column)
}

// repeats finds the alias that exceeds maxRepeated. Aliases of values with aliases could expand a
// few lines beyond the available memory.
func (d *Document) repeats() *Error {
	r := repeated{sizes: make(map[string]int)}
	if d.body != nil {
		r.size(d.body)
	}
	if r.tooMany == nil {
		return nil
	}
	return d.errorAt(r.tooMany, "", "aliases repeat more than 100000 values: want them written out")
}

// repeated counts the values that aliases stand for.
type repeated struct {
	sizes   map[string]int // of anchored nodes, in values, with their own aliases expanded
	count   int            // of all aliases so far
	tooMany *token.Token
}

// size returns the number of values in a node.
func (r *repeated) size(node ast.Node) (n int) {
	if r.tooMany != nil {
		return 0
	}
	switch node := node.(type) {
	case *ast.MappingNode:
		for _, value := range node.Values {
			n += r.size(value)
		}
	case *ast.MappingValueNode:
		n = r.size(node.Value)
	case *ast.SequenceNode:
		for _, value := range node.Values {
			n += r.size(value)
		}
	case *ast.TagNode:
		n = r.size(node.Value)
	case *ast.AnchorNode:
		n = r.size(node.Value)
		r.sizes[node.Name.GetToken().Value] = n
	case *ast.AliasNode:
		n = r.sizes[node.Value.GetToken().Value]
		if r.count += n; r.count > maxRepeated {
			r.tooMany = node.GetToken()
		}
	}
	return min(1+n, maxRepeated+1)
}

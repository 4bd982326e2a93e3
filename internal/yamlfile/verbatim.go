package yamlfile

import (
	"reflect"
	"strconv"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// place describes the target of a value in the struct.
type place struct {
	into reflect.Type // without pointers; nil if unknown
	// isData: the value is an item of a list, a key, or the value of a free key, and not the value
	// of a field.
	isData bool
}

// copier copies a document for the library to decode into a type. A value for a text becomes a
// quoted text in the copy, as written. Otherwise the library would print the number that it has
// parsed, and 0660 would become 432. Aliases are replaced by the nodes that they stand for, because
// a node may be text in one place and a number in another.
type copier struct {
	doc *Document
	// anchors maps the names of the anchors so far to their nodes; nil for an anchor that encloses
	// the current node.
	anchors map[string]ast.Node
	alias   *ast.AliasNode // the outermost alias around the current node
	// wrong is about the first value that the library would change or reject.
	wrong *Error
}

// typed returns a copy of the document for decoding into a type.
func (d *Document) typed(into reflect.Type) (ast.Node, *Error) {
	c := copier{doc: d, anchors: make(map[string]ast.Node)}
	node := c.copy(d.body, place{into: direct(into)})
	return node, c.wrong
}

func (c *copier) copy(node ast.Node, p place) ast.Node {
	switch n := node.(type) {
	case *ast.AnchorNode:
		name := n.Name.GetToken().Value
		c.anchors[name] = nil
		copied := c.copy(n.Value, p)
		c.anchors[name] = n.Value
		return copied
	case *ast.AliasNode:
		return c.meant(n, p)
	case *ast.TagNode:
		if n.Value == nil || token.ReservedTagKeyword(n.Start.Value) == token.BinaryTag {
			return n
		}
		return c.copy(n.Value, p)
	}
	c.check(node, p.into)
	switch n := node.(type) {
	case *ast.MappingNode:
		copied := *n
		copied.Values = make([]*ast.MappingValueNode, len(n.Values))
		for i, value := range n.Values {
			copied.Values[i] = c.field(value, p.into)
		}
		return &copied
	case *ast.MappingValueNode:
		return c.field(n, p.into)
	case *ast.SequenceNode:
		return c.list(n, place{into: inner(p.into, ""), isData: true})
	}
	if isText(p.into) && (node.Type() != ast.NullType || p.isData && p.into.Kind() == reflect.String) {
		return asText(node)
	}
	return node
}

// meant copies the node that an alias stands for.
func (c *copier) meant(alias *ast.AliasNode, p place) ast.Node {
	name := alias.Value.GetToken().Value
	node, known := c.anchors[name]
	if c.alias == nil {
		c.alias = alias
		defer func() { c.alias = nil }()
	}
	switch {
	case !known:
		c.refuse(alias, "*"+name+": want an alias of what is marked with &"+name+" before it")
		return alias
	case node == nil:
		c.refuse(alias, "*"+name+": is within what is marked with &"+name+": want what is not in itself")
		return alias
	}
	return c.copy(node, p)
}

func (c *copier) list(n *ast.SequenceNode, p place) ast.Node {
	copied := *n
	copied.Values = make([]ast.Node, len(n.Values))
	for i, item := range n.Values {
		copied.Values[i] = c.copy(item, p)
	}
	return &copied
}

// field copies a key and its value, inside a value of type within.
func (c *copier) field(n *ast.MappingValueNode, within reflect.Type) *ast.MappingValueNode {
	copied := *n
	if n.Key.IsMergeKey() {
		copied.Value = c.merged(n.Value, within)
		return &copied
	}
	isField := within != nil && within.Kind() == reflect.Struct
	copied.Key = c.key(n.Key, within)
	copied.Value = c.copy(n.Value, place{into: inner(within, copied.Key.GetToken().Value), isData: !isField})
	return &copied
}

// key copies a key; keys of fields are texts.
func (c *copier) key(key ast.MapKeyNode, within reflect.Type) ast.MapKeyNode {
	p := place{isData: true}
	switch {
	case within == nil:
	case within.Kind() == reflect.Struct:
		p.into = reflect.TypeFor[string]()
	case within.Kind() == reflect.Map:
		p.into = direct(within.Key())
	}
	var node ast.Node = key
	if explicit, ok := key.(*ast.MappingKeyNode); ok && explicit.Value != nil { // ? key
		node = explicit.Value
	}
	if copied, ok := c.copy(node, p).(ast.MapKeyNode); ok {
		return copied
	}
	return key
}

// merged copies the value of "<<:", one set of fields or a list of them.
func (c *copier) merged(node ast.Node, within reflect.Type) ast.Node {
	if list, ok := node.(*ast.SequenceNode); ok {
		return c.list(list, place{into: within})
	}
	return c.copy(node, place{into: within})
}

// check records a value that does not fit its type.
func (c *copier) check(node ast.Node, into reflect.Type) {
	if into == nil || node.Type() == ast.NullType {
		return
	}
	want := wanted(into, node)
	if want == "" {
		return
	}
	reason := Want(textOf(node), want)
	if _, isScalar := node.(ast.ScalarNode); !isScalar {
		reason = "is " + kind(node.Type()) + ": want " + want
	}
	c.refuse(node, reason)
}

// refuse records the first fault; a fault behind an alias has the place of the alias.
func (c *copier) refuse(node ast.Node, reason string) {
	if c.alias != nil {
		node = c.alias
	}
	if c.wrong == nil {
		c.wrong = c.doc.errorAt(firstToken(node), pathOf(node), reason)
	}
}

// isText reports whether a type takes the text of a value. Types that take the library's nodes
// handle the text themselves.
func isText(t reflect.Type) bool {
	if t == nil || reflect.PointerTo(t).Implements(reflect.TypeFor[yaml.NodeUnmarshaler]()) {
		return false
	}
	return t.Kind() == reflect.String || reflect.PointerTo(t).Implements(unmarshaler)
}

// asText turns a single value into a quoted text, so that the library does not parse it again. The
// new token has no neighbours, because the library also writes those out.
func asText(node ast.Node) ast.Node {
	scalar, ok := node.(ast.ScalarNode)
	if !ok {
		return node
	}
	text := textOf(scalar)
	return &ast.StringNode{
		BaseNode: &ast.BaseNode{Path: node.GetPath()},
		Token:    &token.Token{Type: token.DoubleQuoteType, Value: text, Origin: strconv.Quote(text), Position: node.GetToken().Position},
		Value:    text,
	}
}

// textOf returns a single value as written, without its quotes; empty if it is absent.
func textOf(node ast.Node) string {
	if block, ok := node.(*ast.LiteralNode); ok { // | or >
		return block.Value.Value
	}
	if t := node.GetToken(); t.Type != token.ImplicitNullType {
		return t.Value
	}
	return ""
}

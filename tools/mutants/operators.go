package main

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strconv"
)

// The operators. Each changes the code as a mistake would, in a way that a test of the code's
// purpose can notice.
const (
	boundary  = "boundary"  // < for <=, > for >=, and back
	negated   = "negated"   // a comparison, or a condition, means the opposite
	swapped   = "swapped"   // && for ||, and back
	operation = "operation" // - for +, / for *, * for %, and back; max for min
	removed   = "removed"   // a call, an assignment, or a return is missing
	number    = "number"    // a number is one more or, if it is above 16, half
	truth     = "truth"     // true for false, and back
)

// mutantsGo is what the woven code calls. A mutant is in force if its number is in the
// environment.
const mutantsGo = `

import (
	"cmp"
	"os"
	"strconv"
)

var mutantInForce = func() int { n, _ := strconv.Atoi(os.Getenv("` + numberVariable + `")); return n }()

func mutant(n int) bool { return mutantInForce == n }

type mutantNumbers interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~float32 | ~float64
}

type mutantIntegers interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

func mutantBoth(n int, a bool, b func() bool) bool { if mutant(n) { return a || b() }; return a && b() }
func mutantEither(n int, a bool, b func() bool) bool { if mutant(n) { return a && b() }; return a || b() }

func mutantLess[T cmp.Ordered](n int, a, b T) bool { return mutant(n) && a <= b || mutant(n+1) && a >= b || !mutant(n) && !mutant(n+1) && a < b }
func mutantMore[T cmp.Ordered](n int, a, b T) bool { return mutantLess(n, b, a) }
func mutantAtMost[T cmp.Ordered](n int, a, b T) bool { return mutant(n) && a < b || mutant(n+1) && a > b || !mutant(n) && !mutant(n+1) && a <= b }
func mutantAtLeast[T cmp.Ordered](n int, a, b T) bool { return mutantAtMost(n, b, a) }

func mutantSum[T mutantNumbers](n int, a, b T) T { if mutant(n) { return a - b }; return a + b }
func mutantDifference[T mutantNumbers](n int, a, b T) T { if mutant(n) { return a + b }; return a - b }
func mutantProduct[T mutantNumbers](n int, a, b T) T { if mutant(n) { return a / b }; return a * b }
func mutantQuotient[T mutantNumbers](n int, a, b T) T { if mutant(n) { return a * b }; return a / b }
func mutantRemainder[T mutantIntegers](n int, a, b T) T { if mutant(n) { return a * b }; return a % b }
func mutantMin[T cmp.Ordered](n int, a, b T) T { if mutant(n) { return max(a, b) }; return min(a, b) }
func mutantMax[T cmp.Ordered](n int, a, b T) T { if mutant(n) { return min(a, b) }; return max(a, b) }

func mutantNumber[T mutantIntegers](n int, a T) T {
	switch {
	case !mutant(n):
		return a
	case a > 16:
		return a / 2
	}
	return a + 1
}
`

var comparisons = map[token.Token]string{ //nolint:gochecknoglobals // a table
	token.LSS: "mutantLess", token.GTR: "mutantMore", token.LEQ: "mutantAtMost", token.GEQ: "mutantAtLeast",
}

var operations = map[token.Token]string{ //nolint:gochecknoglobals // a table
	token.ADD: "mutantSum", token.SUB: "mutantDifference", token.MUL: "mutantProduct", token.QUO: "mutantQuotient", token.REM: "mutantRemainder",
}

// look makes the mutants of one node. It returns whether to visit the nodes below.
func (w *weaver) look(n ast.Node) bool {
	if w.removable(n) {
		w.wrap(n, fmt.Sprintf("if !mutant(%d) { ", w.add(removed, n)), " }")
	}
	switch n := n.(type) {
	case *ast.ArrayType, *ast.FuncType, *ast.StructType, *ast.InterfaceType:
		return false // lengths and types are not for mutants
	case *ast.GenDecl:
		return n.Tok == token.VAR
	case ast.Expr:
		if w.info.Types[n].Value != nil {
			w.constant(n)
			return false
		}
	}
	switch n := n.(type) {
	case *ast.BinaryExpr:
		w.binary(n)
	case *ast.IfStmt:
		w.condition(n.Cond)
	case *ast.CaseClause:
		if s, is := w.stack[len(w.stack)-2].(*ast.SwitchStmt); is && s.Tag == nil {
			for _, e := range n.List {
				w.condition(e)
			}
		}
	case *ast.CallExpr:
		return w.call(n)
	}
	return true
}

// removable reports whether the code compiles without the statement.
func (w *weaver) removable(n ast.Node) bool {
	if len(w.stack) == 0 {
		return false
	}
	switch w.stack[len(w.stack)-1].(type) {
	case *ast.BlockStmt, *ast.CaseClause:
	default:
		return false
	}
	switch s := n.(type) {
	case *ast.ExprStmt:
		c, is := s.X.(*ast.CallExpr)
		return is && !w.builtin(c, "panic")
	case *ast.AssignStmt:
		return s.Tok != token.DEFINE
	case *ast.IncDecStmt:
		return true
	case *ast.BranchStmt:
		return s.Label == nil && (s.Tok == token.BREAK || s.Tok == token.CONTINUE)
	case *ast.ReturnStmt:
		return len(s.Results) == 0
	}
	return false
}

// binary makes the mutants of an operation that is no constant.
func (w *weaver) binary(b *ast.BinaryExpr) {
	switch {
	case b.Op == token.LAND || b.Op == token.LOR:
		name := "mutantBoth"
		if b.Op == token.LOR {
			name = "mutantEither"
		}
		w.wrap(b, fmt.Sprintf("%s(%d, ", name, w.add(swapped, b)), ")")
		w.replace(b.OpPos, b.Op, ", func() bool { return (")
		w.edit(b.End(), b.End(), ") }", true)
	case b.Op == token.EQL || b.Op == token.NEQ:
		w.wrap(b, "((", fmt.Sprintf(") != mutant(%d))", w.add(negated, b)))
	case comparisons[b.Op] != "" && w.generic(b.X) && w.generic(b.Y):
		n := w.add(boundary, b)
		w.add(negated, b)
		w.function2(b, comparisons[b.Op], n)
	case operations[b.Op] != "" && w.generic(b.X) && w.generic(b.Y) && is(w.info.TypeOf(b), types.IsNumeric):
		w.function2(b, operations[b.Op], w.add(operation, b))
	}
}

// function2 makes a call of an operation on two values.
func (w *weaver) function2(b *ast.BinaryExpr, name string, n int) {
	w.wrap(b, fmt.Sprintf("%s(%d, ", name, n), ")")
	w.replace(b.OpPos, b.Op, ",")
}

// generic reports whether a function with a type parameter accepts a value.
func (w *weaver) generic(e ast.Expr) bool {
	if shift, isShift := ast.Unparen(e).(*ast.BinaryExpr); isShift && shift.Op == token.SHL && w.info.Types[shift].Value == nil {
		return false
	}
	_, parameter := w.info.TypeOf(e).(*types.TypeParam)
	return !parameter
}

func is(t types.Type, of types.BasicInfo) bool {
	b, basic := t.Underlying().(*types.Basic)
	return basic && b.Info()&of != 0
}

// condition makes a mutant of a condition that is neither a comparison nor a combination; these
// have mutants of their own.
func (w *weaver) condition(e ast.Expr) {
	if _, combined := ast.Unparen(e).(*ast.BinaryExpr); combined || w.info.Types[e].Value != nil {
		return
	}
	w.stack = append(slices.Clip(w.stack), e)
	w.wrap(e, "((", fmt.Sprintf(") != mutant(%d))", w.add(negated, e)))
}

// call makes the mutants of min and max. It leaves sizes in calls of make alone: they change no
// result.
func (w *weaver) call(c *ast.CallExpr) bool {
	for name, with := range map[string]string{"min": "mutantMin", "max": "mutantMax"} {
		if w.builtin(c, name) && len(c.Args) == 2 && w.generic(c.Args[0]) && w.generic(c.Args[1]) {
			n := w.add(operation, c)
			w.edit(c.Fun.Pos(), c.Lparen+1, fmt.Sprintf("%s(%d, ", with, n), false)
		}
	}
	return !w.builtin(c, "make")
}

func (w *weaver) builtin(c *ast.CallExpr, name string) bool {
	f, is := c.Fun.(*ast.Ident)
	if !is || f.Name != name {
		return false
	}
	_, is = w.info.Uses[f].(*types.Builtin)
	return is
}

// constant makes the mutants of a constant: of a truth value, of an integer literal, or of a named
// constant.
func (w *weaver) constant(e ast.Expr) {
	value := w.info.Types[e].Value
	t := w.info.TypeOf(e)
	if pair, is := w.stack[len(w.stack)-1].(*ast.KeyValueExpr); is && pair.Key == e {
		return // the index of an element
	}
	if name, is := e.(*ast.Ident); is && value.Kind() == constant.Bool && t == types.Typ[types.Bool] {
		if name.Name == "true" || name.Name == "false" {
			w.wrap(e, "(", fmt.Sprintf(" != mutant(%d))", w.add(truth, e)))
		}
		return
	}
	text, nameable := w.nameOfType(t)
	if !nameable || !is(t, types.IsInteger) || w.besideFailure() {
		return
	}
	n := w.named(e)
	if written(e) {
		n = w.add(number, e)
	}
	if n != 0 {
		w.wrap(e, fmt.Sprintf("mutantNumber[%s](%d, ", text, n), ")")
	}
}

// besideFailure reports whether a value is returned together with an error, or with false: then
// nobody uses it.
func (w *weaver) besideFailure() bool {
	r, is := w.stack[len(w.stack)-1].(*ast.ReturnStmt)
	if !is || len(r.Results) < 2 {
		return false
	}
	last := w.info.Types[r.Results[len(r.Results)-1]]
	if last.Value != nil {
		return last.Value.Kind() == constant.Bool && !constant.BoolVal(last.Value)
	}
	failure, isInterface := types.Universe.Lookup("error").Type().Underlying().(*types.Interface)
	return isInterface && !last.IsNil() && types.Implements(last.Type, failure)
}

// written reports whether a constant is written in digits there, perhaps multiplied by a unit.
func written(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return e.Kind == token.INT
	case *ast.UnaryExpr:
		return written(e.X)
	case *ast.ParenExpr:
		return written(e.X)
	case *ast.BinaryExpr:
		return written(e.X) || written(e.Y)
	}
	return false
}

// named is the mutant of a constant that this package names: one, wherever the constant is used.
// It is 0 if the constant is one of a series, such as states: only the difference between them
// matters.
func (w *weaver) named(e ast.Expr) int {
	name, isName := e.(*ast.Ident)
	if !isName {
		return 0
	}
	c, isConstant := w.info.Uses[name].(*types.Const)
	if !isConstant || c.Pkg() != w.types {
		return 0
	}
	if n, known := w.numbers[c.Name()]; known {
		return n
	}
	n := 0
	if spec, file := w.declared(c); spec != nil && len(spec.Values) == 1 && !usesIota(spec.Values[0]) && c.Parent() == w.types.Scope() {
		k := key{file: file.path, function: "const", operator: number, text: c.Name()}
		n = w.addKey(k, spec)
	}
	w.numbers[c.Name()] = n
	return n
}

// declared finds where a constant gets its value.
func (w *weaver) declared(c *types.Const) (*ast.ValueSpec, *source) {
	for _, f := range w.files {
		if c.Pos() < f.syntax.FileStart || c.Pos() > f.syntax.FileEnd {
			continue
		}
		var found *ast.ValueSpec
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if spec, is := n.(*ast.ValueSpec); is && spec.Pos() == c.Pos() {
				found = spec
			}
			return true
		})
		return found, f
	}
	return nil, nil
}

func usesIota(e ast.Expr) bool {
	uses := false
	ast.Inspect(e, func(n ast.Node) bool {
		if name, is := n.(*ast.Ident); is && name.Name == "iota" {
			uses = true
		}
		return true
	})
	return uses
}

// nameOfType is how the file writes a type; false if it cannot.
func (w *weaver) nameOfType(t types.Type) (string, bool) {
	nameable := true
	text := types.TypeString(t, func(p *types.Package) string {
		if p == w.types {
			return ""
		}
		for _, i := range w.file.syntax.Imports {
			if path, err := strconv.Unquote(i.Path.Value); err == nil && path == p.Path() && i.Name == nil {
				return p.Name()
			}
		}
		nameable = false
		return p.Name()
	})
	basic, isBasic := t.(*types.Basic)
	return text, nameable && (!isBasic || basic.Info()&types.IsUntyped == 0)
}

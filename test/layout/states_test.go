package layout

import (
	"fmt"
	"go/ast"
)

const (
	ledgerFolder = "coordinator/ledger"
	// transitions is the one file that sets the state of an allocation: each transition owns all
	// conditions of the new state.
	transitions = ledgerFolder + "/transitions.go"
)

// isState reports whether a name is that of a field of ledger.Allocation that says where in its
// life it is, or of the function that sets one.
func isState(name string) bool {
	switch name {
	case "State", "Releasing", "Stopping", "setState":
		return true
	}
	return false
}

// statesBroken finds code of the ledger that sets the state of an allocation outside of its
// transitions: by an assignment, in a literal, or by a call.
func statesBroken(files tree) (complaints []string) {
	for _, s := range files.sources() {
		if s.test || s.folder != ledgerFolder || s.path == transitions {
			continue
		}
		for node := range ast.Preorder(s.File) {
			for _, name := range statesSet(node) {
				complaints = append(complaints, fmt.Sprintf("%s: %s is set outside of %s", s.at(node), name, transitions))
			}
		}
	}
	return complaints
}

// statesSet returns the names of states that one piece of code sets.
func statesSet(node ast.Node) (names []string) {
	var set []ast.Expr
	switch n := node.(type) {
	case *ast.AssignStmt:
		set = n.Lhs
	case *ast.UnaryExpr:
		if n.Op.String() == "&" { // somebody else may write there
			set = []ast.Expr{n.X}
		}
	case *ast.CallExpr:
		set = []ast.Expr{n.Fun}
	case *ast.CompositeLit:
		if named, ok := n.Type.(*ast.Ident); !ok || named.Name != "Allocation" {
			return nil
		}
		for _, element := range n.Elts {
			if pair, ok := element.(*ast.KeyValueExpr); ok {
				set = append(set, pair.Key)
			}
		}
	}
	for _, e := range set {
		switch e := e.(type) {
		case *ast.SelectorExpr:
			if isState(e.Sel.Name) {
				names = append(names, e.Sel.Name)
			}
		case *ast.Ident:
			if _, literal := node.(*ast.CompositeLit); literal && isState(e.Name) {
				names = append(names, e.Name)
			}
		}
	}
	return names
}

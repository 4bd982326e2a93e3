package sqlite

import (
	"fmt"

	"github.com/bursar/bursar/coordinator/ledger"
	"github.com/bursar/bursar/coordinator/store"
)

// column is a value of a column in SQLite, which may have any type, whatever the declared type is.
type column[T int64 | string] struct {
	value T
	wrong error // the value has another type
}

// Scan implements sql.Scanner. It accepts every value, so that the rest of the row is scanned too.
func (c *column[T]) Scan(found any) error {
	value, ok := found.(T)
	if c.value, c.wrong = value, nil; !ok {
		c.wrong = fmt.Errorf("it holds %s: want %s", typeName(found), typeName(value))
	}
	return nil
}

func typeName(value any) string {
	switch value.(type) {
	case int64:
		return "a whole number"
	case float64:
		return "a number that is not whole, or too large"
	case string:
		return "a text"
	case []byte:
		return "bytes"
	case nil:
		return "NULL"
	default:
		return fmt.Sprintf("a %T", value)
	}
}

// broken names an unreadable column of an allocation; nil if there is none.
func broken(id int64, name string, wrong error) *store.Broken {
	if wrong == nil {
		return nil
	}
	return &store.Broken{ID: ledger.ID(store.Unsigned(id)), Cause: fmt.Errorf("%s: %w", name, wrong)}
}

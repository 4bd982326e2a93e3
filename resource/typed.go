package resource

import (
	"fmt"
	"strconv"
	"strings"
)

// leastTyped is the smallest size that may be typed without a unit, and the smallest memory of a
// master in any case. Nobody means 4 bytes, or a process of 4 KiB.
const leastTyped = 1 << 20

// ParseTyped is ParseQuantity for values that people type. It rejects probable mistakes: a size
// below 1 MiB without a unit, which would be in bytes; a master (AMMemory) below 1 MiB with or
// without a unit; and less than the smallest part of a core. The error is a *FieldError.
func ParseTyped(dimension, text string) (int64, error) {
	n, err := ParseQuantity(dimension, text)
	if err != nil || n == 0 {
		return n, err
	}
	switch dimension {
	case Memory, AMMemory:
		if n < leastTyped && isNumber(text) {
			return 0, &FieldError{dimension, text, fmt.Sprintf("a size with its unit, such as %sMiB or %sGiB: without one it is bytes", text, text)}
		}
		if n < leastTyped && dimension == AMMemory {
			return 0, &FieldError{dimension, text, "1MiB or more, as any process needs"}
		}
	case CPU, AMCPU:
		number, inMillis := strings.CutSuffix(text, "m")
		if value, _ := strconv.ParseFloat(number, 64); inMillis && value < 1 || value < 0.001 {
			return 0, &FieldError{dimension, text, "at least 1m, a thousandth of a core, such as 100m or 0.5"}
		}
	}
	return n, nil
}

// isNumber reports whether a size has no unit.
func isNumber(text string) bool { return strings.Trim(text, "0123456789.") == "" }

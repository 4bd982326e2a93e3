package resource

import (
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/bursar/bursar/internal/spelling"
)

// unit is a suffix of a memory size.
type unit struct {
	name  string
	bytes int64
}

// Units of memory, largest first. The binary ones come first, because they are preferred for
// printing.
var (
	binaryUnits  = [...]unit{{"PiB", 1 << 50}, {"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}
	decimalUnits = [...]unit{{"P", 1e15}, {"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"K", 1e3}, {"B", 1}}
)

// unitBytes returns the size of a unit in any accepted spelling.
func unitBytes(name string) (int64, bool) {
	for _, u := range binaryUnits {
		if name == u.name || name == strings.TrimSuffix(u.name, "B") {
			return u.bytes, true
		}
	}
	for _, u := range decimalUnits {
		if name == u.name || name == u.name+"B" && u.bytes > 1 {
			return u.bytes, true
		}
	}
	switch name {
	case "":
		return 1, true
	case "k", "kB":
		return 1e3, true
	}
	return 0, false
}

// ParseMemory parses a size in bytes: "4GiB", "512Mi", "1.5GiB" in powers of 1024; "4G", "500MB" in
// powers of 1000; "1048576" or "1048576B" in bytes. A fraction of a byte is rounded up. Units are
// case-sensitive: a small "m" or "g" is an error, because its meaning is ambiguous. The error is a
// *FieldError.
func ParseMemory(text string) (int64, error) {
	number := strings.TrimRight(text, "kKMGTPiB")
	bytes, known := unitBytes(text[len(number):])
	if known {
		if n, ok := scaleDecimal(number, bytes); ok {
			return n, nil
		}
	}
	want := "a size such as 4GiB, 512MiB or 1.5GiB (powers of 1024), 4G or 500M (powers of 1000), or bytes such as 4194304, up to 8PiB"
	if near := misspelledSize(text); near != "" {
		want += "; did you mean " + near + "?"
	}
	return 0, &FieldError{Memory, text, want}
}

// misspelledSize returns the size that was probably meant: 4GiB for 4g, its meaning for a JVM;
// empty if there is none.
func misspelledSize(text string) string {
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	if _, ok := scaleDecimal(number, 1); !ok {
		return ""
	}
	letter := strings.TrimSuffix(strings.TrimSuffix(strings.ToUpper(text[len(number):]), "B"), "I")
	for _, u := range binaryUnits {
		if _, fits := scaleDecimal(number, u.bytes); letter == u.name[:1] && fits {
			return number + u.name
		}
	}
	return ""
}

// FormatMemory formats a size so that ParseMemory returns exactly the same size. It uses the unit
// that needs the fewest digits, with at most three decimals, and prefers powers of 1024.
func FormatMemory(bytes int64) string {
	if bytes <= 0 {
		return strconv.FormatInt(bytes, 10) + "B"
	}
	best, name := "", ""
	for _, units := range [...][]unit{binaryUnits[:], decimalUnits[:]} {
		for _, u := range units {
			if number := inUnit(bytes, u.bytes); number != "" && (best == "" || len(number) < len(best)) {
				best, name = number, u.name
			}
		}
	}
	return best + name
}

// inUnit formats the size in this unit, "" if it is smaller or needs more than three decimals.
func inUnit(bytes, unit int64) string {
	whole, rest := bytes/unit, bytes%unit
	thousandths, left := rest*1000/unit, rest*1000%unit // rest is below 2^50
	switch {
	case whole == 0 || left != 0:
		return ""
	case thousandths == 0:
		return strconv.FormatInt(whole, 10)
	}
	return strings.TrimRight(fmt.Sprintf("%d.%03d", whole, thousandths), "0")
}

// ReadableMemory formats memory for people: exactly if the exact number is short.
func ReadableMemory(bytes int64) string {
	if bytes == 0 {
		return "0"
	}
	exact := FormatMemory(bytes)
	digits := 0
	for _, r := range exact {
		if r >= '0' && r <= '9' {
			digits++
		}
	}
	if digits <= 4 {
		return exact
	}
	return ApproximateMemory(bytes)
}

// ApproximateMemory formats a size for people, with at most one decimal: "117.7MiB". Parsing it
// does not return the same size.
func ApproximateMemory(bytes int64) string {
	for _, u := range binaryUnits {
		if bytes >= u.bytes {
			tenths := strconv.FormatFloat(float64(bytes)/float64(u.bytes), 'f', 1, 64)
			return strings.TrimSuffix(tenths, ".0") + u.name
		}
	}
	return strconv.FormatInt(bytes, 10) + "B"
}

// ParseCPU parses thousandths of a core: "2", "1.5" and "0.5" are cores, "500m" is thousandths. A
// fraction of a thousandth is rounded up. The error is a *FieldError.
func ParseCPU(text string) (int64, error) {
	number, inMillis := strings.CutSuffix(text, "m")
	perUnit := int64(1000)
	if inMillis {
		perUnit = 1
	}
	if n, ok := scaleDecimal(number, perUnit); ok {
		return n, nil
	}
	return 0, &FieldError{CPU, text, "cores such as 2 or 1.5, or thousandths such as 500m"}
}

// FormatCPU formats whole cores as "2" and other values in thousandths, "500m".
func FormatCPU(millis int64) string {
	if millis%1000 == 0 {
		return strconv.FormatInt(millis/1000, 10)
	}
	return strconv.FormatInt(millis, 10) + "m"
}

// scaleDecimal parses digits, with or without a fraction, and returns them times unit, rounded up;
// false if the text is no number or the result is above MaxQuantity.
func scaleDecimal(number string, unit int64) (int64, bool) {
	const longest = 40 // digits; more are a mistake
	whole, fraction, point := strings.Cut(number, ".")
	if whole == "" || point && fraction == "" || len(number) > longest {
		return 0, false
	}
	for _, c := range []byte(whole + fraction) {
		if !isDigit(c) {
			return 0, false
		}
	}
	digits, _ := new(big.Int).SetString(whole+fraction, 10) // only digits, so a number
	scaled := digits.Mul(digits, big.NewInt(unit))
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(len(fraction))), nil)
	scaled, rest := scaled.QuoRem(scaled, power, new(big.Int))
	if rest.Sign() != 0 {
		scaled.Add(scaled, big.NewInt(1))
	}
	if !scaled.IsInt64() || scaled.Int64() > MaxQuantity {
		return 0, false
	}
	return scaled.Int64(), true
}

// ParseQuantity parses the quantity of one dimension, in the form of ParseMemory, of ParseCPU, or
// as a plain count. The error is a *FieldError.
func ParseQuantity(dimension, text string) (int64, error) {
	switch dimension {
	case Memory, AMMemory:
		n, err := ParseMemory(text)
		return n, named(dimension, err)
	case CPU, AMCPU:
		n, err := ParseCPU(text)
		return n, named(dimension, err)
	}
	if dimension != Instances {
		if err := checkCustomName(dimension); err != nil {
			return 0, err
		}
	}
	if n, ok := scaleDecimal(text, 1); ok && !strings.Contains(text, ".") {
		return n, nil
	}
	want := fmt.Sprintf("a whole number from 0 to %d", int64(MaxQuantity))
	if near := misspelled(dimension); near != "" && near != dimension {
		want += "; did you mean " + near + "?"
	}
	return 0, &FieldError{dimension, text, want}
}

// named sets the dimension of a *FieldError.
func named(dimension string, err error) error {
	if wrong, ok := errors.AsType[*FieldError](err); ok {
		return &FieldError{dimension, wrong.Value, wrong.Want}
	}
	return err
}

// misspelled returns the fixed dimension that a custom name was probably meant to be. It has the
// same first letter, and at most one letter in three is added, left out or changed. Empty: there is
// none.
func misspelled(custom string) string {
	custom = strings.ToLower(custom)
	for _, dimension := range []string{Memory, CPU, Instances} {
		if strings.HasPrefix(custom, dimension[:1]) && spelling.Distance(custom, dimension) <= len(dimension)/3 {
			return dimension
		}
	}
	return ""
}

// ParseVector parses quantities as text by dimension, as in configuration files and on the command
// line: "memory", "cpu", "instances", and custom names. The error is a *FieldError.
func ParseVector(quantities map[string]string) (Vector, error) {
	var v Vector
	dimensions := make([]string, 0, len(quantities))
	for dimension := range quantities {
		dimensions = append(dimensions, dimension)
	}
	slices.Sort(dimensions) // so that of several errors always the same one is reported
	for _, dimension := range dimensions {
		quantity, err := ParseQuantity(dimension, quantities[dimension])
		if err != nil {
			return Vector{}, err
		}
		v = v.With(dimension, quantity)
	}
	return v, v.Validate()
}

// Text returns the quantities as text, the inverse of ParseVector.
func (v Vector) Text() map[string]string {
	text := make(map[string]string)
	for dimension, quantity := range v.All() {
		text[dimension] = FormatQuantity(dimension, quantity)
	}
	return text
}

// String returns "memory=4GiB,cpu=500m,gpu=1", and "none" if nothing is set.
func (v Vector) String() string {
	if v.IsUnset() {
		return "none"
	}
	var b strings.Builder
	for dimension, quantity := range v.All() {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(dimension + "=" + FormatQuantity(dimension, quantity))
	}
	return b.String()
}

// externalExample is an example of an external part.
const externalExample = "yarn:default:root.a,memory=4GiB,cpu=4"

// fieldWithin puts the field of a *FieldError below a path.
func fieldWithin(path string, err error) error {
	if wrong, ok := errors.AsType[*FieldError](err); ok {
		return wrong.within(path)
	}
	return err
}

// String returns the address and its quantities: "yarn:default:root.a,memory=4GiB".
func (e External) String() string { return e.Address.String() + "," + e.Vector.String() }

// String returns the machine's quantities, then those of the external parts, separated by spaces.
func (r Resource) String() string {
	var s []string
	if !r.Vector.IsUnset() || len(r.External) == 0 {
		s = append(s, r.Vector.String())
	}
	for _, e := range r.External {
		s = append(s, e.String())
	}
	return strings.Join(s, " ")
}

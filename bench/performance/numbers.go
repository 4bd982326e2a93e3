package performance

import (
	"math"
	"strconv"
	"strings"
)

// significant rounds to four significant digits.
func significant(v float64) float64 {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	if err != nil {
		return v
	}
	return rounded
}

// short formats two significant digits, three if the first is 1: a rate as 8.7 k, a ratio as 32.
func short(v float64) string {
	if v == 0 {
		return "0"
	}
	digits := 2
	scale := math.Pow(10, math.Floor(math.Log10(v)))
	if v/scale < 2 {
		digits = 3
	}
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', digits, 64), 64)
	switch {
	case rounded >= 1e6:
		return plain(rounded/1e6) + " M"
	case rounded >= 1e4:
		return plain(rounded/1e3) + " k"
	case rounded >= 1e3:
		whole := plain(rounded)
		return whole[:1] + "," + whole[1:]
	}
	return plain(rounded)
}

func plain(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// duration formats microseconds in a suitable unit.
func duration(us float64) string {
	switch {
	case us >= 1e6:
		return short(us/1e6) + " s"
	case us >= 1e3:
		return short(us/1e3) + " ms"
	}
	return short(us) + " µs"
}

// point formats the name of a point for people: with commas in the numbers, and an × between them.
func point(name string) string {
	parts := strings.Split(name, "x")
	for i, p := range parts {
		if len(p) > 3 {
			parts[i] = p[:len(p)-3] + "," + p[len(p)-3:]
		}
	}
	return strings.Join(parts, " × ")
}

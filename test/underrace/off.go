//go:build !race

package underrace

// Factor is what a bound on memory or time is multiplied with.
const Factor = 1

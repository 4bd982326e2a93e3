// Package resource defines quantities and their arithmetic: memory in bytes, CPU in thousandths of
// a core, instances, and custom countables such as "gpu", for the machine and for places outside it
// (a YARN queue).
//
// It has no notion of accounts, labels, wire formats or the units of measurement tools. Quantities
// are nonnegative integers. Arithmetic that would leave their range returns an error and never
// wraps.
//
// An unset dimension is not zero: a limit lists the dimensions that it limits, and a host lists the
// dimensions that it has. In sums and comparisons an unset dimension counts as zero. The owner of a
// limit defines what an unset dimension means in it.
//
// # Order
//
// Vectors are ordered dimension by dimension, so two of them may be incomparable:
// {memory=1GiB,cpu=5} and {memory=2GiB,cpu=1} are neither more nor less than each other, nor equal.
//
//	v.NotLessThan(w)   v[d] >= w[d] in every dimension
//	v.NotMoreThan(w)   v[d] <= w[d] in every dimension
//	v.EqualTo(w)       v[d] == w[d] in every dimension
//	v.MoreThan(w)      NotLessThan, and greater in at least one dimension
//	v.LessThan(w)      NotMoreThan, and smaller in at least one dimension
//
// NotLessThan is therefore not the negation of LessThan. MoreThan does not require more in every
// dimension: a resource with memory and no cores is more than nothing. The order does not tell
// whether a request fits: only the dimensions in the request count for that, and the available
// amount may be negative.
//
// # Concurrency
//
// Values are immutable and may be shared between goroutines, except a Sum, which has one owner.
package resource

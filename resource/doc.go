// Package resource holds quantities and what can be computed with them: memory in bytes, CPU in
// thousandths of a core, instances, and custom countables such as "gpu", for the machine and for
// places outside it (a YARN queue).
//
// It does not know accounts, labels, wire formats or units of measurement tools. Quantities are
// integers that are never negative; arithmetic that would leave their range returns an error and
// never wraps.
//
// A dimension that is unset is not zero: a limit lists the dimensions it limits, a host lists what
// it has. In sums and comparisons an unset dimension counts as zero. What it means in a limit is
// defined by the owner of the limit.
//
// # Order
//
// Vectors are ordered dimension by dimension, so two of them may be incomparable:
// {memory=1GiB,cpu=5} and {memory=2GiB,cpu=1} are neither more nor less than each other, nor
// equal.
//
//	v.NotLessThan(w)   v[d] >= w[d] in every dimension
//	v.NotMoreThan(w)   v[d] <= w[d] in every dimension
//	v.EqualTo(w)       v[d] == w[d] in every dimension
//	v.MoreThan(w)      NotLessThan, and greater in at least one dimension
//	v.LessThan(w)      NotMoreThan, and smaller in at least one dimension
//
// NotLessThan is therefore not the negation of LessThan. MoreThan does not ask for more in every
// dimension: a resource with memory and no cores is more than nothing. The order does not say
// whether a request fits: for that only the dimensions that it asks for count, and what is
// available may be less than zero.
//
// # Concurrency
//
// Values are immutable and may be shared between goroutines, except a Sum, which has one owner.
package resource

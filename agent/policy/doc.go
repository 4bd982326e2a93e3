// Package policy decides how a host treats engines that use more than their entitlement. It selects
// an engine's policy by the engine's labels, and it judges the samples of the engine's use.
//
// The package does not measure, stop engines or change entitlements. A Judgement takes samples,
// each with its time. It tells the caller when over-use began and whether the engine must be
// stopped; the caller shows the over-use and requests the stop. The package has no I/O, clock or
// goroutine: the same samples give the same judgement.
//
// A Set and a Policy are immutable values that are safe to share. A Judgement is not safe for
// concurrent use.
package policy

// Package policy is what a host does about engines that use more than they are entitled to: which
// policy an engine has, by its labels, and the judgement of what was measured of it.
//
// It measures nothing, ends nothing and changes no entitlement. A Judgement takes samples, each
// with its time, and says since when an engine has been in over-use and whether it is to be
// stopped for it; the caller shows that and asks for the stop. Without I/O, clock or goroutine:
// the same samples give the same judgement.
//
// A Set and a Policy are values that never change, and are safe to share. A Judgement is not safe
// for concurrent use.
package policy

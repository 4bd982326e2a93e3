// Package placement chooses hosts for requests that name none. Index implements ledger.Placer.
//
// It keeps no books, knows no quotas and decides nothing else: the ledger tells it of every change of a host and asks. It
// does no I/O, reads no clock and draws no random number; the same calls in the same order give the same answers. An
// Index is not safe for concurrent use.
//
// # Score
//
// A request can go to the hosts that have the required labels, are not to be avoided, are healthy and measured, have
// everything available that it asks for, are not held where the query says so, and are not rejected. Of these the best
// are, one criterion after the other:
//
//  1. those where most preferred labels match;
//  2. by policy, those of the lowest (Spread) or the highest (Binpack) class of use: floor(32 × booked / limit) of the
//     host's most used dimension, at most 31;
//  3. those of the lowest class of measured load per core: below 0.5, below 1, below 2, and beyond.
//
// All hosts that are equal in these are equals. Which of them is taken depends on Query.Turn: consecutive turns are spread
// over the equals as evenly as the multiples of the golden ratio are over a circle: of n consecutive requests at most three
// fall on the same one of n equals while grants are too small to move a host in the index, and with grants of 1/32 of a
// host or more Spread gives every equal one before any gets two. A label value of "*" matches any value.
//
// # Index
//
// Hosts are kept in ranks, one for each score. In a rank they are kept in cells, by levels of available memory and cpu, four
// to a doubling. A search goes through the ranks from the best, and in each through the cells on levels that can have the
// room: on higher levels than the request's everything fits, on its own level some may. Every cell has upper bounds of
// the room of its hosts, as a tree with 32 branches at each node, which a search in vain makes exact again. So a fleet of
// hosts that are all a little too full is passed over without looking at them, and one host with room is found among many.
//
// That settles memory and cpu. What else a request asks for, its signature, is labels and countables (instances beyond
// the first, custom ones), and few different signatures are asked for again and again. A signature gets a view of its own:
// ranks and cells of exactly the hosts that it admits, with the preferred labels as part of the rank. Until then it is
// searched in a larger view, of all hosts at most, and what does not qualify is looked at in vain; when that has cost as
// much as there are hosts, the view is made. It is dropped when its upkeep, without a search, has cost four times as much,
// or for another signature when it is idle. See directory.
//
// A second set of the same views is made of what hosts are if nothing ran. It changes when labels or limits do, and
// answers Possible.
//
// # Costs
//
// Choose, Possible and Closest look at a number of ranks, cells, bounds and hosts that does not grow with the hosts, once
// there is a view: a handful where something fits, some hundreds in the worst fleets of TestCostDoesNotGrowWithHosts. A
// change of a host costs the same for every view that has the host, at most 16. None of them allocates, but for memory
// that grows with the fleet and with new views. What does grow with the fleet is cache misses: two or three for each
// change, so that a Choose with its two changes takes about twice as long with 100,000 hosts (0.4 to 0.6 µs) as with
// 100 (0.25 µs, both with the benchmark's own books). A host takes about 250 bytes, and 40 in every further view.
//
// Survey looks at every host.
//
// # Worst cases
//
//   - The first searches for a signature that few hosts satisfy, until it has a view: each looks at up to all hosts, and
//     one then makes the view, for some ten milliseconds with 100,000 hosts.
//   - More than 15 signatures of which each is satisfied by few hosts, asked for in turns: those beyond the 15 keep looking
//     at up to all hosts. A view is not taken from a signature that is asked for at least every 1,024 searches.
//   - More than 16 preferred labels, for which no view is made.
//   - A cell where many hosts have the memory but not the cpu, many others the cpu but not the memory, and the request
//     lies within both levels: bounds tell nothing then, and each host of the cell is looked at. Levels are 14 to 25 %
//     wide, and for round quantities (see level) their edges coincide with the request, so that it cannot happen.
//   - Hosts that are avoided or rejected are looked at one by one: at most 256 are avoided, and a caller is
//     rejected where it has half of a host's bytes: 32 hosts at the default of limits.callerLiveBytes.
package placement

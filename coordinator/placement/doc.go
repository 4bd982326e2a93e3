// Package placement chooses hosts for requests that name none. Index implements ledger.Placer.
//
// It has no accounts, knows no quotas and decides nothing else: the ledger reports every change of
// a host to it and asks it. It does no I/O, reads no clock and draws no random number; the same
// calls in the same order give the same answers. An Index is not safe for concurrent use.
//
// # Score
//
// A request can go to the hosts that have the required labels, are not to be avoided, are healthy
// and measured, have everything available that it asks for, and are not rejected. The best of these
// are, one criterion after the other:
//
//  1. those where most preferred labels match;
//  2. by policy, those of the lowest (Spread) or the highest (Binpack) class of use: floor(32 ×
//     booked / limit) of the host's most used dimension, at most 31;
//  3. those of the lowest class of measured load per core: below 0.5, below 1, below 2, and
//     beyond.
//
// All hosts that are the same in these criteria are equals. Query.Turn decides which of them is
// taken. Consecutive turns are spread over the equals as evenly as the multiples of the golden
// ratio are over a circle. Of n consecutive requests at most three go to the same one of n equals
// while grants are too small to move a host in the index. With grants of 1/32 of a host or more,
// Spread gives every equal host one before any gets two. A label value of "*" matches any value.
//
// # Index
//
// Hosts are kept in ranks, one for each score. In a rank they are kept in cells, by levels of
// available memory and cpu, four to a doubling. A search goes through the ranks from the best, and
// in each through the cells on levels that can have the room: on higher levels than the request's
// everything fits, on its own level some may. Every cell has upper bounds of the room of its
// hosts, as a tree with 32 branches at each node. A search that finds nothing makes them exact
// again. So a fleet of hosts that are all a little too full is skipped without checking each, and
// one host with room is found among many.
//
// That is enough for memory and cpu. The rest of a request is its signature: labels, conditions on
// labels, and countables (instances beyond the first, custom ones). Requests repeat a few
// signatures again and again. A signature gets a view of its own: ranks and cells of exactly the
// hosts that it admits, with the preferred labels and conditions as part of the rank. Until then
// the search goes through a larger view, of all hosts at most, and checks hosts that do not
// qualify. When it has checked as many of them as there are hosts, the view is made. The view is
// dropped when its upkeep, without a search, has cost four times as much, or for another signature
// when it is idle. See directory.
//
// A second set of the same views has the hosts as they would be if nothing ran. It changes when
// labels or limits do, and answers Possible and Largest.
//
// A census of the labels says, before each search, whether a host may meet each condition: see
// package hostlabels. A search for conditions that no host meets looks at no host, also if the
// conditions are new.
//
// # Costs
//
// Choose, Possible and Closest look at a number of ranks, cells, bounds and hosts that does not
// grow with the hosts, once there is a view: a handful if something fits, some hundreds in the
// worst fleets of TestCostDoesNotGrowWithHosts. A change of a host costs the same for every view
// that has the host, at most 16. None of them allocates, except memory that grows with the fleet
// and with new views. Cache misses do grow with the fleet: two or three for each change, so that a
// Choose with its two changes takes about twice as long with 100,000 hosts (0.4 to 0.6 µs) as with
// 100 (0.25 µs, both with the benchmark's own accounts). A host takes about 250 bytes, and 40 in
// every further view.
//
// Survey looks at every host, or at one of as many as it is told.
//
// # Worst cases
//
//   - The first searches for a signature that few hosts satisfy, until it has a view: each checks
//     up to all hosts, and one then makes the view, which takes some ten milliseconds with
//     100,000 hosts.
//   - More than 15 signatures of which each is satisfied by few hosts, asked for in turns: those
//     beyond the 15 check up to all hosts each time. A view is not taken from a signature that is
//     asked for at least every 1,024 searches.
//   - More than 16 preferred labels and conditions, for which no view is made.
//   - A cell in which many hosts have the memory but not the cpu, many others the cpu but not the
//     memory, and the request lies within both levels: then bounds do not help, and each host of
//     the cell is checked. Levels are 14 to 25 % wide, and for round quantities (see level)
//     their edges coincide with the request, so that it cannot happen.
//   - Hosts that are avoided or rejected are checked one by one: at most 256 are avoided, and a
//     host is rejected if the caller has half of its bytes: 32 hosts at the default of
//     limits.callerLiveBytes.
package placement

// Package yarn reads the queues of a YARN cluster over the REST interface of its ResourceManager.
//
// Decode reads one answer of /ws/v1/cluster/scheduler as a stream. It supports the
// CapacityScheduler, the FairScheduler and the FifoScheduler of Hadoop 2.4 to 3.5 and of
// distributions built from them. It looks at the fields that are present and never at a version,
// because distributions mix versions. A Scheduler holds the content of the answer, with one Entry
// per queue and partition. Its method Queues adds the values that follow from the rest of the
// answer and from the size of the cluster.
//
// The package has no timer, makes no decision about the age of readings, and does not count our own
// allocations. Its input comes from another system, so every size is bounded, and invalid input is
// an error.
//
// # Units
//
// YARN counts memory in MiB and CPU in virtual cores; this package uses bytes and millicores, like
// the rest of the project. It converts custom types to their base unit. It rounds limits and
// guarantees down, and used amounts up. A negative figure counts as zero. A dimension is absent
// from a limit, and so unlimited, if the figure is above resource.MaxQuantity or is one of YARN's
// values for unlimited (2147483647, 9223372036854775807, and -1 in a limit). In use, in guarantees
// and in custom types, where absent means zero, such a figure becomes MaxQuantity.
//
// # Concurrency
//
// Decode may be called from any goroutine. A Scheduler does not change after Decode has returned
// it.
package yarn

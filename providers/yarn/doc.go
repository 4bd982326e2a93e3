// Package yarn reads the queues of a YARN cluster over the REST interface of its ResourceManager.
//
// Decode reads one answer of /ws/v1/cluster/scheduler as a stream: those of the CapacityScheduler,
// the FairScheduler and the FifoScheduler, of Hadoop 2.4 to 3.5 and what is built from them. It
// goes by the fields that are there and never by a version, since distributions mix them. A
// Scheduler says what the answer says, one Entry per queue and partition; its method Queues fills
// in what follows from the rest of the answer and from the size of the cluster.
//
// The package keeps no timer and decides nothing about age; it grants nothing and counts nothing
// of our own. What it reads is another system's: everything is bounded, and nonsense is an error.
//
// # Units
//
// YARN counts memory in MiB and CPU in virtual cores; here they are bytes and millicores, as
// everywhere. Custom types are turned into their base unit and rounded down in limits and
// guarantees, up in what is used. Negative figures count as none. A limit above
// resource.MaxQuantity, or with YARN's words for unlimited (2147483647, 9223372036854775807, and
// -1 in a limit), leaves that dimension out, which is then unlimited. In custom types, which are
// none if they are not listed, and in what is used or guaranteed, such a figure is MaxQuantity.
//
// # Concurrency
//
// Decode may be called from any goroutine. A Scheduler is not changed once it is returned.
package yarn

package yarn

// Versions of Hadoop that tools/yarn provides.
const (
	// Hadoop27 and Hadoop210 are the last releases of their lines that clusters still run.
	Hadoop27  = "2.7.7"
	Hadoop210 = "2.10.2"
	Hadoop33  = "3.3.6"
	// Hadoop34 is the default. Only this version comes with a KDC, and with an application that can
	// request custom resources.
	Hadoop34 = "3.4.3"
	Hadoop35 = "3.5.0"
)

// Options configure a cluster. The zero value is one ResourceManager of Hadoop34 with the
// CapacityScheduler, whose only queue root.default has all resources, and one NodeManager.
type Options struct {
	// Version is one of the constants above.
	Version string
	// Capacity are the properties of capacity-scheduler.xml, without the prefix
	// "yarn.scheduler.capacity.". They override this package's defaults: one user, and masters
	// alone, may fill a queue, and cores count, too.
	Capacity map[string]string
	// Fair is the content of fair-scheduler.xml, and selects the FairScheduler:
	// <allocations>…</allocations>.
	Fair string
	// Settings are properties of yarn-site.xml, and Core of core-site.xml, that override this
	// package's.
	Settings, Core map[string]string
	// Nodes are the NodeManagers. Default: one Node{}.
	Nodes []Node
	// Pair starts two ResourceManagers, rm1 and rm2, with a common state store. Both are standby
	// until MakeActive. Start then does not wait for the nodes, because they join the active one.
	Pair bool
	// Named rejects HTTP requests without a user name.
	Named bool
	// TLS makes HTTP use TLS only. Cluster.CA is the certificate to trust.
	TLS bool
	// KDC makes HTTP require tickets for HTTP/localhost. The cluster's own methods that use HTTP
	// then fail: Submit, Kill, Await….
	KDC *KDC
}

// Node is one NodeManager.
type Node struct {
	// MemoryMiB and VCores are its reported size. Default: 65536 and 64.
	MemoryMiB, VCores int
	// Custom are countable resources, such as "yarn.io/gpu".
	Custom map[string]int
	// Partition is its label. The cluster registers the labels of all nodes, each exclusive; not
	// with Hadoop27.
	Partition string
}

func (o Options) version() string {
	if o.Version == "" {
		return Hadoop34
	}
	return o.Version
}

func (o Options) nodes() []Node {
	nodes := append([]Node(nil), o.Nodes...)
	if len(nodes) == 0 {
		nodes = []Node{{}}
	}
	for i := range nodes {
		if nodes[i].MemoryMiB == 0 {
			nodes[i].MemoryMiB = 65536
		}
		if nodes[i].VCores == 0 {
			nodes[i].VCores = 64
		}
	}
	return nodes
}

// custom returns the names of all custom resources of the nodes, sorted.
func (o Options) custom() []string {
	names := map[string]bool{}
	for _, node := range o.Nodes {
		for name := range node.Custom {
			names[name] = true
		}
	}
	return sorted(names)
}

// partitions returns the labels of all nodes, sorted.
func (o Options) partitions() []string {
	names := map[string]bool{}
	for _, node := range o.Nodes {
		if node.Partition != "" {
			names[node.Partition] = true
		}
	}
	return sorted(names)
}

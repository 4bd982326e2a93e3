package yarn

// Versions of Hadoop that tools/yarn provides.
const (
	// Hadoop27 and Hadoop210 are the last of their lines that clusters still run.
	Hadoop27  = "2.7.7"
	Hadoop210 = "2.10.2"
	Hadoop33  = "3.3.6"
	// Hadoop34 is the default, and the one that comes with a KDC and with an application that asks
	// for custom resources.
	Hadoop34 = "3.4.3"
	Hadoop35 = "3.5.0"
)

// Options say what is started. The zero value is one ResourceManager of Hadoop34 with the
// CapacityScheduler, whose queue root.default has everything, and one NodeManager.
type Options struct {
	// Version is one of those above.
	Version string
	// Capacity are the properties of capacity-scheduler.xml, without "yarn.scheduler.capacity." in
	// front of them. Over those of this package: one user and the masters of applications alone
	// may fill a queue, and cores count too.
	Capacity map[string]string
	// Fair is the content of fair-scheduler.xml, and makes it the FairScheduler:
	// <allocations>…</allocations>.
	Fair string
	// Settings are properties of yarn-site.xml over those of this package, Core of core-site.xml.
	Settings, Core map[string]string
	// Nodes are the NodeManagers. Default: one Node{}.
	Nodes []Node
	// Pair starts two ResourceManagers, rm1 and rm2, that share what they know of applications.
	// Both stand by until MakeActive. Start does not wait for the nodes then: they come to the
	// active one.
	Pair bool
	// Named lets in nobody over HTTP who does not say a name.
	Named bool
	// TLS has HTTP go over TLS alone. Cluster.CA is what trusts it.
	TLS bool
	// KDC has HTTP ask for tickets for HTTP/localhost. The cluster's own methods that ask over
	// HTTP do not work then: Submit, Kill, Await….
	KDC *KDC
}

// Node is one NodeManager.
type Node struct {
	// MemoryMiB and VCores are what it says it has. Default: 65536 and 64.
	MemoryMiB, VCores int
	// Custom are countable resources, such as "yarn.io/gpu".
	Custom map[string]int
	// Partition is its label. The cluster gets to know the labels of all nodes, each exclusive;
	// not with Hadoop27.
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

// custom are the names of all custom resources of the nodes, in order.
func (o Options) custom() []string {
	names := map[string]bool{}
	for _, node := range o.Nodes {
		for name := range node.Custom {
			names[name] = true
		}
	}
	return sorted(names)
}

// partitions are the labels of all nodes, in order.
func (o Options) partitions() []string {
	names := map[string]bool{}
	for _, node := range o.Nodes {
		if node.Partition != "" {
			names[node.Partition] = true
		}
	}
	return sorted(names)
}

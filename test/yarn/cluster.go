package yarn

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bursar/bursar/test/proc"
)

// Cluster is a YARN cluster. See the package comment.
type Cluster struct {
	// Managers are its ResourceManagers: one, or two.
	Managers []*Manager
	// Nodes are its NodeManagers, in the order of the options.
	Nodes []*NodeManager

	options  Options
	dir      string
	java     string
	jars     string
	guardian *proc.Guardian
	shells   int // the number of started ones
}

// Manager is one ResourceManager.
type Manager struct {
	// Name is rm1 or rm2.
	Name string
	// URL is the base of its web address: http://localhost:PORT, or https.
	URL string

	ports map[string]int // by property
	tls   *tls.Config    // nil: without TLS
	*server
}

// NodeManager is one NodeManager.
type NodeManager struct {
	// ID is its name at the ResourceManager: localhost:PORT.
	ID string
	Node

	*server
}

// Start starts a cluster for the length of a test, and waits until it is ready.
func Start(tb testing.TB, options Options) *Cluster {
	tb.Helper()
	dir, err := os.MkdirTemp("", "bursar-yarn-") //nolint:usetesting // it goes with its processes; a path of containers is long enough
	if err != nil {
		tb.Fatal(err)
	}
	c, err := Launch(tb.Context(), dir, options)
	if err != nil {
		_ = os.RemoveAll(dir)
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if tb.Failed() {
			for _, s := range c.servers() {
				tb.Logf("%s said at last:\n%s", filepath.Base(s.dir), s.tail())
			}
		}
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
	})
	return c
}

// Launch is Start for a program. The cluster takes over the folder; Close stops the cluster and
// removes it.
func Launch(ctx context.Context, dir string, options Options) (*Cluster, error) {
	c := &Cluster{options: options, dir: dir}
	var err error
	if c.jars, err = installed("yarn-" + options.version()); err != nil {
		return nil, err
	}
	if c.java, err = installed("yarn-java"); err != nil {
		return nil, err
	}
	if c.guardian, err = guard(dir); err != nil {
		return nil, err
	}
	if err = c.configure(ctx); err == nil {
		err = c.start(ctx)
	}
	if err != nil {
		for _, s := range c.servers() {
			err = fmt.Errorf("%w\n%s said at last:\n%s", err, filepath.Base(s.dir), s.tail())
		}
		return nil, errors.Join(err, c.Close())
	}
	return c, nil
}

// Close stops all processes and removes the folder.
func (c *Cluster) Close() error {
	for _, s := range c.servers() {
		s.kill()
	}
	return c.guardian.Dismiss()
}

func (c *Cluster) servers() []*server {
	var list []*server
	for _, rm := range c.Managers {
		list = append(list, rm.server)
	}
	for _, nm := range c.Nodes {
		list = append(list, nm.server)
	}
	return list
}

// URL returns the web address of the first ResourceManager.
func (c *Cluster) URL() string { return c.Managers[0].URL }

// Addresses returns the web addresses of all ResourceManagers, in the format of the provider's
// setting.
func (c *Cluster) Addresses() string {
	urls := make([]string, 0, len(c.Managers))
	for _, rm := range c.Managers {
		urls = append(urls, rm.URL)
	}
	return strings.Join(urls, ",")
}

// Site returns the path of the first ResourceManager's yarn-site.xml.
func (c *Cluster) Site() string { return filepath.Join(c.Managers[0].conf(), "yarn-site.xml") }

// configure chooses ports and writes the configuration of every server.
func (c *Cluster) configure(ctx context.Context) (err error) {
	scheme, trusted := "http", (*tls.Config)(nil)
	if c.options.TLS {
		scheme = "https"
		if trusted, err = c.certify(ctx); err != nil {
			return err
		}
	}
	names := []string{"rm1"}
	if c.options.Pair {
		names = append(names, "rm2")
	}
	for _, name := range names {
		rm := &Manager{Name: name, ports: map[string]int{}, tls: trusted, server: c.server(name, "org.apache.hadoop.yarn.server.resourcemanager.ResourceManager")}
		for _, what := range []string{"address", "scheduler.address", "resource-tracker.address", "admin.address", "webapp.address"} {
			if rm.ports[what], err = nextPort(); err != nil {
				return err
			}
		}
		rm.URL = scheme + "://" + net.JoinHostPort(host, strconv.Itoa(rm.ports["webapp.address"]))
		c.Managers = append(c.Managers, rm)
	}
	if err := c.configureManagers(); err != nil {
		return err
	}
	for i, node := range c.options.nodes() {
		if err := c.configureNode(fmt.Sprintf("nm%d", i+1), node); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) configureManagers() error {
	for _, rm := range c.Managers {
		site := c.site()
		if c.options.Pair {
			site["yarn.resourcemanager.ha.id"] = rm.Name
		}
		if err := errors.Join(c.writeShared(rm.conf(), site), c.writeQueues(rm.conf())); err != nil {
			return err
		}
	}
	return nil
}

func (c *Cluster) configureNode(name string, node Node) error {
	// A fixed port: after a restart it is the same node.
	port, err := nextPort()
	if err != nil {
		return err
	}
	nm := &NodeManager{
		ID: fmt.Sprintf("%s:%d", host, port), Node: node,
		server: c.server(name, "org.apache.hadoop.yarn.server.nodemanager.NodeManager"),
	}
	c.Nodes = append(c.Nodes, nm)
	site := c.site()
	maps.Copy(site, properties{
		"yarn.nodemanager.address":             nm.ID,
		"yarn.nodemanager.localizer.address":   host + ":0",
		"yarn.nodemanager.webapp.address":      host + ":0",
		"yarn.nodemanager.local-dirs":          filepath.Join(nm.dir, "local"),
		"yarn.nodemanager.log-dirs":            filepath.Join(nm.dir, "containers"),
		"yarn.nodemanager.resource.memory-mb":  fmt.Sprint(node.MemoryMiB),
		"yarn.nodemanager.resource.cpu-vcores": fmt.Sprint(node.VCores),
	})
	if c.options.Pair {
		// if both are on one machine, 2.7 requires this from every process
		site["yarn.resourcemanager.ha.id"] = "rm1"
	}
	custom := properties{}
	for _, resource := range c.options.custom() {
		custom[resource] = fmt.Sprint(node.Custom[resource])
	}
	if len(custom) > 0 {
		if err := custom.write(nm.conf(), "node-resources.xml", "yarn.nodemanager.resource-type."); err != nil {
			return err
		}
	}
	return c.writeShared(nm.conf(), site)
}

func (c *Cluster) server(name, class string) *server {
	s := &server{dir: filepath.Join(c.dir, name), jars: c.jars, java: c.java, run: []string{class}}
	if c.options.KDC != nil {
		s.options = c.options.KDC.options()
	}
	return s
}

func (c *Cluster) start(ctx context.Context) error {
	end, err := begin(ctx)
	if err != nil {
		return err
	}
	defer end()
	for _, s := range c.servers() {
		if err := s.start(); err != nil {
			return err
		}
	}
	for _, rm := range c.Managers {
		if err := rm.ready(ctx); err != nil {
			return err
		}
	}
	if c.options.Pair {
		return nil
	}
	if err := c.Managers[0].active(ctx); err != nil {
		return err
	}
	for _, nm := range c.Nodes {
		if err := c.joined(ctx, nm); err != nil {
			return err
		}
	}
	if len(c.options.partitions()) > 0 {
		return c.label(ctx)
	}
	return nil
}

// label registers the labels, assigns them to their nodes, and reloads the queues, which may not
// name labels before that.
func (c *Cluster) label(ctx context.Context) error {
	for _, name := range c.options.partitions() {
		label := fmt.Sprintf("<nodeLabelsInfo><nodeLabelInfo><name>%s</name><exclusivity>true</exclusivity></nodeLabelInfo></nodeLabelsInfo>", name)
		if err := c.tell(ctx, "add-node-labels", nil, label); err != nil {
			return err
		}
	}
	for _, nm := range c.Nodes {
		if nm.Partition == "" {
			continue
		}
		if err := c.tell(ctx, "nodes/"+nm.ID+"/replace-labels", url.Values{"labels": {nm.Partition}}, ""); err != nil {
			return err
		}
	}
	return c.admin(ctx, "-refreshQueues")
}

// SetQueues replaces Options.Capacity or, if it is set, Options.Fair, and makes the ResourceManager
// reload its queues.
func (c *Cluster) SetQueues(tb testing.TB, capacity map[string]string, fair string) {
	tb.Helper()
	c.options.Capacity, c.options.Fair = capacity, fair
	for _, rm := range c.Managers {
		if err := c.writeQueues(rm.conf()); err != nil {
			tb.Fatal(err)
		}
	}
	if err := c.admin(tb.Context(), "-refreshQueues"); err != nil {
		tb.Fatal(err)
	}
}

// SetQueue changes properties of one queue of the CapacityScheduler, such as state to STOPPED.
func (c *Cluster) SetQueue(tb testing.TB, path string, changes map[string]string) {
	tb.Helper()
	capacity := maps.Clone(c.options.Capacity)
	for _, name := range sorted(changes) {
		capacity[path+"."+name] = changes[name]
	}
	c.SetQueues(tb, capacity, c.options.Fair)
}

// admin runs Hadoop's admin command.
func (c *Cluster) admin(ctx context.Context, arguments ...string) error {
	command := c.Managers[0].command("org.apache.hadoop.yarn.client.cli.RMAdminCLI", arguments...)
	said, err := run(ctx, command)
	if err != nil {
		return fmt.Errorf("rmadmin %s: %w\n%s", strings.Join(arguments, " "), err, said)
	}
	return nil
}

// manager returns the ResourceManager with a name.
func (c *Cluster) manager(tb testing.TB, name string) *Manager {
	tb.Helper()
	i := slices.IndexFunc(c.Managers, func(rm *Manager) bool { return rm.Name == name })
	if i < 0 {
		tb.Fatalf("no ResourceManager %s", name)
	}
	return c.Managers[i]
}

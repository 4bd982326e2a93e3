//go:build linux

package linkis

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bursar/bursar/client"
	bursarv1 "github.com/bursar/bursar/proto/bursar/v1"
	"github.com/bursar/bursar/test/netlab"
	"github.com/bursar/bursar/test/proc"
)

// world is one Linkis with one Bursar.
type world struct {
	t       *testing.T
	dir     string
	here    place
	lab     *netlab.Lab
	engines bool // real ones: Linkis has its configuration for them
	memory  int64
	millis  int // of a core of Linkis
	// projected says that the adapter keeps the rows of ECMs.
	projected bool
	user      string // of Linkis: whose the engines are
	policy    string // of every agent

	db      *database
	eureka  *service
	manager *service
	driver  int // the port of the bean in the manager
	hosts   []*host

	coordinator  *coordinator // the first
	coordinators []*coordinator
	quotas       string // the file of their rules
	providers    string // more of their configuration: clusters
	bursar       *client.Client
}

// host is a machine with an EngineConnManager and an agent.
type host struct {
	name   string
	node   *netlab.Node
	socket string
	agent  *proc.Process
	ecm    *service
	// account is whose the ECM is; nil: who runs the test.
	account *user.User
}

// Sizes of every host: what Linkis's ECM registers and what the agent gives away.
const (
	hostMemory = 2 << 30
	hostCores  = 16
	// millisPerCore makes a core of Linkis so small that a host's cores fit on the machine's.
	millisPerCore = 100
)

// options say what a world has.
type options struct {
	hosts   int
	engines bool   // real ones
	memory  int64  // of every host; default: hostMemory
	millis  int    // of a core of Linkis; default: millisPerCore
	agent   string // more of every agent's configuration
	policy  string // of every agent for its engines; empty: its own
	// coordinators is how many there are; default: one, with a database of its own.
	coordinators int
	// clusters starts clusters and returns their part of the coordinators' configuration. A process
	// that was started before the network could end with the thread that made a node of it.
	clusters func() string
	user     string // of Linkis; default: who runs the test
}

// newWorld makes the network, MariaDB, a coordinator and an agent on every host. Of Linkis only
// Eureka is started.
func newWorld(t *testing.T, o options) *world {
	t.Helper()
	here, err := installed()
	if err != nil {
		t.Fatal(err)
	}
	if o.user == "" {
		current, err := user.Current()
		if err != nil {
			t.Fatal(err)
		}
		o.user = current.Username
	}
	var names []string
	for i := range o.hosts {
		names = append(names, fmt.Sprintf("ecm-%d", i+1))
	}
	w := &world{t: t, dir: temporary(t), here: here, lab: netlab.New(t, names...), engines: o.engines, memory: cmp.Or(o.memory, hostMemory), millis: cmp.Or(o.millis, millisPerCore), user: o.user, policy: o.policy, driver: driverPort}
	lines := w.lab.Here.Address.String() + " here\n127.0.0.1 localhost\n"
	for _, name := range names {
		node := w.lab.Node(name)
		lines += node.Address.String() + " " + name + "\n"
		w.hosts = append(w.hosts, &host{name: name, node: node, socket: filepath.Join(w.dir, name+".sock")})
	}
	w.put("hosts", []byte(lines), 0o644)
	w.layOut()
	w.db = startDatabase(t, here, w.dir)
	if o.clusters != nil {
		w.providers = o.clusters()
	}
	w.startCoordinators(max(1, o.coordinators))
	for _, h := range w.hosts {
		w.startAgent(h, o.agent)
	}
	w.awaitHosts(o.hosts)
	w.eureka = w.service("eureka", "eureka", w.lab.Here, nil)
	w.eureka.Start()
	return w
}

func (w *world) write(name, content string) (path string) {
	w.t.Helper()
	path = filepath.Join(w.dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
	return path
}

func (w *world) eurekaURL() string {
	return "http://" + net.JoinHostPort(w.lab.Here.Address.String(), fmt.Sprint(kinds["eureka"].port))
}

// startAgent starts the agent of a host. More is more of its configuration.
func (w *world) startAgent(h *host, more string) {
	w.t.Helper()
	file := w.write(h.name+".yaml", fmt.Sprintf("hostId: %s\nsocket: %s\nstateDir: %s\ntick: 1s\ncoordinators: [%s]\ncapacity: {memory: %d, cpu: %dm, instances: 64}\nengines: {logDir: %s, policies: [%s]}\n%s",
		h.name, h.socket, filepath.Join(w.dir, h.name+"-agent"), w.urls(), w.memory, hostCores*w.millis, filepath.Join(w.dir, h.name+"-logs"), w.policy, more))
	h.agent = w.run(h.name+" agent", h.node, "agent", "--config", file, "--log-format", "text")
}

// run starts a bursar in a node. It can be started again.
func (w *world) run(name string, node *netlab.Node, arguments ...string) *proc.Process {
	w.t.Helper()
	p := proc.New(w.t, name, func() *exec.Cmd {
		cmd := onMachine(node, append([]string{built.bursar}, arguments...)...)
		cmd.Env = proc.Environment()
		return cmd
	})
	p.Start()
	return p
}

// onMachine is a command in a node. In a UTS namespace of its own its machine has the node's name,
// as Java learns it.
func onMachine(node *netlab.Node, line ...string) *exec.Cmd {
	cmd := node.Command(context.Background(), append([]string{"sh", "-c", `echo "$0" >/proc/sys/kernel/hostname && exec "$@"`, node.Name}, line...)...)
	cmd.SysProcAttr.Cloneflags |= unix.CLONE_NEWUTS
	return cmd
}

func (w *world) awaitHosts(want int) {
	w.t.Helper()
	eventually(w.t, "every host is healthy", func() error {
		status, err := w.bursar.Cluster().Status(w.t.Context(), &bursarv1.StatusRequest{})
		if err == nil && status.GetHostsHealthy() != int64(want) {
			err = fmt.Errorf("%d are", status.GetHostsHealthy())
		}
		return err
	})
}

// mode is how the manager decides.
type mode string

const (
	stock    mode = "" // without the adapter's jar
	shadow   mode = "shadow"
	enforced mode = "enforce"
)

// startManager starts LinkisManager in a mode, and waits until its ResourceManager can be called.
// One that runs is killed before.
func (w *world) startManager(m mode, properties map[string]string) {
	w.t.Helper()
	if w.manager == nil {
		w.manager = w.service("manager", "manager", w.lab.Here, nil)
	}
	w.manager.Kill()
	all := map[string]string{"linkis.master.distributed.lock.request.interval": "500"}
	if !w.engines { // every caller is logged in as an admin; Linkis's own files say so where engines are
		all["wds.linkis.test.mode"], all["wds.linkis.test.user"] = "true", "hadoop"
	}
	if m != stock {
		all["linkis.bursar.mode"] = string(m)
		all["linkis.bursar.url"] = w.urls()
		all["linkis.bursar.cpu.millis.per.core"] = fmt.Sprint(w.millis)
	}
	maps.Copy(all, properties)
	w.manager.set(all)
	w.manager.jars = []string{built.driver}
	if m != stock {
		w.manager.jars = append(w.manager.jars, w.adapter("manager"))
	}
	w.manager.options = []string{"-Dbursartest.instances=1000", fmt.Sprintf("-Dbursartest.settings=%v", !w.engines), fmt.Sprintf("-Dbursartest.port=%d", w.driver)}
	w.manager.Output.Forget()
	w.manager.Start()
	eventually(w.t, "the manager's driver answers", func() error {
		if !w.manager.Running() {
			w.t.Fatalf("the manager has ended:\n%s", w.manager.Output.Tail())
		}
		_, err := w.drive("bean", nil)
		return err
	})
	if bean := w.ask("bean", nil); strings.Contains(bean.text("class"), "bursar") != (m != stock) {
		w.t.Fatalf("mode %q: the manager's ResourceManager is %v", cmp.Or(m, "stock"), bean)
	}
}

// another is the same world seen through one more LinkisManager, which is not started yet. Only one
// is made.
func (w *world) another(name string) *world {
	w.t.Helper()
	other := *w
	other.driver = driverPort + 1
	other.manager = w.service(name, "manager", w.lab.Here, map[string]string{"spring.server.port": fmt.Sprint(secondManagerPort)})
	other.manager.port = secondManagerPort
	return &other
}

// adapter is a jar of the adapter, for a service's class path.
func (w *world) adapter(what string) string {
	w.t.Helper()
	jar := os.Getenv("BURSAR_LINKIS_" + strings.ToUpper(what) + "_JAR")
	if jar == "" {
		jar = filepath.Join(w.here.root, "bin", "linkis", "bursar-linkis-"+what+".jar")
	}
	if _, err := os.Stat(jar); err != nil {
		w.t.Fatalf("%v: run make linkis-jars", err)
	}
	return jar
}

// startECM starts the EngineConnManager of a host, and waits until the manager knows it.
func (w *world) startECM(h *host) {
	w.t.Helper()
	if h.ecm == nil {
		h.ecm = w.service(h.name, "ecm", h.node, nil)
	}
	h.ecm.set(map[string]string{
		"wds.linkis.ecm.memory.max": fmt.Sprint(w.memory), "wds.linkis.ecm.cores.max": fmt.Sprint(hostCores), "wds.linkis.ecm.engineconn.instances.max": "64",
	})
	h.ecm.Start()
	eventually(w.t, h.name+" is a row of Linkis", func() error {
		if !h.ecm.Running() {
			w.t.Fatalf("%s has ended:\n%s", h.name, h.ecm.Output.Tail())
		}
		rows, err := w.db.query("SELECT instance FROM linkis_cg_manager_service_instance i JOIN linkis_cg_manager_label_service_instance l ON l.service_instance = i.instance WHERE instance = ?", h.instance())
		if err == nil && len(rows) == 0 {
			err = fmt.Errorf("%s is not there", h.instance())
		}
		return err
	})
}

// instance is the ECM's name in Linkis.
func (h *host) instance() string { return fmt.Sprintf("%s:%d", h.name, kinds["ecm"].port) }

package yarn

import (
	"encoding/xml"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// properties are the content of a Hadoop configuration file.
type properties map[string]string

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// write writes them to a file, with a prefix before the names.
func (p properties) write(folder, name, prefix string) error {
	var text strings.Builder
	text.WriteString("<configuration>\n")
	for _, key := range sorted(p) {
		text.WriteString("<property><name>")
		_ = xml.EscapeText(&text, []byte(prefix+key)) // a Builder has no errors
		text.WriteString("</name><value>")
		_ = xml.EscapeText(&text, []byte(p[key]))
		text.WriteString("</value></property>\n")
	}
	text.WriteString("</configuration>\n")
	return writeFile(folder, name, text.String())
}

// writeFile replaces a file atomically, because a server may be reading it.
func writeFile(folder, name, text string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // its containers read it too
		return err
	}
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path+".new", []byte(text), 0o644); err != nil { //nolint:gosec // the same
		return err
	}
	return os.Rename(path+".new", path)
}

// writeQueues writes the configuration of the queues.
func (c *Cluster) writeQueues(folder string) error {
	if c.options.Fair != "" {
		return writeFile(folder, "fair-scheduler.xml", c.options.Fair)
	}
	queues := properties{
		"maximum-am-resource-percent": "1.0",
		"resource-calculator":         "org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",
	}
	if len(c.options.Capacity) == 0 {
		queues["root.queues"], queues["root.default.capacity"] = "default", "100"
	}
	for name := range c.options.Capacity {
		path, ok := strings.CutSuffix(name, ".capacity")
		if ok && !strings.Contains(path, ".accessible-node-labels.") && !strings.HasSuffix(path, "-template") {
			// Otherwise a single user gets no more than the queue's guarantee.
			queues[path+".user-limit-factor"] = "100"
		}
	}
	maps.Copy(queues, c.options.Capacity)
	return queues.write(folder, "capacity-scheduler.xml", "yarn.scheduler.capacity.")
}

// writeShared writes the configuration that all servers share into a server's folder.
func (c *Cluster) writeShared(folder string, site properties) error {
	core := properties{
		"fs.defaultFS": "file:///", "hadoop.tmp.dir": filepath.Join(folder, "tmp"),
		"ipc.client.connect.retry.interval": "100", // ms; ten times
	}
	switch {
	case c.options.KDC != nil:
		maps.Copy(core, properties{
			"hadoop.http.filter.initializers":                  "org.apache.hadoop.security.AuthenticationFilterInitializer",
			"hadoop.http.authentication.type":                  "kerberos",
			"hadoop.http.authentication.kerberos.principal":    "HTTP/localhost@" + c.options.KDC.Realm,
			"hadoop.http.authentication.kerberos.keytab":       c.options.KDC.Keytab,
			"hadoop.http.authentication.signature.secret.file": filepath.Join(c.dir, "secret"),
		})
		if err := writeFile(c.dir, "secret", "of this test"); err != nil {
			return err
		}
	case c.options.Named:
		maps.Copy(core, properties{
			"hadoop.http.filter.initializers":                     "org.apache.hadoop.security.AuthenticationFilterInitializer",
			"hadoop.http.authentication.type":                     "simple",
			"hadoop.http.authentication.simple.anonymous.allowed": "false",
			"hadoop.http.authentication.signature.secret.file":    filepath.Join(c.dir, "secret"),
		})
		if err := writeFile(c.dir, "secret", "of this test"); err != nil {
			return err
		}
	}
	maps.Copy(core, c.options.Core)
	maps.Copy(site, c.options.Settings)
	if custom := c.options.custom(); len(custom) > 0 {
		if err := (properties{"yarn.resource-types": strings.Join(custom, ",")}).write(folder, "resource-types.xml", ""); err != nil {
			return err
		}
	}
	if err := core.write(folder, "core-site.xml", ""); err != nil {
		return err
	}
	return errors.Join(site.write(folder, "yarn-site.xml", ""), c.writeTLS(folder), writeFile(folder, "log4j.properties", logging))
}

// logging makes a server of any version log to standard error in the same format.
const logging = `log4j.rootLogger=INFO,console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.target=System.err
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{HH:mm:ss.SSS} %p %c{1}: %m%n
`

// site returns the yarn-site.xml that all servers share.
func (c *Cluster) site() properties {
	site := properties{
		// Seconds instead of Hadoop's minutes.
		"yarn.resourcemanager.connect.retry-interval.ms":                   "200",
		"yarn.client.failover-sleep-base-ms":                               "100",
		"yarn.client.failover-sleep-max-ms":                                "400",
		"yarn.resourcemanager.work-preserving-recovery.scheduling-wait-ms": "1000",
		"yarn.resourcemanager.nodemanagers.heartbeat-interval-ms":          "200",
		"yarn.resourcemanager.connect.max-wait.ms":                         "600000",
		"yarn.nm.liveness-monitor.expiry-interval-ms":                      "20000",
		"yarn.scheduler.fair.update-interval-ms":                           "100",
		// A sleeping master sends nothing; this is above the length of any test.
		"yarn.am.liveness-monitor.expiry-interval-ms": "3600000",
		"yarn.scheduler.minimum-allocation-mb":        "128",
		"yarn.scheduler.maximum-allocation-mb":        "65536",
		"yarn.scheduler.maximum-allocation-vcores":    "64",
		"yarn.application.classpath":                  c.Managers[0].conf() + "," + c.jars + "/*",
		"yarn.nodemanager.env-whitelist":              "JAVA_HOME",
		"yarn.nodemanager.vmem-check-enabled":         "false",
		"yarn.nodemanager.pmem-check-enabled":         "false",
		"yarn.nodemanager.disk-health-checker.enable": "false",
		// The first check happens anyway: a disk that is 90 % full does not matter to these tests.
		"yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "100",
		"yarn.nodemanager.container-metrics.enable":                                     "false",
		"yarn.nodemanager.delete.debug-delay-sec":                                       "0",
		"yarn.resourcemanager.scheduler.class":                                          schedulers + "capacity.CapacityScheduler",
	}
	if c.options.Fair != "" {
		site["yarn.resourcemanager.scheduler.class"] = schedulers + "fair.FairScheduler"
		site["yarn.scheduler.fair.allocation.file"] = "fair-scheduler.xml"
		site["yarn.scheduler.fair.user-as-default-queue"] = "false"
	}
	if c.options.TLS {
		site["yarn.http.policy"] = "HTTPS_ONLY"
		site["yarn.nodemanager.webapp.https.address"] = host + ":0"
	}
	if len(c.options.partitions()) > 0 {
		site["yarn.node-labels.enabled"] = "true"
		site["yarn.node-labels.fs-store.root-dir"] = "file://" + filepath.Join(c.dir, "labels")
	}
	for _, rm := range c.Managers {
		of := ""
		if c.options.Pair {
			of = "." + rm.Name
		}
		for what, port := range rm.ports {
			site["yarn.resourcemanager."+what+of] = fmt.Sprintf("%s:%d", host, port)
			if c.options.TLS && what == "webapp.address" {
				site["yarn.resourcemanager.webapp.https.address"+of] = fmt.Sprintf("%s:%d", host, port)
			}
		}
	}
	if c.options.Pair {
		maps.Copy(site, properties{
			"yarn.resourcemanager.ha.enabled":                    "true",
			"yarn.resourcemanager.ha.rm-ids":                     "rm1,rm2",
			"yarn.resourcemanager.ha.automatic-failover.enabled": "false",
			"yarn.resourcemanager.cluster-id":                    "test",
			"yarn.resourcemanager.recovery.enabled":              "true",
			"yarn.resourcemanager.store.class":                   "org.apache.hadoop.yarn.server.resourcemanager.recovery.FileSystemRMStateStore",
			"yarn.resourcemanager.fs.state-store.uri":            "file://" + filepath.Join(c.dir, "state"),
		})
	}
	return site
}

const (
	host       = "localhost" // also Java's name for 127.0.0.1, and valid in a ticket
	schedulers = "org.apache.hadoop.yarn.server.resourcemanager.scheduler."
)

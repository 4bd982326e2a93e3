package yarn

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// Shell is an application with containers besides its master's. They may have custom resources,
// which the REST API cannot request. Only Hadoop34 has it. Its master is a Java process with at
// most a gibibyte, and a core.
type Shell struct {
	// Queue is a path.
	Queue string
	// User defaults to User.
	User string
	// Containers is the number of containers, which sleep; the others are the size of each.
	Containers, MemoryMiB, VCores int
	Custom                        map[string]int
}

// SubmitShell submits a Shell, waits for its containers and returns its id.
func (c *Cluster) SubmitShell(tb testing.TB, a Shell) string {
	tb.Helper()
	id := c.StartShell(tb, a)
	Await(tb, "the shell has its containers", func() bool {
		now := c.Status(tb, id)
		if now.Ended() {
			tb.Fatalf("%s is %s: %s", id, now.State, now.Diagnostics)
		}
		return now.RunningContainers == a.Containers+1
	})
	return id
}

// StartShell submits a Shell with a master of 512 MiB and one core, and returns its id once the
// ResourceManager knows it.
func (c *Cluster) StartShell(tb testing.TB, a Shell) string {
	tb.Helper()
	jars, err := filepath.Glob(filepath.Join(c.jars, "hadoop-yarn-applications-distributedshell-*.jar"))
	if err != nil || len(jars) != 1 {
		tb.Fatalf("the shell of Hadoop %s: %d found, %v", c.options.version(), len(jars), err)
	}
	resources := []string{fmt.Sprintf("memory-mb=%d", a.MemoryMiB), fmt.Sprintf("vcores=%d", a.VCores)}
	for _, name := range sorted(a.Custom) {
		resources = append(resources, fmt.Sprintf("%s=%d", name, a.Custom[name]))
	}
	c.shells++
	name := fmt.Sprintf("shell-%d", c.shells)
	client := &server{dir: c.Managers[0].dir, jars: c.jars, java: c.java, logName: "shell.log", options: c.Managers[0].options, user: a.User, run: []string{
		"org.apache.hadoop.yarn.applications.distributedshell.Client", "-jar", jars[0], "-queue", strings.TrimPrefix(a.Queue, "root."), "-appname", name,
		"-master_memory", "512", "-master_vcores", "1", "-shell_command", "sleep", "-shell_args", "3600",
		"-num_containers", fmt.Sprint(a.Containers), "-container_resources", strings.Join(resources, ","),
	}}
	// The client would continue to watch its application, which is not needed.
	if err := client.start(); err != nil {
		tb.Fatal(err)
	}
	defer client.kill()
	id := ""
	tb.Cleanup(func() {
		if tb.Failed() && id == "" {
			tb.Logf("the shell said at last:\n%s", client.tail())
		}
	})
	Await(tb, "the shell is submitted", func() bool {
		select {
		case <-client.ended:
			tb.Fatalf("the shell has ended:\n%s", client.tail())
		default:
		}
		var answer struct {
			Apps struct {
				App []struct{ ID, Name, State string }
			}
		}
		if err := c.ask(tb.Context(), http.MethodGet, "apps", User, nil, &answer); err != nil {
			tb.Fatal(err)
		}
		for _, app := range answer.Apps.App {
			if app.Name == name && app.State != "NEW" && app.State != "NEW_SAVING" && app.State != "SUBMITTED" {
				id = app.ID
			}
		}
		return id != ""
	})
	return id
}

//go:build linux

package linkis

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/bursar/bursar/test/netlab"
	"github.com/bursar/bursar/test/proc"
)

// kind is what differs between the services of Linkis.
type kind struct {
	application string // its name in Eureka
	class, jar  string
	list        string // of its class path
	port        int
	heap        string
	arguments   []string
}

var kinds = map[string]kind{
	"eureka": {
		"linkis-mg-eureka", "org.apache.linkis.eureka.SpringCloudEurekaApplication", "linkis-eureka", "eureka", 17473, "192m",
		[]string{"--spring.profiles.active=eureka"},
	},
	"publicservice": {"linkis-ps-publicservice", "org.apache.linkis.filesystem.LinkisPublicServiceApp", "linkis-pes-publicservice", "publicservice", 17474, "512m", nil},
	"manager":       {"linkis-cg-linkismanager", "org.apache.linkis.manager.LinkisManagerApplication", "linkis-application-manager", "manager", 17475, "512m", nil},
	"ecm":           {"linkis-cg-engineconnmanager", "org.apache.linkis.ecm.server.LinkisECMApplication", "linkis-engineconn-manager-server", "ecm", 17476, "256m", nil},
	"entrance":      {"linkis-cg-entrance", "org.apache.linkis.entrance.LinkisEntranceApplication", "linkis-entrance", "entrance", 17478, "512m", nil},
}

// service is one process of Linkis, with its own configuration.
type service struct {
	*proc.Process
	kind

	w    *world
	name string
	node *netlab.Node
	dir  string
	// jars go first on its class path; options are Java's. Both may be changed before a start.
	jars, options []string
	// account is the user who runs it; nil: who runs the test.
	account *user.User
}

// prefix is a command that runs another one as the service's account, and becomes it.
func (s *service) prefix() []string {
	if s.account == nil {
		return nil
	}
	return []string{"setpriv", "--reuid=" + s.account.Uid, "--regid=" + s.account.Gid, "--clear-groups", "--pdeathsig=KILL", "--"}
}

// Linkis reaches into Java in ways that are closed since Java 9.
func opens() []string {
	var list []string
	for _, name := range []string{"lang", "util", "lang.reflect", "text", "io", "net", "time", "util.concurrent"} {
		list = append(list, "--add-opens=java.base/java."+name+"=ALL-UNNAMED")
	}
	return append(list, "--add-opens=java.base/sun.net.util=ALL-UNNAMED", "--add-opens=java.management/sun.management=ALL-UNNAMED",
		"--add-opens=jdk.management/com.sun.management.internal=ALL-UNNAMED")
}

// service makes a service that is to run in a node, and does not start it. The properties override
// those of Linkis's own files.
func (w *world) service(name, what string, node *netlab.Node, properties map[string]string) *service {
	w.t.Helper()
	s := &service{kind: kinds[what], w: w, name: name, node: node, dir: filepath.Join(w.dir, name)}
	s.configure(properties)
	path, err := w.here.classPath(s.list, s.jar)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, more := range []string{connector, epoll} {
		jar, err := w.here.jar(more)
		if err != nil {
			w.t.Fatal(err)
		}
		path += ":" + jar
	}
	w.t.Cleanup(func() { // after the process has ended; its tail alone may be too short to understand it
		if folder := os.Getenv("BURSAR_LINKIS_LOGS"); folder != "" {
			_ = os.WriteFile(filepath.Join(folder, name+".log"), []byte(s.Output.String()), 0o600)
		}
	})
	s.Process = proc.New(w.t, name, func() *exec.Cmd {
		first := append([]string{filepath.Join(s.dir, "conf")}, s.jars...)
		line := append([]string{
			filepath.Join(w.here.jdk, "bin", "java"), "-Xmx" + s.heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
			"-Djdk.net.hosts.file=" + filepath.Join(w.dir, "hosts"), "-Djava.net.preferIPv4Stack=true", "-DserviceName=" + s.application,
			"-Djava.io.tmpdir=" + s.dir,
		}, opens()...)
		line = append(line, s.options...)
		line = append(line, "-cp", strings.Join(first, ":")+":"+path, s.class)
		line = append(line, s.arguments...)
		if what == "eureka" {
			line = append(line, "--eureka.instance.hostname="+s.node.Name, "--server.address="+s.node.Address.String())
		}
		cmd := onMachine(s.node, append(s.prefix(), line...)...)
		cmd.Dir = s.dir
		cmd.Env = proc.Environment("LINKIS_LOG_DIR="+filepath.Join(s.dir, "logs"), "LINKIS_HOME="+filepath.Join(w.dir, "home"),
			"LINKIS_CONF_DIR="+filepath.Join(s.dir, "conf"), "JAVA_HOME="+w.here.jdk, "PATH="+filepath.Join(w.dir, "bin")+":"+os.Getenv("PATH"))
		return cmd
	})
	return s
}

// configure writes the service's configuration: Linkis's own, with the places of this world.
func (s *service) configure(properties map[string]string) {
	s.w.t.Helper()
	conf := filepath.Join(s.dir, "conf")
	if err := os.MkdirAll(conf, 0o755); err != nil {
		s.w.t.Fatal(err)
	}
	center := s.w.lab.Here.Address.String()
	// An engine may listen on all addresses of its own network namespace.
	places := strings.NewReplacer("-Dserver.address=127.0.0.1 ", "", "@BASE@/conf/hosts", filepath.Join(s.w.dir, "hosts"), "@BASE@", s.w.dir, "@USER@", s.w.user, "@HOST@", s.node.Name, "127.0.0.1:17473", center+":17473", "127.0.0.1:17474", center+":17474",
		"server.address=127.0.0.1", "server.address="+s.node.Address.String(), "registry-fetch-interval-seconds: 8", "registry-fetch-interval-seconds: 1",
		"response-cache-update-interval-ms: 3000", "response-cache-update-interval-ms: 300")
	folders := []string{filepath.Join(s.w.here.home, "conf")}
	if s.w.engines {
		folders = append(folders, filepath.Join(s.w.here.home, "engines", "conf"))
	}
	for _, folder := range folders {
		files, err := os.ReadDir(folder)
		if err != nil {
			s.w.t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(filepath.Join(folder, file.Name()))
			if err == nil {
				err = os.WriteFile(filepath.Join(conf, file.Name()), []byte(places.Replace(string(text))), 0o644)
			}
			if err != nil {
				s.w.t.Fatal(err)
			}
		}
	}
	console, err := os.ReadFile(filepath.Join("testdata", "log4j2.xml"))
	if err == nil {
		err = os.WriteFile(filepath.Join(conf, "log4j2.xml"), console, 0o644)
	}
	if err != nil {
		s.w.t.Fatal(err)
	}
	all := map[string]string{
		"spring.server.address": s.node.Address.String(), "spring.eureka.instance.hostname": s.node.Name,
		"wds.linkis.engineconn.root.dir": filepath.Join(s.dir, "engines"), "wds.linkis.ecm.home.dir": s.dir + "/",
	}
	maps.Copy(all, properties)
	s.set(all)
}

// set adds properties to the service's own file, which Linkis reads at its start; the last counts.
func (s *service) set(properties map[string]string) {
	s.w.t.Helper()
	file, err := os.OpenFile(filepath.Join(s.dir, "conf", s.application+".properties"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		s.w.t.Fatal(err)
	}
	defer file.Close()
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if _, err := fmt.Fprintf(file, "\n%s=%s\n", name, properties[name]); err != nil {
			s.w.t.Fatal(err)
		}
	}
}

// listed waits until Eureka lists the service.
func (s *service) listed() {
	s.w.t.Helper()
	took := eventually(s.w.t, s.name+" is in Eureka", func() error {
		if !s.Running() {
			s.w.t.Fatalf("%s has ended:\n%s", s.name, s.Output.Tail())
		}
		if s.application == kinds["eureka"].application {
			_, err := fetch(s.w.t.Context(), s.w.eurekaURL()+"/eureka/apps")
			return err
		}
		text, err := fetch(s.w.t.Context(), s.w.eurekaURL()+"/eureka/apps/"+s.application)
		if err == nil && !strings.Contains(text, s.node.Name+":"+fmt.Sprint(s.port)) {
			err = fmt.Errorf("not at %s", s.node.Name)
		}
		return err
	})
	s.w.t.Logf("%s is up (%s more)", s.name, took.Round(time.Millisecond))
}

// fetch gets a page, and fails unless it is there.
func fetch(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %.300s", url, response.Status, text)
	}
	return string(text), err
}

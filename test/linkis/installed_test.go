//go:build linux

package linkis

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/bursar/bursar/test/proc"
)

// place is where everything is that is not built here.
type place struct {
	home     string // of Linkis: jars, class paths, configuration
	jars     string // of others
	jdk      string
	mariadb  string // the program
	database string // a folder of data, to be copied
	root     string // of the module
}

// installed finds what `make linkis-ready` has provided.
func installed() (place, error) {
	root, err := proc.Root()
	if err != nil {
		return place{}, err
	}
	tools := filepath.Join(root, ".cache", "tools")
	p := place{
		home: os.Getenv("LINKIS_HOME"), jars: filepath.Join(tools, "linkis-jars"), jdk: filepath.Join(tools, "linkis-jdk"),
		mariadb: filepath.Join(tools, "linkis-mariadbd"), database: filepath.Join(tools, "linkis-database", "data"), root: root,
	}
	if p.home == "" {
		p.home = filepath.Join(root, "..", "shared", "linkis")
	}
	if p.home, err = filepath.Abs(p.home); err != nil {
		return place{}, err
	}
	for _, path := range []string{p.home, p.jars, p.jdk, p.mariadb, p.database} {
		if _, err := os.Stat(path); err != nil {
			return place{}, fmt.Errorf("%w: set LINKIS_HOME to a built Linkis and run make linkis-ready", err)
		}
	}
	return p, nil
}

// classPath is that of a service: jars of Linkis by their names, then those of its list.
func (p place) classPath(list string, first ...string) (string, error) {
	text, err := os.ReadFile(filepath.Join(p.home, "classpath-"+list+".txt"))
	if err != nil {
		return "", err
	}
	var path []string
	for _, name := range first {
		path = append(path, filepath.Join(p.home, "jars", name+"-"+version+".jar"))
	}
	for line := range strings.Lines(string(text)) {
		jar, err := p.jar(strings.TrimSpace(line))
		if err != nil {
			return "", err
		}
		path = append(path, jar)
	}
	return strings.Join(path, ":"), nil
}

// version is that of Linkis.
const version = "1.8.0"

// jar is the file of GROUP:ARTIFACT:VERSION.
func (p place) jar(coordinates string) (string, error) {
	parts := strings.Split(coordinates, ":")
	if len(parts) < 3 {
		return "", fmt.Errorf("%q: want GROUP:ARTIFACT:VERSION", coordinates)
	}
	path := filepath.Join(p.jars, parts[0]+"."+strings.Join(parts[1:], "-")+".jar")
	if parts[0] == "org.apache.linkis" {
		path = filepath.Join(p.home, "jars", parts[1]+"-"+parts[2]+".jar")
	}
	_, err := os.Stat(path)
	return path, err
}

// connector is JDBC's driver, which is on no list; epoll is the native part of Netty's, whose
// classifier the lists have lost.
const (
	connector = "mysql:mysql-connector-java:8.0.28"
	epoll     = "io.netty:netty-transport-native-epoll:4.1.86.Final:linux-x86_64"
)

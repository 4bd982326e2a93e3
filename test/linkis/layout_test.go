//go:build linux

package linkis

import (
	"os"
	"path/filepath"
	"strings"
)

// sudo stands in for the real one: Linkis starts an engine with `sudo su - USER -c COMMAND`, and
// runs its kill scripts, which need bash, with `sudo sh SCRIPT`.
const sudo = `#!/bin/bash
if [ "$1" = su ]; then exec bash -c "$5"; fi
exec "$@"
`

// layOut makes the folders that the services share, with the shell plugin as the manager expects
// it: home/lib/linkis-engineconn-plugins/shell/{dist,plugin}/1, and what is on every engine's class
// path.
func (w *world) layOut() {
	w.t.Helper()
	plugins := filepath.Join("home", "lib", "linkis-engineconn-plugins")
	w.make(plugins, "bin", "home/pid", "run/bml", "run/user")
	w.put("bin/sudo", []byte(sudo), 0o755)
	w.link("/bin/bash", "bin/sh") // one kill script calls the other by sh
	if !w.engines {
		return
	}
	shell := filepath.Join(plugins, "shell")
	public := filepath.Join("home", "lib", "linkis-commons", "public-module")
	w.make(shell+"/dist/1/lib", shell+"/dist/1/conf", shell+"/plugin/1", public, "home/sbin")
	w.copyFolder(filepath.Join(w.here.home, "engines", "plugin-shell", "conf"), shell+"/dist/1/conf", 0o644)
	w.copyFolder(filepath.Join(w.here.home, "engines", "sbin"), "home/sbin", 0o755)
	for _, jar := range w.jars("shell-engine") {
		w.put(shell+"/dist/1/lib/"+filepath.Base(jar), w.read(jar), 0o644)
	}
	plugin := "linkis-engineplugin-shell-" + version + ".jar"
	w.put(shell+"/plugin/1/"+plugin, w.read(filepath.Join(w.here.home, "jars", plugin)), 0o644)
	connected, err := w.here.jar(connector)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, jar := range append(w.jars("public-module"), connected) {
		w.link(jar, public+"/"+filepath.Base(jar))
	}
}

// jars are those of a class path.
func (w *world) jars(list string) []string {
	w.t.Helper()
	path, err := w.here.classPath(list)
	if err != nil {
		w.t.Fatal(err)
	}
	return strings.Split(path, ":")
}

func (w *world) make(folders ...string) {
	w.t.Helper()
	for _, folder := range folders {
		if err := os.MkdirAll(filepath.Join(w.dir, folder), 0o755); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) put(name string, content []byte, mode os.FileMode) {
	w.t.Helper()
	if err := os.WriteFile(filepath.Join(w.dir, name), content, mode); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) read(file string) []byte {
	w.t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		w.t.Fatal(err)
	}
	return content
}

func (w *world) link(to, name string) {
	w.t.Helper()
	if err := os.Symlink(to, filepath.Join(w.dir, name)); err != nil && !os.IsExist(err) {
		w.t.Fatal(err)
	}
}

func (w *world) copyFolder(from, to string, mode os.FileMode) {
	w.t.Helper()
	files, err := os.ReadDir(from)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, file := range files {
		w.put(filepath.Join(to, file.Name()), w.read(filepath.Join(from, file.Name())), mode)
	}
}

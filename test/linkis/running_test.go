//go:build linux

package linkis

import (
	"errors"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// running is a whole Linkis that starts real engines.
type running struct {
	*world

	public, entrance *service
}

// newRunning starts all of it except for ECMs.
func newRunning(t *testing.T, o options) *running {
	t.Helper()
	o.engines = true
	r := &running{world: newWorld(t, o)}
	r.eureka.listed()
	r.public = r.service("publicservice", "publicservice", r.lab.Here, nil)
	r.public.Start()
	r.public.listed()
	r.startManager(enforced, map[string]string{"linkis.bursar.reservation.ttl": "120s"})
	r.manager.listed()
	r.entrance = r.service("entrance", "entrance", r.lab.Here, nil)
	r.entrance.Start()
	r.entrance.listed()
	return r
}

// startAdaptedECM starts a host's ECM with the adapter and more properties.
func (r *running) startAdaptedECM(h *host, more map[string]string) {
	r.t.Helper()
	r.adaptECM(h, more)
	r.startECM(h)
	h.ecm.listed()
}

// adaptECM makes a host's ECM with the adapter and more properties, and does not start it.
func (r *running) adaptECM(h *host, more map[string]string) {
	r.t.Helper()
	properties := map[string]string{"linkis.bursar.mode": "enforce", "linkis.bursar.agent.socket": h.socket}
	maps.Copy(properties, more)
	h.ecm = r.service(h.name, "ecm", h.node, properties)
	h.ecm.account = h.account
	if h.account != nil {
		r.give(h.ecm.dir, h.account)
	}
	h.ecm.jars = []string{r.adapter("ecm")}
}

// give makes a folder and all that is in it a user's.
func (r *running) give(folder string, to *user.User) {
	r.t.Helper()
	uid, err := strconv.Atoi(to.Uid)
	if err != nil {
		r.t.Fatal(err)
	}
	gid, err := strconv.Atoi(to.Gid)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := filepath.WalkDir(folder, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, uid, gid))
	}); err != nil {
		r.t.Fatal(err)
	}
}

// jvmOf is the engine that a process is, or that runs below it: an agent starts an engine by its
// script. 0: there is none.
func (r *running) jvmOf(pid int) int {
	for _, jvm := range r.engineProcesses() {
		for parent := jvm; parent > 1; parent = parentOf(parent) {
			if parent == pid {
				return jvm
			}
		}
	}
	return 0
}

// step is a part of a test, which begins with what the part before it has left.
type step struct {
	name string
	f    func(*testing.T)
}

// run runs steps one after the other.
func (r *running) run(t *testing.T, steps ...step) {
	t.Helper()
	for _, s := range steps {
		began := time.Now()
		t.Run(s.name, func(t *testing.T) {
			outer := r.t
			r.t, r.db.t = t, t
			defer func() { r.t, r.db.t = outer, outer }()
			s.f(t)
		})
		t.Logf("%s: %s", s.name, time.Since(began).Round(100*time.Millisecond))
	}
}

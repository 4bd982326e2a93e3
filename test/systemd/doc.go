// Package systemd boots machines with a systemd of their own for tests, and runs the built
// packages in them. Start gives one of two kinds:
//
//   - a Container (systemd-nspawn): up within two seconds, on this machine's kernel. If that has
//     cgroups of version 1, so has the container, with the controllers for memory and cpu. Its
//     clock, its boot id and its sysctls are this machine's.
//   - a Virtual machine (qemu, two cores): a kernel of its own, cgroups of version 2 with all
//     controllers, PSI, swap, an OOM killer, a clock to set and real reboots. It is up within
//     fifteen seconds even if no hardware helps; everything takes ten times as long then.
//
// Both start from the same small Debian, which `make systemd` provides, and forget what was
// written to it. They have no network. The files in Options.Files are in /opt/test, where there is
// always /opt/test/inside: it carries out what Machine.Run asks for, and plays engines. A machine
// needs root to start, and fails without.
//
//	m := systemd.Start(t, systemd.Options{Kind: systemd.Container, Files: map[string]string{"bursar.deb": path}})
//	m.Must(t, "dpkg", "-i", "/opt/test/bursar.deb")
//	m.Await(t, 20*time.Second, "systemctl is-active bursar-agent")
//	r := m.As(t, "alice", "bursar", "status")
//
// All parts of a machine go with the test, and with the process that started it, however that
// ends. To look at one:
//
//	go test ./test/systemd -run 'TestName/part' -systemd.keep -timeout 0
//
// which says, when the test is over, how to enter its machines, and keeps them until it is
// interrupted.
//
// A Machine's methods may be called from many goroutines.
package systemd

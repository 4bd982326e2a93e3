// Package systemd boots machines with their own systemd for tests, and runs the built packages in
// them. Start makes one of two kinds:
//
//   - a Container (systemd-nspawn): up within two seconds, on this machine's kernel. If that has
//     cgroups of version 1, the container has them, too, with the controllers for memory and cpu.
//     It shares this machine's clock, boot id and sysctls.
//   - a Virtual machine (qemu, two cores): its own kernel, cgroups of version 2 with all
//     controllers, PSI, swap, an OOM killer, a clock that can be set, and real reboots. It is up
//     within fifteen seconds even without hardware support; everything then takes ten times as
//     long.
//
// Both start from the same small Debian, which `make systemd` provides, and discard all changes at
// the end. They have no network. The files in Options.Files are in /opt/test. The program
// /opt/test/inside is always there: it runs the commands of Machine.Run, and simulates engines.
// Starting a machine requires root, and fails otherwise.
//
//	m := systemd.Start(t, systemd.Options{
//		Kind: systemd.Container, Files: map[string]string{"bursar.deb": path},
//	})
//	m.Must(t, "dpkg", "-i", "/opt/test/bursar.deb")
//	m.Await(t, 20*time.Second, "systemctl is-active bursar-agent")
//	r := m.As(t, "alice", "bursar", "status")
//
// All parts of a machine are removed with the test, and with the process that started it, even if
// that is killed. To look at one:
//
//	go test ./test/systemd -run 'TestName/part' -systemd.keep -timeout 0
//
// At the end of the test this prints how to enter its machines, and keeps them until it is
// interrupted.
//
// A Machine's methods are safe for concurrent use.
package systemd

package systemd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// virtual is a machine of qemu.
type virtual struct {
	image, kernel string
}

// hardware reports whether this machine's processor supports virtual machines. Some rented machines
// have a KVM without that. It is slower than qemu's own translation: a boot of ten seconds takes
// more than a minute.
func hardware() bool {
	content, err := os.ReadFile("/proc/cpuinfo")
	if err != nil || !regexp.MustCompile(`(?m)^flags\s*:.*\b(vmx|svm)\b`).Match(content) {
		return false
	}
	file, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	return file.Close() == nil
}

// prepare makes the machine's disks: the first discards all changes, the second has the test's
// files.
func (v *virtual) prepare(m *Machine) (*exec.Cmd, error) {
	image, err := filepath.Abs(v.image)
	if err != nil {
		return nil, err
	}
	if err := m.makeShareImage(); err != nil {
		return nil, err
	}
	memory := m.options.MemoryMiB
	if memory == 0 {
		memory = 1536
	}
	arguments := []string{
		"-machine", "q35", "-smp", "2", "-m", strconv.Itoa(memory), "-nodefaults", "-nographic", "-no-user-config",
	}
	if hardware() {
		arguments = append(arguments, "-accel", "kvm", "-cpu", "host")
	} else {
		arguments = append(arguments, "-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max")
	}
	arguments = append(arguments,
		"-kernel", v.kernel,
		"-append", "root=/dev/nvme0n1 rw console=ttyS0 quiet net.ifnames=0 mitigations=off panic=1 systemd.show_status=0",
		"-drive", "if=none,id=root,format=raw,cache=unsafe,snapshot=on,file="+image, "-device", "nvme,drive=root,serial=root",
		"-drive", "if=none,id=share,format=raw,cache=unsafe,readonly=on,file="+m.path("share.image"), "-device", "nvme,drive=share,serial=share",
		"-chardev", "socket,id=channel,path="+m.path("share/channel"), "-device", "virtio-serial-pci",
		"-device", "virtserialport,chardev=channel,name=bursar",
		"-chardev", "socket,id=console,server=on,wait=off,logfile="+m.path("console")+",logappend=on,path="+m.path("terminal"),
		"-serial", "chardev:console",
	)
	command := exec.Command("qemu-system-x86_64", arguments...) //nolint:gosec,noctx // it ends with the machine
	// The file for changes of the first disk: it is removed with the machine.
	command.Env = append(os.Environ(), "TMPDIR="+m.folder)
	return command, nil
}

// makeShareImage makes a file system from the machine's folder share.
func (m *Machine) makeShareImage() error {
	size := int64(8 << 20) // for the file system itself; a quarter is added below
	entries, err := os.ReadDir(m.path("share"))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			return err
		}
		size += info.Size() * 5 / 4
	}
	file, err := os.Create(m.path("share.image"))
	if err == nil {
		err = errors.Join(file.Truncate(size), file.Close())
	}
	if err != nil {
		return err
	}
	command := exec.Command("mkfs.ext4", "-q", "-O", "^has_journal", "-d", m.path("share"), m.path("share.image")) //nolint:gosec,noctx // it is short
	if said, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("mkfs.ext4: %w: %s", err, said)
	}
	return nil
}

func (v *virtual) booted(context.Context, *Machine) error { return nil }

func (v *virtual) enter(m *Machine) string {
	return "socat -,raw,echo=0,escape=0x1d UNIX-CONNECT:" + m.path("terminal") + "   # log in as root; ctrl-] leaves"
}

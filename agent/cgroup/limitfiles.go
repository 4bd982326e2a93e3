package cgroup

import (
	"bytes"
	"slices"
	"strings"

	"github.com/bursar/bursar/internal/cgroupfs"
)

// limitFile is a file of a cgroup that can limit its processes, or give them a resource that others
// do not have.
type limitFile struct {
	name string
	// unset reports whether the file has the content that the kernel gives to a new cgroup.
	unset func(content string) bool
}

// limitFiles lists the files of both versions; a mount of version 1 may have several controllers.
func limitFiles() []limitFile {
	files := []limitFile{
		{"memory.max", is("max")},
		{"memory.high", is("max")},
		{"memory.min", is("0")},
		{"memory.low", is("0")},
		{"memory.swap.max", is("max")},
		{"memory.swap.high", is("max")},
		{"memory.zswap.max", is("max")},
		{"cpu.max", isMax},
		{"cpu.weight", is("100")},
		{"cpu.idle", is("0")},
		{"cpu.uclamp.min", is("0.00")},
		{"cpu.uclamp.max", is("max")},
		{"cpuset.cpus", is("")},
		{"cpuset.mems", is("")},
		{"io.max", is("")},
		{"io.latency", is("")},
		{"io.weight", is("default 100")},
		{"io.bfq.weight", is("default 100", "100")}, // the latter before Linux 5.4
		{tasksFile, is("max")},
		{"rdma.max", allMax},
		{"misc.max", allMax},
		{"dmem.max", allMax},
		// Version 1.
		{"memory.limit_in_bytes", unlimitedV1},
		{"memory.soft_limit_in_bytes", unlimitedV1},
		{"memory.memsw.limit_in_bytes", unlimitedV1},
		{"memory.kmem.limit_in_bytes", unlimitedV1},
		{"memory.kmem.tcp.limit_in_bytes", unlimitedV1},
		{"cpu.cfs_quota_us", is("-1")},
		{"cpu.shares", is("1024")},
		{"blkio.weight", is("500", "100")},
		{"blkio.bfq.weight", is("100")},
		{"blkio.weight_device", is("")},
		{"blkio.throttle.read_bps_device", is("")},
		{"blkio.throttle.write_bps_device", is("")},
		{"blkio.throttle.read_iops_device", is("")},
		{"blkio.throttle.write_iops_device", is("")},
		{"devices.list", is("a *:* rwm")},
		{"net_cls.classid", is("0")},
		{"net_prio.ifpriomap", allZero},
	}
	for _, size := range []string{"64KB", "1MB", "2MB", "8MB", "16MB", "32MB", "256MB", "512MB", "1GB", "2GB", "16GB"} {
		for _, kind := range []string{"", "rsvd."} {
			files = append(files,
				limitFile{"hugetlb." + size + "." + kind + "max", is("max")}, limitFile{"hugetlb." + size + "." + kind + "limit_in_bytes", unlimitedV1})
		}
	}
	return files
}

func is(one ...string) func(string) bool {
	return func(content string) bool { return slices.Contains(one, content) }
}

// isMax reports whether content is "max", followed by a period.
func isMax(content string) bool {
	word, _, _ := strings.Cut(content, " ")
	return word == "max" || word == ""
}

func unlimitedV1(content string) bool {
	limit, err := cgroupfs.Number([]byte(content))
	return err == nil && limit >= cgroupfs.UnlimitedV1
}

// allMax reports whether all limits are max in lines such as "sev max" and "mlx hca_handle=max
// hca_object=max".
func allMax(content string) bool { return allLines(content, "max") }

func allZero(content string) bool { return allLines(content, "0") }

func allLines(content, want string) bool {
	for line := range bytes.Lines([]byte(content)) {
		words := strings.Fields(string(line))
		for _, word := range words[min(1, len(words)):] {
			if value := word[strings.LastIndex(word, "=")+1:]; value != want {
				return false
			}
		}
	}
	return true
}

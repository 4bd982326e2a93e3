package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
)

const (
	// period is the accounting period of a CPU quota, in microseconds: the kernel's own default.
	period = 100_000
	// leastQuota is the smallest quota that the kernel accepts, in microseconds.
	leastQuota = 1000

	defaultWeight = 100
	leastWeight   = 1
	mostWeight    = 10_000
	// Version 1 has shares: 1024 shares equal a weight of 100.
	defaultShares = 1024
	leastShares   = 2
	mostShares    = 262_144
)

// ErrInUse says that an engine holds more memory than its new limit. Setting a limit must not kill;
// the engine's policy decides about its over-use.
var ErrInUse = errors.New("more is in use than the limit")

// UnsupportedError says that no controller here can enforce a limit.
type UnsupportedError struct {
	Controller string
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("no controller %s here: its limit is not kept", e.Controller)
}

// Weight returns the CPU weight in the kernel's range.
func (l Limits) Weight() int64 {
	if l.CPUWeight == 0 {
		return defaultWeight
	}
	return min(max(l.CPUWeight, leastWeight), mostWeight)
}

// quota returns the processor time in microseconds per period; 0 means no limit.
func (l Limits) quota() int64 {
	if l.CPUMillis == 0 {
		return 0
	}
	return max(leastQuota, l.CPUMillis*(period/1000))
}

// set sets every limit of a cgroup, even if one of them fails.
func (d *Direct) set(name string, limits Limits) error {
	var all error
	if limits.MemoryMax != 0 && slices.Contains(d.missing, memory) {
		all = errors.Join(all, &UnsupportedError{memory})
	}
	if limits.CPUMillis != 0 && slices.Contains(d.missing, cpu) {
		all = errors.Join(all, &UnsupportedError{cpu})
	}
	for _, h := range d.tree.all {
		folder, _ := h.folder(name)
		switch {
		case !h.V1:
			all = errors.Join(all, d.setUnified(h, name, folder, limits))
		case slices.Contains(h.controllers, memory):
			all = errors.Join(all, d.setMemoryV1(folder, limits.MemoryMax))
		}
		if h.V1 && slices.Contains(h.controllers, cpu) {
			all = errors.Join(all, d.setCPUV1(folder, limits))
		}
	}
	if all != nil {
		return fmt.Errorf("limits of cgroup %s: %w", name, all)
	}
	return nil
}

func (d *Direct) setUnified(h *hierarchy, name, folder string, limits Limits) error {
	var all error
	if h == d.tree.main && !slices.Contains(d.missing, memory) {
		all = d.setMemory(name, folder, limits.MemoryMax)
	}
	if slices.Contains(d.missing, cpu) {
		return all
	}
	quota := "max"
	if limits.quota() > 0 {
		quota = strconv.FormatInt(limits.quota(), 10)
	}
	return errors.Join(all,
		d.tree.files.Write(filepath.Join(folder, "cpu.max"), quota+" "+strconv.Itoa(period)),
		d.tree.files.Write(filepath.Join(folder, "cpu.weight"), strconv.FormatInt(limits.Weight(), 10)))
}

func (d *Direct) setMemory(name, folder string, limit int64) error {
	if err := d.tree.Fits(name, limit); err != nil {
		return err
	}
	most, swap := "max", "max"
	if limit != 0 {
		// The entitlement is a bound of memory: with swap the engine could use more.
		most, swap = strconv.FormatInt(limit, 10), "0"
	}
	return errors.Join(
		d.tree.files.Write(filepath.Join(folder, "memory.max"), most),
		ifThere(d.tree.files.Write(filepath.Join(folder, "memory.swap.max"), swap)))
}

// setMemoryV1 sets the limit of memory and the limit of memory and swap. The second may never be
// lower than the first.
func (d *Direct) setMemoryV1(folder string, limit int64) error {
	most := "-1"
	if limit != 0 {
		most = strconv.FormatInt(limit, 10)
	}
	// only if the kernel accounts for swap
	both := filepath.Join(folder, "memory.memsw.limit_in_bytes")
	if err := ifThere(d.tree.files.Write(both, "-1")); err != nil {
		return inUse(err)
	}
	if err := d.tree.files.Write(filepath.Join(folder, "memory.limit_in_bytes"), most); err != nil {
		return inUse(err)
	}
	return inUse(ifThere(d.tree.files.Write(both, most)))
}

func (d *Direct) setCPUV1(folder string, limits Limits) error {
	quota := limits.quota()
	if quota == 0 {
		quota = -1
	}
	shares := min(max(limits.Weight()*defaultShares/defaultWeight, leastShares), mostShares)
	// A kernel may be built without quotas.
	err := errors.Join(
		ifThere(d.tree.files.Write(filepath.Join(folder, "cpu.cfs_period_us"), strconv.Itoa(period))),
		d.tree.files.Write(filepath.Join(folder, "cpu.cfs_quota_us"), strconv.FormatInt(quota, 10)))
	if quota < 0 {
		err = ifThere(err)
	}
	return errors.Join(err, d.tree.files.Write(filepath.Join(folder, "cpu.shares"), strconv.FormatInt(shares, 10)))
}

func ifThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// inUse converts the error of version 1 for a limit below the memory in use.
func inUse(err error) error {
	if errors.Is(err, syscall.EBUSY) {
		return errors.Join(ErrInUse, err)
	}
	return err
}

package cgroupfs

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
)

// UnlimitedV1 and all higher values mean "max" in version 1, which shows the highest multiple of
// the page size below 2^63.
const UnlimitedV1 = 1 << 60

// Number parses a file with a single unsigned number. A number above math.MaxInt64 becomes
// math.MaxInt64. ErrMalformed: the file has other content.
func Number(data []byte) (int64, error) {
	value, err := strconv.ParseUint(string(bytes.TrimSpace(data)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%w number %q", ErrMalformed, data)
	}
	return int64(min(value, math.MaxInt64)), nil
}

// ParseMemoryMax parses memory.max or memory.high of version 2, or memory.limit_in_bytes of version
// 1. It returns false if there is no limit.
func ParseMemoryMax(data []byte) (int64, bool, error) {
	if string(bytes.TrimSpace(data)) == "max" {
		return 0, false, nil
	}
	bytes, err := Number(data)
	return bytes, err == nil && bytes < UnlimitedV1, err
}

// ParseCPUMax parses cpu.max of version 2, "max 100000" or "50000 100000", as thousandths of a
// core. It returns false if there is no limit.
func ParseCPUMax(data []byte) (int64, bool, error) {
	quota, period, found := bytes.Cut(bytes.TrimSpace(data), []byte(" "))
	if !found {
		return 0, false, fmt.Errorf("%w cpu.max %q", ErrMalformed, data)
	}
	if string(quota) == "max" {
		return 0, false, nil
	}
	return CPUShare(quota, period)
}

// CPUShare divides a quota by its period, both in microseconds. Version 1 has -1 for "max".
func CPUShare(quota, period []byte) (int64, bool, error) {
	if string(bytes.TrimSpace(quota)) == "-1" {
		return 0, false, nil
	}
	q, err := Number(quota)
	if err != nil {
		return 0, false, err
	}
	p, err := Number(period)
	if err != nil {
		return 0, false, err
	}
	if p == 0 || q > math.MaxInt64/1000 {
		return 0, false, fmt.Errorf("%w cpu quota %d of %d", ErrMalformed, q, p)
	}
	return q * 1000 / p, true, nil
}

// Add returns a + b, and math.MaxInt64 or math.MinInt64 on overflow.
func Add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

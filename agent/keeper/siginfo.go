package keeper

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// siginfo is siginfo_t as waitid(2) fills it in on 64-bit machines; x/sys names only its head.
type siginfo struct {
	signal, errno, code, _ int32
	pid, uid, status       int32
	_                      [100]byte
}

// Codes of SIGCHLD, of asm-generic/siginfo.h.
const (
	cldKilled = 2
	cldDumped = 3
)

func (s *siginfo) asUnix() *unix.Siginfo {
	return (*unix.Siginfo)(unsafe.Pointer(s)) //nolint:gosec // the same 128 bytes; the constants below hold it
}

// Neither may be larger than the other: constants below zero do not compile.
const (
	_ = unsafe.Sizeof(unix.Siginfo{}) - unsafe.Sizeof(siginfo{})
	_ = unsafe.Sizeof(siginfo{}) - unsafe.Sizeof(unix.Siginfo{})
)

func (s *siginfo) exit() Exit {
	if s.code == cldKilled || s.code == cldDumped {
		return Exit{Signal: s.status}
	}
	code := s.status & 0xff
	return Exit{Code: &code}
}

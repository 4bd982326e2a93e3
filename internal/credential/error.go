package credential

import (
	"errors"
	"fmt"
	"syscall"
)

// FileError refuses a field of a configuration that names a file, or the file.
type FileError struct {
	// Field is its path in the configuration, such as "tls.cert".
	Field string
	// File is what the field says; empty if it is not set and should be.
	File string
	// Wrong is what is wrong, Want what would be right.
	Wrong, Want string
	// Clock says that the certificate is not valid at this time.
	Clock bool
	// Err is the operating system's error, or that of a parser; nil if there is none.
	Err error
}

func (e *FileError) Error() string {
	return fmt.Sprintf("%s: %q: %s: want %s", e.Field, e.File, e.Wrong, e.Want)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// Passes reports whether time may mend this: the file cannot be read now, or the certificate is
// not valid at this time. Another content is somebody's to write.
func (e *FileError) Passes() bool {
	var errno syscall.Errno
	return e.Clock || errors.As(e.Err, &errno) && errno != syscall.EISDIR && errno != syscall.ENOTDIR
}

// CertificateError refuses the certificate that a client has shown.
type CertificateError struct {
	Subject string
	Want    string
	Err     error // why; nil if the certificate does not matter
}

func (e *CertificateError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("client certificate of %q: want %s", e.Subject, e.Want)
	}
	return fmt.Sprintf("client certificate of %q: %v: want %s", e.Subject, e.Err, e.Want)
}

// Unwrap returns why it was refused.
func (e *CertificateError) Unwrap() error { return e.Err }

package credential

import (
	"fmt"

	"github.com/bursar/bursar/internal/regularfile"
)

// FileError refuses a field of a configuration that names a file, or the file itself.
type FileError struct {
	// Field is its path in the configuration, such as "tls.cert".
	Field string
	// File is the value of the field; empty if a required field is not set.
	File string
	// Wrong is the fault, Want a correct value.
	Wrong, Want string
	// Later means that the file can be read and that time may mend the fault: the certificate is
	// not valid at this time, or key and certificate do not match, as while both are being
	// replaced.
	Later bool
	// Err is the error of the operating system or of a parser; nil if there is none.
	Err error
}

func (e *FileError) Error() string {
	return fmt.Sprintf("%s: %q: %s: want %s", e.Field, e.File, e.Wrong, e.Want)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// Transient reports whether time may mend the fault: the file cannot be read now, or Later is set.
// A person must correct all other faults.
func (e *FileError) Transient() bool { return e.Later || regularfile.Transient(e.Err) }

// CertificateError refuses the certificate of a client.
type CertificateError struct {
	Subject string
	Want    string
	Err     error // the reason; nil if the server takes no client certificates
}

func (e *CertificateError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("client certificate of %q: want %s", e.Subject, e.Want)
	}
	return fmt.Sprintf("client certificate of %q: %v: want %s", e.Subject, e.Err, e.Want)
}

// Unwrap returns the reason of the refusal.
func (e *CertificateError) Unwrap() error { return e.Err }

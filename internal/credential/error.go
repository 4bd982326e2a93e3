package credential

import (
	"fmt"

	"github.com/bursar/bursar/internal/regularfile"
)

// FileError refuses a field of a configuration that names a file, or the file.
type FileError struct {
	// Field is its path in the configuration, such as "tls.cert".
	Field string
	// File is what the field says; empty if it is not set and should be.
	File string
	// Wrong is what is wrong, Want what would be right.
	Wrong, Want string
	// Later says that time may mend it although the file can be read: the certificate is not valid
	// at this time, or the key is that of another one, as while both are being replaced.
	Later bool
	// Err is the operating system's error, or that of a parser; nil if there is none.
	Err error
}

func (e *FileError) Error() string {
	return fmt.Sprintf("%s: %q: %s: want %s", e.Field, e.File, e.Wrong, e.Want)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// Transient reports whether time may mend this: the file cannot be read now, or Later is set. Any
// other content has to be put right by a person.
func (e *FileError) Transient() bool { return e.Later || regularfile.Transient(e.Err) }

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

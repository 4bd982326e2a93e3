package credential

import "time"

// File is one of several files that are read together, such as a keytab and the configuration of
// Kerberos.
type File struct {
	// Field is the path of the configuration field, Path its value.
	Field, Path string
	// Secret files must belong to root or to the user of this process, only their owner may write
	// them, and not every user may read them (0600 or 0640).
	Secret bool
	// Want describes a correct file, for errors.
	Want string
}

// Wrong returns an error that refuses the file.
func (f File) Wrong(wrong string, err error) *FileError {
	return &FileError{Field: f.Field, File: f.Path, Wrong: wrong, Want: f.Want, Err: err}
}

// FileSet is a value that is parsed from some files, and parsed again when one of them changes.
type FileSet[T any] struct{ files *bundle[T] }

// OpenFileSet reads the files and calls of with their contents, in the order of the files. Get
// returns the result. The error of the function goes to logs, so it must not contain any content of
// a secret file. OpenFileSet returns a *FileError, or the error of the function.
func OpenFileSet[T any](files []File, options Options, of func(contents [][]byte) (T, error)) (*FileSet[T], error) {
	var list []file
	for _, f := range files {
		list = append(list, file{f.Field, f.Path, f.Secret, f.Want})
	}
	opened, err := openBundle(list, options.withDefaults(), func(contents [][]byte, _ time.Time) (T, error) { return of(contents) })
	if err != nil {
		return nil, err
	}
	return &FileSet[T]{files: opened}, nil
}

// Get returns the last good value of the files. It returns the same pointer until the value
// changes.
func (s *FileSet[T]) Get() *T { return s.files.get() }

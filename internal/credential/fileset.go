package credential

import "time"

// File is one of several files that are read together, such as a keytab and the configuration of
// Kerberos.
type File struct {
	// Field is the path of the field that names it, Path what the field says.
	Field, Path string
	// Secret files are of root or of the user of this process, who alone may change them, and are
	// not readable for everybody (0600 or 0640).
	Secret bool
	// Want is what would be right, if the file cannot be used.
	Want string
}

// Wrong refuses the file.
func (f File) Wrong(wrong string, err error) *FileError {
	return &FileError{Field: f.Field, File: f.Path, Wrong: wrong, Want: f.Want, Err: err}
}

// FileSet is what was made of some files, and is made again when one of them changes.
type FileSet[T any] struct{ files *bundle[T] }

// OpenFileSet reads the files and makes of their contents, in the order of the files, what Get
// returns. The contents of secret files are secret: the error that of returns goes to logs, and
// must not hold any of them. The error is a *FileError, or what of returned.
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

// Get returns what the files say, or said when they were last right: the same pointer for as long
// as that is the same.
func (s *FileSet[T]) Get() *T { return s.files.get() }
